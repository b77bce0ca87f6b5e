//! TLS between the node and the API server: a client certificate, and the server's certificate checked
//! against the CA of the cluster.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Instant;

use testbed::agent::LONGEST_WAIT;
use testbed::booted::config::full_config;
use testbed::booted::host::Host;
use testbed::control_plane::{Cluster, Fault};

/// TLS server in front of another server.
pub(crate) struct TlsTerminator(Child);

impl TlsTerminator {
    /// Start on a free port, and return it.
    pub(crate) fn start_on_free_port(host: &Host, to: &str) -> (Self, u16) {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        (Self::start(host, port, to), port)
    }

    /// Start on a free port for clients with and without a certificate, and return the port.
    pub(crate) fn of_any_client_on_free_port(host: &Host, to: &str) -> (Self, u16) {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        (Self::start_with(host, port, to, "verify=0"), port)
    }

    fn start(host: &Host, port: u16, to: &str) -> Self {
        Self::start_with(host, port, to, "verify=1")
    }

    fn start_with(host: &Host, port: u16, to: &str, verify: &str) -> Self {
        let at = |name: &str| host.path("media").join(name).display().to_string();
        let listen = format!(
            "OPENSSL-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr,cert={},key={},cafile={},{verify}",
            at("server.pem"),
            at("server.key"),
            at("authority.pem")
        );
        // In a process group of its own, with the processes of its connections.
        let mut socat = Command::new("socat");
        let child = socat.arg(listen).arg(format!("TCP:{to}")).process_group(0).spawn().unwrap();
        let end = Instant::now() + LONGEST_WAIT;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "socat does not listen on port {port}");
        }
        Self(child)
    }
}

impl Drop for TlsTerminator {
    fn drop(&mut self) {
        // With its connections: they would carry requests for as long as the other server answers.
        let group = rustix::process::Pid::from_child(&self.0);
        if let Err(error) = rustix::process::kill_process_group(group, rustix::process::Signal::KILL) {
            eprintln!("socat is gone: {error}");
        }
        drop(self.0.wait());
    }
}

fn openssl(directory: &Path, arguments: &str) {
    let output = Command::new("openssl").current_dir(directory).args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "{arguments}: {output:?}");
}

/// Create a CA with certificates for the API server and for the node's client.
pub(crate) fn make_certificates(host: &Host) {
    let directory = host.path("media");
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(
        &directory,
        &format!("req -x509 {key} -keyout authority.key -out authority.pem -subj /CN=authority"),
    );
    fs::write(directory.join("server.ext"), "subjectAltName=IP:127.0.0.1").unwrap();
    sign(&directory, "server");
    fs::write(directory.join("client.ext"), "extendedKeyUsage=clientAuth").unwrap();
    sign(&directory, "client");
}

fn sign(directory: &Path, name: &str) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(directory, &format!("req {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
    let by = "-CA authority.pem -CAkey authority.key -CAcreateserial -days 2";
    openssl(directory, &format!("x509 -req -in {name}.csr -out {name}.pem {by} -extfile {name}.ext"));
}

/// Kubeconfig that names its certificates by path, so that they can be replaced, as the kubelet's does.
pub(crate) fn kubeconfig(port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"https://127.0.0.1:{port}\", certificate-authority: /run/media/authority.pem}}}}]\n\
         users: [{{name: u, user: {{client-certificate: /run/media/client.pem, client-key: /run/media/client.key}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\ncurrent-context: c\n"
    )
}

#[test]
fn client_certificate_identifies_the_node_and_foreign_server_is_refused() {
    testbed::preconditions::require_installed(&["socat"]);
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("two").json());
    make_certificates(&host);
    let (terminator, port) = TlsTerminator::start_on_free_port(&host, cluster.proxy.address());
    for file in ["kubeconfig", "kubelet"] {
        fs::write(host.path("media").join(file), kubeconfig(port)).unwrap();
    }
    let mut agent = cluster.start_introduced_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    // Foreign server, with a certificate of another CA.
    drop(terminator);
    cluster.proxy.fail(Fault::Reset);
    let kept = ["authority.pem", "authority.key", "client.pem", "client.key"];
    let kept = kept.map(|name| (name, fs::read(host.path("media").join(name)).unwrap()));
    make_certificates(&host);
    let foreign_certificate = fs::read(host.path("media/server.pem")).unwrap();
    assert!(!foreign_certificate.is_empty());
    let foreign = TlsTerminator::start(&host, port, cluster.proxy.address());
    for (name, contents) in &kept {
        fs::write(host.path("media").join(name), contents).unwrap();
    }
    cluster.proxy.fail(Fault::None);
    cluster.proxy.clear();
    cluster.set_desired_config("rendered-two");
    while !agent.wait_for_line("warn: ").contains("invalid peer certificate") {}
    assert!(cluster.proxy.log().requests.is_empty(), "a request reached the foreign server");
    // The cluster's server is back, and the kubelet's certificate has been replaced.
    drop(foreign);
    sign(&host.path("media"), "server");
    sign(&host.path("media"), "client");
    let _terminator = TlsTerminator::start(&host, port, cluster.proxy.address());
    agent.wait_for_line("ShuttingDown rendered-two");
}

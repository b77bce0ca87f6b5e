//! The API server as nodes reach it: over TLS, with a certificate of each side's own.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command},
    time::Instant,
};

use testbed::{
    agent::PATIENT,
    booted::{config::whole, host::Host},
    control_plane::{Cluster, Fault},
};

/// It ends TLS in front of the proxy, and asks for the client's certificate.
struct Terminator(Child);

impl Terminator {
    fn start(host: &Host, port: u16, to: &str) -> Self {
        let at = |name: &str| host.path("media").join(name).display().to_string();
        let listen = format!(
            "OPENSSL-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr,cert={},key={},cafile={},verify=1",
            at("server.pem"),
            at("server.key"),
            at("authority.pem")
        );
        let child = Command::new("socat").arg(listen).arg(format!("TCP:{to}")).spawn().unwrap();
        let end = Instant::now() + PATIENT;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "nobody listens");
        }
        Self(child)
    }
}

impl Drop for Terminator {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn openssl(directory: &Path, arguments: &str) {
    let output = Command::new("openssl").current_dir(directory).args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "{arguments}: {output:?}");
}

/// An authority, and certificates of it for the API server and for a client of this name.
fn make_certificates(host: &Host) {
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

/// As the kubelet's is: certificates by path, so that those can be replaced.
fn kubeconfig(port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"https://127.0.0.1:{port}\", certificate-authority: /run/media/authority.pem}}}}]\n\
         users: [{{name: u, user: {{client-certificate: /run/media/client.pem, client-key: /run/media/client.key}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\ncurrent-context: c\n"
    )
}

#[test]
fn a_node_is_known_by_its_certificate_and_trusts_its_own_cluster_only() {
    testbed::preconditions::require_installed(&["socat"]);
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(whole("two").json());
    make_certificates(&host);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for file in ["kubeconfig", "kubelet"] {
        fs::write(host.path("media").join(file), kubeconfig(port)).unwrap();
    }
    let terminator = Terminator::start(&host, port, cluster.proxy.address());
    let mut agent = cluster.agent_as_introduced(&host);
    agent.says("Done rendered-one");
    cluster.is_told("Updated: True");
    // Somebody else's server, with a certificate of an authority that nobody here knows.
    drop(terminator);
    cluster.proxy.fail(Fault::Reset);
    let kept = ["authority.pem", "authority.key", "client.pem", "client.key"];
    let kept = kept.map(|name| (name, fs::read(host.path("media").join(name)).unwrap()));
    make_certificates(&host);
    let strangers = fs::read(host.path("media/server.pem")).unwrap();
    assert!(!strangers.is_empty());
    let stranger = Terminator::start(&host, port, cluster.proxy.address());
    for (name, contents) in &kept {
        fs::write(host.path("media").join(name), contents).unwrap();
    }
    cluster.proxy.fail(Fault::None);
    cluster.proxy.forget();
    cluster.want("rendered-two");
    while !agent.says("warn: ").contains("invalid peer certificate") {}
    assert!(cluster.proxy.record().asked.is_empty(), "a stranger was told something");
    // The cluster's own is back, and the kubelet's certificate was replaced meanwhile.
    drop(stranger);
    sign(&host.path("media"), "server");
    sign(&host.path("media"), "client");
    let _terminator = Terminator::start(&host, port, cluster.proxy.address());
    agent.says("ShuttingDown rendered-two");
}

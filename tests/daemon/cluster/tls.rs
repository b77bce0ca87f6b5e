//! TLS between the node and the API server: a client certificate, and the server's certificate checked
//! against the CA of the cluster.

use std::fs;
use std::path::Path;
use std::process::Command;

use testbed::booted::config::full_config;
use testbed::booted::host::Host;
use testbed::control_plane::{Cluster, Fault};
use testbed::executables;
use testbed::tls_terminator::{AcceptedClients, TlsTerminator};

/// Start a TLS server on a free port for clients with a certificate, with the certificates of the host.
pub(crate) fn start_terminator(host: &Host, to: &str) -> TlsTerminator {
    TlsTerminator::start(&host.path("media"), None, to, AcceptedClients::Certified)
}

/// Have the host reach the API server by TLS, with a client certificate.
fn reach_by_tls(host: &Host, cluster: &Cluster) -> TlsTerminator {
    make_certificates(host);
    let terminator = start_terminator(host, cluster.proxy.address());
    for file in ["kubeconfig", "kubelet"] {
        fs::write(host.path("media").join(file), kubeconfig(terminator.port())).unwrap();
    }
    terminator
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
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("two").json());
    let terminator = reach_by_tls(&host, &cluster);
    let port = terminator.port();
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
    let start_again = || {
        let (directory, to) = (host.path("media"), cluster.proxy.address());
        TlsTerminator::start(&directory, Some(port), to, AcceptedClients::Certified)
    };
    let foreign = start_again();
    for (name, contents) in &kept {
        fs::write(host.path("media").join(name), contents).unwrap();
    }
    cluster.proxy.fail(Fault::None);
    cluster.proxy.clear();
    cluster.set_desired_config("rendered-two");
    while !is_about_the_certificate(&agent.wait_for_line("warning: ")) {}
    assert!(cluster.proxy.log().requests.is_empty(), "a request reached the foreign server");
    // The cluster's server is back, and the kubelet's certificate has been replaced.
    drop(foreign);
    sign(&host.path("media"), "server");
    sign(&host.path("media"), "client");
    let _terminator = start_again();
    agent.wait_for_line("ShuttingDown rendered-two");
}

/// Return true for the error of either library.
fn is_about_the_certificate(line: &str) -> bool {
    line.contains("invalid peer certificate") || line.contains("certificate verify failed")
}

#[test]
fn kernel_in_fips_mode_gets_no_tls_of_the_agents_own() {
    let (host, cluster) = Cluster::with_node_on("one");
    let _terminator = reach_by_tls(&host, &cluster);
    host.set_fips_mode(true);
    cluster.proxy.clear();
    let mut agent = cluster.start_introduced_agent(&host);
    if !executables::has_tls_of_its_own() {
        return drop(agent.wait_for_line("Done rendered-one"));
    }
    while !agent.wait_for_line("warning: ").contains("the kernel is in FIPS mode, and this build") {}
    assert!(cluster.proxy.log().requests.is_empty(), "a request reached the server");
}

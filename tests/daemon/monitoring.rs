//! Manifests in `deploy/kubernetes/monitoring`: each field is known to the object's type, MCD's nodes and adopted ones
//! are told apart, and the daemon behind a proxy such as theirs is read by clients with a token only.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use osimage::Os;
use serde::Deserialize;
use serde_json::Value;
use testbed::agent::Agent;
use testbed::booted::host::Host;
use testbed::tls_terminator::{AcceptedClients, TlsTerminator};

use crate::cluster::tls::make_certificates;
use crate::deployment::{assert_valid, documents, manifest_names};

const FOLDER: &str = "monitoring";

/// Fields of a `ServiceMonitor` (`monitoring.coreos.com/v1`) that these manifests may use.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ServiceMonitor {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(rename = "metadata")]
    _metadata: Value,
    spec: ServiceMonitorSpec,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ServiceMonitorSpec {
    job_label: String,
    namespace_selector: NamespaceSelector,
    selector: LabelSelector,
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NamespaceSelector {
    match_names: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LabelSelector {
    match_labels: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Endpoint {
    port: String,
    scheme: String,
    path: String,
    #[serde(rename = "interval")]
    _interval: String,
    #[serde(rename = "bearerTokenFile")]
    _bearer_token_file: String,
    tls_config: TlsConfig,
    relabelings: Vec<Relabeling>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TlsConfig {
    #[serde(rename = "caFile")]
    _ca_file: String,
    server_name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Relabeling {
    #[serde(rename = "action")]
    _action: String,
    source_labels: Vec<String>,
    #[serde(rename = "separator")]
    _separator: String,
    #[serde(rename = "regex")]
    _regex: String,
    #[serde(rename = "replacement")]
    _replacement: String,
    target_label: String,
}

fn only<T: serde::de::DeserializeOwned>(name: &str) -> T {
    serde_json::from_value(documents(&format!("{FOLDER}/{name}")).remove(0)).unwrap()
}

#[test]
fn monitoring_manifests_are_listed_and_have_known_fields_only() {
    let component = &documents(&format!("{FOLDER}/kustomization.yaml"))[0];
    assert_eq!(component["kind"], "Component");
    let listed: BTreeSet<String> = serde_json::from_value(component["resources"].clone()).unwrap();
    let files = manifest_names(FOLDER);
    assert_eq!(listed, files);
    for document in files.iter().flat_map(|name| documents(&format!("{FOLDER}/{name}"))) {
        match document["kind"].as_str().unwrap() {
            "ServiceAccount" => assert_valid::<ServiceAccount>(&document),
            "ClusterRoleBinding" => assert_valid::<ClusterRoleBinding>(&document),
            "RoleBinding" => assert_valid::<RoleBinding>(&document),
            "ConfigMap" => assert_valid::<ConfigMap>(&document),
            "DaemonSet" => assert_valid::<DaemonSet>(&document),
            "Service" => assert_valid::<Service>(&document),
            "ServiceMonitor" => drop(serde_json::from_value::<ServiceMonitor>(document).unwrap()),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn adopted_nodes_are_monitored_under_the_job_of_mcd_and_once() {
    let (pods, service): (DaemonSet, Service) = (only("daemon-set.yaml"), only("service.yaml"));
    let monitor: ServiceMonitor = only("service-monitor.yaml");
    let pod = pods.spec.unwrap().template;
    let (pod_labels, pod) = (pod.metadata.unwrap().labels.unwrap(), pod.spec.unwrap());
    let (service_labels, service_name) = (service.metadata.labels.unwrap(), service.metadata.name.unwrap());
    let (service, container) = (service.spec.unwrap(), &pod.containers[0]);
    // Only adopted nodes, and never under the labels of MCD's own Service and ServiceMonitor.
    let adopted = [("flameholder/agent".to_owned(), "flameholder".to_owned())];
    assert_eq!(pod.node_selector.unwrap(), BTreeMap::from(adopted));
    for labels in [&pod_labels, &service_labels] {
        assert!(!labels.contains_key("k8s-app"), "{labels:?}");
    }
    // The ServiceMonitor finds the Service, which finds the pods.
    let is_subset = |part: &BTreeMap<String, String>, all: &BTreeMap<String, String>| {
        !part.is_empty() && part.iter().all(|(key, value)| all.get(key) == Some(value))
    };
    assert!(is_subset(&service.selector.unwrap(), &pod_labels));
    assert!(is_subset(&monitor.spec.selector.match_labels, &service_labels));
    assert_eq!(service_labels[&monitor.spec.job_label], "machine-config-daemon");
    let namespace = "openshift-machine-config-operator";
    assert_eq!(monitor.spec.namespace_selector.match_names, [namespace]);
    let endpoint = &monitor.spec.endpoints[0];
    assert_eq!((&*endpoint.scheme, &*endpoint.path), ("https", "/metrics"));
    assert_eq!(endpoint.port, service.ports.unwrap()[0].name.clone().unwrap());
    assert_eq!(endpoint.tls_config.server_name, format!("{service_name}.{namespace}.svc"));
    let relabeling = &endpoint.relabelings[0];
    assert_eq!(relabeling.source_labels, ["node", "__meta_kubernetes_pod_node_name"]);
    assert_eq!(relabeling.target_label, "node");
    // MCD's port on the node's network: the scheduler never has both proxies on one node.
    assert_eq!(pod.host_network, Some(true));
    let port = &container.ports.as_ref().unwrap()[0];
    assert_eq!((port.container_port, port.host_port), (9001, Some(9001)));
    let arguments = container.args.as_ref().unwrap();
    assert!(arguments.contains(&"--secure-listen-address=0.0.0.0:9001".to_owned()), "{arguments:?}");
    assert!(arguments.contains(&"--upstream=http://127.0.0.1:8797".to_owned()), "{arguments:?}");
    let is_privileged = container.security_context.as_ref().unwrap().privileged;
    assert_ne!(is_privileged, Some(true));
}

#[test]
fn image_of_the_proxy_is_a_parameter_with_a_digest() {
    let component = &documents(&format!("{FOLDER}/kustomization.yaml"))[0];
    let image = &component["images"][0];
    let pods: DaemonSet = only("daemon-set.yaml");
    let used = pods.spec.unwrap().template.spec.unwrap().containers.remove(0).image.unwrap();
    assert_eq!(image["name"], used.as_str());
    assert!(image["digest"].as_str().unwrap().starts_with("sha256:"));
    assert!(image["newTag"].is_null(), "a tag may change its meaning");
}

/// Token that the stand-in for kube-rbac-proxy accepts.
const TOKEN: &str = "monitoring";

/// Stand-in for the part of kube-rbac-proxy behind TLS: forwards requests with the right token, and answers others as
/// it does.
fn token_proxy(upstream: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            // A client that goes away ends its own request.
            drop(forward(&client, upstream));
        }
    });
    address
}

fn forward(mut client: &TcpStream, upstream: SocketAddr) -> std::io::Result<()> {
    let lines: Result<Vec<String>, _> = BufReader::new(client)
        .lines()
        .take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
        .collect();
    let lines = lines?;
    let token = lines.iter().find_map(|line| line.strip_prefix("Authorization: Bearer "));
    match token {
        None => {
            client.write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
        Some(token) if token != TOKEN => {
            client.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
        Some(_) => {
            let mut daemon = TcpStream::connect(upstream)?;
            // The token stays at the proxy.
            let passed = lines.iter().filter(|line| !line.starts_with("Authorization:"));
            let request: String = passed.map(|line| format!("{line}\r\n")).collect();
            daemon.write_all(format!("{request}\r\n").as_bytes())?;
            std::io::copy(&mut daemon, &mut client).map(drop)
        }
    }
}

#[test]
fn metrics_behind_a_tls_proxy_are_read_with_a_token_only() {
    testbed::preconditions::require_installed(&["curl"]);
    let host = Host::install(Os::new(1));
    let mut agent = Agent::start(&host, &["--source", "dir:/run/media/desired.json"]);
    agent.wait_for_line("Idle");
    make_certificates(&host);
    let proxy = token_proxy(agent.metrics_address()).to_string();
    let terminator = TlsTerminator::start(&host.path("media"), None, &proxy, AcceptedClients::Any);
    let port = terminator.port();
    let authority = host.path("media/authority.pem");
    let read = |token: Option<&str>, accept: &str| {
        let header = token.map(|token| format!("Authorization: Bearer {token}"));
        let header = header.iter().flat_map(|header| ["--header", header]);
        let output = Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--noproxy",
                "*",
                "--write-out",
                "\n%{http_code} %{content_type}",
            ])
            .args(["--header", &format!("Accept: {accept}"), "--cacert"])
            .arg(&authority)
            .args(header)
            .arg(format!("https://127.0.0.1:{port}/metrics"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (body.to_owned(), status.trim().to_owned())
    };
    for (token, status) in [(None, "401"), (Some("another"), "403")] {
        assert_eq!(read(token, "*/*"), (String::new(), status.to_owned()));
    }
    let (body, status) = read(Some(TOKEN), "text/plain");
    assert_eq!(status, "200 text/plain; version=0.0.4; charset=utf-8");
    assert!(body.contains("flameholder_phase{phase=\"Idle\"} 1\n"), "{body}");
    let (body, status) = read(Some(TOKEN), "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    assert_eq!(status, "200 application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(body.ends_with("# EOF\n"), "{body}");
}

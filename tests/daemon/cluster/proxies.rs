//! Proxies between the node, the API server and the registry, and the identity behind them.

use std::collections::BTreeSet;
use std::fs;

use osimage::Os;
use serde_json::json;
use testbed::booted::config::full_config;
use testbed::control_plane::{Cluster, ConnectProxy, KUBELET, RequestLog};
use testbed::output_lines::LONGEST_WAIT;

use crate::cluster::tls;

/// No program listens on this port.
const DEAD_PROXY: &str = "http://user:very-secret@127.0.0.1:1";

/// Run the machine's skopeo and note the proxies in its environment.
const SKOPEO: &str = "#!/bin/sh\nenv | grep -i _proxy= >> /run/media/proxies\nexec /usr/bin/skopeo \"$@\"\n";

#[test]
fn proxies_of_the_environment_reach_skopeo_and_not_the_client_of_the_api_server() {
    let (host, cluster) = Cluster::with_node_on("one");
    host.put_script("skopeo", SKOPEO);
    let mut two = full_config("two").json().clone();
    two["spec"]["osImageURL"] = json!(host.image(&Os::new(2)));
    cluster.render(&two);
    let environment = [
        ("HTTP_PROXY", DEAD_PROXY),
        ("HTTPS_PROXY", DEAD_PROXY),
        ("https_proxy", DEAD_PROXY),
        // Not in the form that the client library parses.
        ("NO_PROXY", ".cluster.local,"),
    ];
    let mut agent = cluster.start_agent_with_environment(&host, &environment);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("ShuttingDown rendered-two");
    let seen = fs::read_to_string(host.path("media/proxies")).unwrap();
    for (name, value) in environment {
        assert!(seen.lines().any(|line| line == format!("{name}={value}")), "{name}: {seen}");
    }
    assert!(!agent.output().contains("very-secret"), "{}", agent.output());
    assert!(!agent.metrics().contains("very-secret"));
}

#[test]
fn proxy_of_the_kubeconfig_is_used_and_its_password_stays_secret() {
    let (host, cluster) = Cluster::with_node_on("one");
    cluster.render(full_config("two").json());
    tls::make_certificates(&host);
    let terminator = tls::start_terminator(&host, cluster.proxy.address());
    let port = terminator.port();
    let proxy = ConnectProxy::start();
    let write = |proxy: &str| {
        for file in ["kubeconfig", "kubelet"] {
            let entry = format!("proxy-url: \"http://user:very%2Dsecret@{proxy}\", certificate-authority:");
            let text = tls::kubeconfig(port).replace("certificate-authority:", &entry);
            fs::write(host.path("media").join(file), text).unwrap();
        }
    };
    // First a proxy that is out of reach: the error names no password.
    write("127.0.0.1:1");
    let mut agent = cluster.start_introduced_agent(&host);
    agent.wait_for_line("warning: the API server cannot be reached");
    assert!(cluster.proxy.log().requests.is_empty(), "requests pass by the proxy");
    write(&proxy.address().to_string());
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    cluster.set_desired_config("rendered-two");
    agent.wait_for_line("ShuttingDown rendered-two");
    let requests = proxy.requests();
    // `user:very-secret`, decoded from the URL.
    let credentials = "Proxy-Authorization: Basic dXNlcjp2ZXJ5LXNlY3JldA==\r\n";
    let is_tunnel = |request: &String| {
        request.starts_with(&format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n"))
            && request.contains(credentials)
    };
    assert!(!requests.is_empty() && requests.iter().all(is_tunnel), "{requests:?}");
    let arguments = fs::read(format!("/proc/{}/cmdline", agent.pid())).unwrap();
    let status = host.run(["flameholder", "status", "-o", "json"]).stdout;
    let shown = [agent.output(), agent.metrics(), String::from_utf8_lossy(&arguments).into_owned(), status];
    for text in shown {
        for secret in ["very", "dXNlcjp2ZXJ5"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
    let written = cluster.proxy.log().requests;
    let mut bodies = written.iter().map(|request| String::from_utf8_lossy(&request.body));
    assert!(!bodies.any(|body| body.contains("secret")), "an object in the cluster has the password");
    drop(terminator);
}

#[test]
fn token_in_a_file_identifies_in_place_of_the_user_of_the_kubeconfig() {
    let (host, cluster) = Cluster::with_node_on("one");
    fs::write(host.path("media/token"), "of-the-pod\n").unwrap();
    let environment = [("FLAMEHOLDER_TOKEN_FILE", "/run/media/token")];
    let mut agent = cluster.start_agent_with_environment(&host, &environment);
    let refused = agent.wait_for_line("warning: ");
    assert!(
        refused.contains("/run/media/token cannot be used") && refused.contains("line feed"),
        "{refused}"
    );
    fs::write(host.path("media/token"), "of-the-pod").unwrap();
    let identities = |log: &RequestLog| -> BTreeSet<String> {
        log.requests.iter().map(|request| request.identity.clone()).collect()
    };
    let both = BTreeSet::from(["of-the-pod".to_owned(), KUBELET.to_owned()]);
    let seen = cluster.proxy.wait(LONGEST_WAIT, |log| identities(log).is_superset(&both));
    assert!(seen.is_some(), "{:?}: {}", identities(&cluster.proxy.log()), agent.output());
    assert_eq!(identities(&cluster.proxy.log()), both, "the user of the kubeconfig is `flameholder`");
}

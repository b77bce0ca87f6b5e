//! Contents of managed files and units, and the output of health checks, stay on the host: none is in an output of the
//! agent.

use std::fs;

use serde_json::{Value, json};
use testbed::booted::config::{Config, full_config};
use testbed::booted::host::Host;
use testbed::control_plane::Cluster;
use testbed::model::document::file;

/// Secrets as they stand in files: the text of the file, and the part that must appear nowhere. `@` is replaced by the
/// number of the config.
const SECRETS: [(&str, &str); 20] = [
    ("[Interface]\nPrivateKey = wgPrivate@AAAA=\n", "wgPrivate@"),
    ("[Peer]\nPresharedKey = wgShared@AAAA=\n", "wgShared@"),
    ("DB_PASS=dbpass@\n", "dbpass@"),
    ("PGPASSWORD=pgpass@\n", "pgpass@"),
    ("aws_access_key_id = AKIA@EXAMPLE\n", "AKIA@EXAMPLE"),
    ("aws_secret_access_key = awsSecret@\n", "awsSecret@"),
    ("{\"private_key_id\": \"gcpKey@\"}\n", "gcpKey@"),
    ("AZURE_CLIENT_SECRET: azure~@\n", "azure~@"),
    ("Authorization: Bearer bearer@.x.y\n", "bearer@"),
    ("GITHUB_TOKEN=ghp_@abc\n", "ghp_@"),
    ("SLACK=xoxb-@-1\n", "xoxb-@"),
    ("-----BEGIN PRIVATE KEY-----\npemBody@\n-----END PRIVATE KEY-----\n", "pemBody@"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nopensshBody@\n", "opensshBody@"),
    ("users: [{name: a, user: {client-key-data: kubeKey@}}]\n", "kubeKey@"),
    ("users: [{name: a, user: {token: kubeToken@}}]\n", "kubeToken@"),
    ("machine x login y password netrc@\n", "netrc@"),
    ("proxy=http://u:urlpass@@p:1/\n", "urlpass@"),
    ("{\"auths\": {\"q\": {\"auth\": \"dockerAuth@\"}}}\n", "dockerAuth@"),
    ("community snmp@ ro\n", "snmp@"),
    ("psk=wifi@\n", "wifi@"),
];
/// Secret in the environment of a unit, in a drop-in, and in the output of a health check.
const IN_UNIT: &str = "unitSecret@";
const IN_DROP_IN: &str = "dropInSecret@";
const PRINTED: &str = "printedSecret@";

/// Config with all secrets of this number, in files that every user may read and whose names tell nothing.
fn config(name: &str, number: &str) -> Value {
    let with = |text: &str| text.replace('@', number);
    let check = format!("#!/bin/sh\necho login failed: {}\nexit 1\n", with(PRINTED));
    let mut config = Config::new(name, &[("/etc/app/a.conf", "public\n")])
        .file_with_mode("/etc/flameholder/health.d/10-app", 0o755, &check)
        .json()
        .clone();
    let files = config.pointer_mut("/spec/config/storage/files").unwrap().as_array_mut().unwrap();
    for (index, (text, _)) in SECRETS.iter().enumerate() {
        files.push(file(&format!("/etc/app/{index}.conf"), &with(text)));
    }
    let environment = |secret: &str| format!("[Service]\nEnvironment=A={}\n", with(secret));
    config["spec"]["config"]["systemd"] = json!({"units": [{
        "name": "app.service", "enabled": true,
        "contents": environment(IN_UNIT) + "ExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
        "dropins": [{"name": "10-a.conf", "contents": environment(IN_DROP_IN)}]}]});
    config
}

/// Secrets of both configs in `text`.
fn leaks(text: &str) -> Vec<String> {
    let units = [IN_UNIT, IN_DROP_IN, PRINTED];
    let secrets = SECRETS.iter().map(|(_, secret)| *secret).chain(units);
    let numbered = secrets.flat_map(|secret| ["1", "2"].map(|number| secret.replace('@', number)));
    numbered.filter(|secret| text.contains(secret)).collect()
}

/// Output of every command that reads configs or the state of the host.
fn commands(host: &Host) -> Vec<(String, String)> {
    let [first, second] =
        ["1", "2"].map(|number| host.config(&config(&format!("rendered-secret-{number}"), number)));
    let rows: Vec<Vec<&str>> = vec![
        vec!["status"],
        vec!["status", "-o", "json"],
        vec!["verify"],
        vec!["verify", "-o", "json"],
        vec!["etc-diff"],
        vec!["plan", "--desired", &second],
        vec!["plan", "--desired", &second, "-o", "json"],
        vec!["plan", "--current", &first, "--desired", &second],
        vec!["plan", "--current", &first, "--desired", &second, "-o", "json"],
        vec!["apply", "--desired", &first, "--override-source"],
        vec!["unstage", "--override-source"],
        vec!["recover"],
    ];
    let run = |row: Vec<&str>| {
        let outcome = host.run([&["flameholder"], &*row].concat());
        (row.join(" "), outcome.stdout + &outcome.stderr)
    };
    rows.into_iter().map(run).collect()
}

fn login_messages(host: &Host) -> Vec<(String, String)> {
    let places = ["motd.d/60-flameholder.motd", "issue.d/60-flameholder.issue"].into_iter();
    places
        .map(|place| (place.to_owned(), fs::read_to_string(host.path("run").join(place)).unwrap()))
        .collect()
}

#[test]
fn contents_and_outputs_of_checks_are_in_no_output() {
    let (host, cluster) = Cluster::with_node_on("one");
    let secret = config("rendered-secret-1", "1");
    cluster.render(&secret);
    cluster.render(full_config("three").json());
    let mut seen = Vec::new();
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.set_desired_config("rendered-secret-1");
    agent.wait_for_line("ShuttingDown rendered-secret-1");
    seen.extend([("daemon that stages".to_owned(), agent.output()), ("metrics".to_owned(), agent.metrics())]);
    seen.push(("objects of the cluster".to_owned(), cluster.published()));
    drop(agent);

    host.shut_down();
    fs::create_dir_all(host.etc("flameholder/config.d")).unwrap();
    let boot = host.boot();
    assert!(boot.requests_reboot(), "the boot check fails: {boot:?}");
    seen.push(("boot".to_owned(), format!("{boot:?}")));
    seen.extend(login_messages(&host));
    seen.extend(commands(&host));
    host.power_cut();
    host.boot().assert_success();

    let mut agent = cluster.start_introduced_agent(&host);
    agent.wait_for_line("Blocked rendered-secret-1");
    cluster.wait_for_event("FailedToReconcile");
    seen.extend([
        ("daemon that is blocked".to_owned(), agent.output()),
        ("metrics".to_owned(), agent.metrics()),
    ]);
    seen.push(("objects of the cluster".to_owned(), cluster.published()));
    seen.extend(login_messages(&host));
    seen.extend(commands(&host));
    let found: Vec<String> = seen
        .iter()
        .flat_map(|(place, text)| leaks(text).into_iter().map(move |secret| format!("{place}: {secret}")))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    // The search finds what an operator asks for.
    let [first, second] =
        ["1", "2"].map(|number| host.config(&config(&format!("rendered-secret-{number}"), number)));
    let shown = host.run_ok([
        "flameholder",
        "plan",
        "--current",
        &first,
        "--desired",
        &second,
        "--show-contents=yes",
    ]);
    assert_eq!(leaks(&shown).len(), 2 * (SECRETS.len() + 3), "{shown}");
}

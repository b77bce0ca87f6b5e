//! Drift of a running host: repaired by the daemon and by `verify --repair`, and left as it is where another program
//! undoes each repair.

use osimage::Os;
use serde_json::Value;
use testbed::agent::Agent;
use testbed::booted::config::{Config, full_config};
use testbed::booted::fips::confirmed_host_out_of_fips_mode;
use testbed::booted::host::{Host, confirmed_host};
use testbed::dbus::fake_systemd::Script;

use crate::directory::{SOURCE, daemon_report, set_desired_config};

const EVERYTHING: &str = "[drift]\ndefault = \"repair\"\n";
const UNIT: &str = "systemd/system/app-one.service";
const SETTINGS: &str = "flameholder/config.d/10-drift.toml";

/// Start the daemon on a host whose applied and desired config is the full config `one`.
fn start_on_confirmed_host() -> (Host, Agent) {
    let host = confirmed_host("one");
    host.write_etc(SETTINGS, EVERYTHING);
    set_desired_config(&host, full_config("one").json());
    let agent = Agent::start(&host, &SOURCE);
    (host, agent)
}

/// Start the daemon on a host with the full config `one` and a changed file, and with this desired config.
fn start_on_drifted_host(desired: &str) -> (Host, Agent) {
    let host = confirmed_host("one");
    host.write_etc(SETTINGS, EVERYTHING);
    host.write_etc("app/a.conf", "other");
    set_desired_config(&host, full_config(desired).json());
    let agent = Agent::start(&host, &SOURCE);
    (host, agent)
}

fn repairs(host: &Host) -> Vec<Value> {
    let history: Value =
        serde_json::from_str(&host.run_ok(["flameholder", "history", "-o", "json", "--lines", "0"])).unwrap();
    let events = history["events"].as_array().unwrap().iter();
    events.filter(|event| event["event"] == "repaired").cloned().collect()
}

#[test]
fn repaired_unit_is_read_again_by_systemd() {
    let (host, mut agent) = start_on_confirmed_host();
    let systemd = agent.start_systemd(Script::default());
    agent.wait_for_line("Done rendered-one");
    host.write_etc("app/a.conf", "other");
    agent.wait_for_line(
        "warning: repaired: /etc/app/a.conf has other content (expected 3 bytes, found 5 bytes)",
    );
    assert!(systemd.calls().is_empty(), "no unit was repaired: {:?}", systemd.calls());
    host.write_etc(UNIT, "[Service]\nExecStart=/bin/false\n");
    agent.wait_for_line("warning: repaired: /etc/systemd/system/app-one.service has other content");
    agent.wait_for_line("Done rendered-one");
    assert_eq!(systemd.calls(), ["Reload"]);
    let text = host.read_etc(UNIT).unwrap();
    assert!(text.contains("ExecStart=/bin/true"), "{text}");
    assert_eq!(agent.reboots(), 0);
    let repairs = repairs(&host);
    assert_eq!(repairs.len(), 2, "{repairs:?}");
    assert_eq!(repairs[1]["paths"], serde_json::json!(["/etc/systemd/system/app-one.service"]));
    assert_eq!(repairs[1]["requester"]["command"], "daemon");
}

#[test]
fn path_that_is_changed_after_each_repair_is_left_after_the_fifth() {
    const FOLDER: &str = "nmstate/openshift";
    let paths: Vec<String> = (0..6).map(|number| format!("/etc/{FOLDER}/{number}.yml")).collect();
    let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "one")).collect();
    let config = Config::new("rendered-one", &files);
    let host = Host::install(Os::new(1));
    assert_eq!(host.apply(&host.config(config.json()), None).code, Some(0));
    host.write_etc(SETTINGS, EVERYTHING);
    set_desired_config(&host, config.json());
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("Done rendered-one");
    let fought_over = format!("{FOLDER}/0.yml");
    for round in 1..6 {
        host.write_etc(&fought_over, "other");
        // Verifications become rare where only the same paths change.
        host.write_etc(&format!("{FOLDER}/{round}.yml"), "other");
        agent.wait_for_line("warning: repaired: /etc/nmstate/openshift/0.yml has other content");
        agent.wait_for_line("Done rendered-one");
    }
    host.write_etc(&fought_over, "again");
    host.write_etc(&format!("{FOLDER}/1.yml"), "other");
    agent.wait_for_line("warning: repaired: /etc/nmstate/openshift/1.yml");
    let refused =
        agent.wait_for_line("warning: not repaired: /etc/nmstate/openshift/0.yml has other content");
    assert!(refused.contains("repaired five times within an hour"), "{refused}");
    agent.wait_for_line("Drifted rendered-one");
    let reason = daemon_report(&host)["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("0.yml has other content (expected 3 bytes, found 5 bytes)"), "{reason}");
    assert_eq!(host.read_etc(&fought_over).as_deref(), Some("again"));
    // An operator decides for himself.
    let repaired = host.run(["flameholder", "verify", "--repair"]);
    assert_eq!(repaired.code, Some(0), "{repaired:?}");
    assert_eq!(host.read_etc(&fought_over).as_deref(), Some("one"));
    agent.wait_for_line("Done rendered-one");
    let last = repairs(&host).last().unwrap().clone();
    assert_eq!(last["requester"]["command"], "verify");
}

#[test]
fn update_that_becomes_desired_before_the_repair_repairs_first() {
    let (host, mut agent) = start_on_drifted_host("two");
    agent.wait_for_line("warning: repaired: /etc/app/a.conf");
    agent.wait_for_line("ShuttingDown rendered-two");
    assert_eq!(repairs(&host).len(), 1);
}

#[test]
fn drift_while_the_daemon_was_down_is_repaired_at_its_start() {
    let (host, mut agent) = start_on_drifted_host("one");
    agent.wait_for_line("warning: repaired: /etc/app/a.conf");
    agent.wait_for_line("Done rendered-one");
    host.assert_no_drift();
}

#[test]
fn config_corrected_for_the_mode_of_the_kernel_is_applied() {
    let host = confirmed_host_out_of_fips_mode("one");
    set_desired_config(&host, full_config("one").fips(true).json());
    let mut agent = Agent::start(&host, &SOURCE);
    let drifted = agent.wait_for_line("Drifted rendered-one");
    assert!(drifted.ends_with("correct `fips` in the config, or reinstall the host"), "{drifted}");
    set_desired_config(&host, full_config("two").json());
    agent.wait_for_line("ShuttingDown rendered-two");
}

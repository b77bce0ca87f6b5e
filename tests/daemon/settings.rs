//! Settings of the daemon from fragments on the host.

use std::fs;

use osimage::Os;
use testbed::agent::Agent;
use testbed::booted::config::{Config, full_config};
use testbed::booted::host::Host;
use testbed::dbus::fake_logind::{Lock, Script};

const FRAGMENT: &str = "flameholder/config.d/50-daemon.toml";
const SOURCE: &str = "[source]\ndesired = \"dir:/run/media/desired.json\"\n";
const BACKUP: Lock = ("shutdown", "backup", "a snapshot is taken", "block", 0, 42);

fn host_that_desires(config: &Config) -> Host {
    let host = Host::install(Os::new(1));
    fs::write(host.path("media/desired.json"), config.json().to_string()).unwrap();
    host
}

fn live_config() -> Config {
    Config::new("rendered-one", &[("/etc/nmstate/openshift/app.yml", "one")])
}

#[test]
fn source_of_the_settings_is_followed_unless_the_environment_names_another() {
    let host = host_that_desires(&live_config());
    host.write_etc(FRAGMENT, SOURCE);
    let mut agent = Agent::start(&host, &[]);
    agent.wait_for_line("Done rendered-one");
    assert_eq!(host.read_etc("nmstate/openshift/app.yml").as_deref(), Some("one"));
    drop(agent);
    let other = [("FLAMEHOLDER_SOURCE", "dir:/run/media/other")];
    let mut agent = Agent::start_with_environment(&host, &[], Script::default(), &other);
    let warning = agent.wait_for_line("warn");
    assert!(warning.contains("/run/media/other"), "{warning}");
}

#[test]
fn rule_of_the_settings_takes_the_place_of_a_reboot() {
    let chrony = |text: &str| Config::new(&format!("rendered-{text}"), &[("/etc/chrony.conf", text)]);
    let rule = "[[disruption.path]]\npath = \"/etc/chrony.conf\"\nactions = [\"none\"]\n";
    let host = host_that_desires(&chrony("one"));
    host.write_etc(FRAGMENT, &format!("{SOURCE}{rule}"));
    let mut agent = Agent::start(&host, &[]);
    agent.wait_for_line("Done rendered-one");
    assert_eq!(host.read_etc("chrony.conf").as_deref(), Some("one"));
    assert!(
        !agent.logind.calls().iter().any(|call| call.starts_with("Reboot")),
        "{:?}",
        agent.logind.calls()
    );
}

#[test]
fn daemon_without_a_source_and_with_unusable_settings_ends_with_the_reason() {
    let host = host_that_desires(&live_config());
    let outcome = host.run(["flameholder", "daemon"]);
    assert_eq!(outcome.code, Some(64), "{outcome:?}");
    assert!(outcome.stderr.contains("no source of the desired config"), "{outcome:?}");
    host.write_etc(FRAGMENT, "[source]\ndesired = \"nowhere\"\n");
    let outcome = host.run(["flameholder", "daemon"]);
    assert_eq!(outcome.code, Some(78), "{outcome:?}");
    assert!(
        outcome
            .stderr
            .contains("50-daemon.toml:2:11: expected `kube`, `dir:PATH`, `https://HOST/PATH` or `oci://"),
        "{outcome:?}"
    );
}

#[test]
fn unusable_settings_are_mended_by_the_config_of_a_source_that_is_named_elsewhere() {
    let path = format!("/etc/{FRAGMENT}");
    let files = [(path.as_str(), SOURCE), ("/etc/nmstate/openshift/app.yml", "one")];
    let host = host_that_desires(&Config::new("rendered-one", &files));
    host.write_etc(FRAGMENT, "[sauce]\n");
    let mut agent = Agent::start(&host, &["--source", "dir:/run/media/desired.json"]);
    let warning = agent.wait_for_line("warn");
    assert!(
        warning.contains("going on with the default settings") && warning.contains("`sauce`"),
        "{warning}"
    );
    agent.wait_for_line("ShuttingDown rendered-one");
    drop(agent);
    host.reboot();
    assert_eq!(host.read_etc(FRAGMENT).as_deref(), Some(SOURCE));
}

#[test]
fn config_that_takes_the_source_away_from_the_daemon_is_refused() {
    let (path, host) = (format!("/etc/{FRAGMENT}"), Host::install(Os::new(1)));
    let with_source = Config::new("rendered-one", &[(path.as_str(), SOURCE)]);
    assert_eq!(host.apply(&host.config(with_source.json()), None).code, Some(0));
    host.reboot();
    let without = host.config(Config::new("rendered-two", &[("/etc/a", "a")]).json());
    host.write_etc("flameholder/daemon.env", "# HTTPS_PROXY=http://proxy.example\n");
    let refused = host.apply(&without, None);
    assert_eq!(refused.code, Some(78), "{refused:?}");
    assert!(refused.stderr.contains("/etc/flameholder/daemon.env: names no source"), "{refused:?}");
    host.write_etc("flameholder/daemon.env", "FLAMEHOLDER_SOURCE=dir:/etc/flameholder/desired\n");
    assert_eq!(host.apply(&without, None).code, Some(0));
}

#[test]
fn inhibitor_locks_are_overruled_when_the_settings_say_so() {
    let host = host_that_desires(&full_config("one"));
    let reboots = "[reboot]\ninhibitors = \"overrule\"\ninhibitor-timeout = 0\n";
    host.write_etc(FRAGMENT, &format!("{SOURCE}{reboots}"));
    let script = Script { locks: vec![BACKUP], ..Script::default() };
    let mut agent = Agent::start_with_logind(&host, &[], script);
    agent.wait_for_line("ShuttingDown rendered-one");
    assert_eq!(agent.reboots(), 1, "{:?}", agent.logind.calls());
}

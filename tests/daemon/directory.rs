//! A host without a cluster: a file or a directory says what it is to be.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::symlink,
    process::{Command, Stdio},
};

use nix::sys::signal::Signal;
use osimage::Os;
use serde_json::Value;

use testbed::{
    agent::Agent,
    booted::{
        config::{Config, ensure_is, whole},
        host::Host,
    },
};

const SOURCE: [&str; 2] = ["--source", "dir:/run/media/desired.json"];

/// Says what the host is to be, all at once.
fn want(host: &Host, config: &Value) {
    let (path, new) = (host.path("media/desired.json"), host.path("media/.new"));
    fs::write(&new, config.to_string()).unwrap();
    fs::rename(new, path).unwrap();
}

fn report(host: &Host) -> Value {
    serde_json::from_slice(&fs::read(host.path("run/flameholder/daemon.json")).unwrap()).unwrap()
}

/// A config whose changes need no reboot.
fn light(text: &str) -> Config {
    Config::new(&format!("rendered-{text}"), &[("/etc/nmstate/openshift/app.yml", text)])
}

/// Makes the host that, before a daemon looks.
fn apply_light(host: &Host, text: &str) {
    let outcome = host.apply(&host.config(light(text).json()), None);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn what_is_wanted_becomes_so_over_a_reboot() {
    let host = Host::install(Os::new(1));
    want(&host, whole("one").json());
    let mut agent = Agent::start(&host, &SOURCE);
    agent.says("ShuttingDown rendered-one");
    assert_eq!(
        agent.phases(),
        ["Observing", "Fetching", "Preparing", "Draining", "Unlocking", "Rebooting", "ShuttingDown"],
    );
    assert!(agent.logind.calls().iter().any(|call| call.starts_with("Reboot")), "{:?}", agent.logind.calls());
    drop(agent);
    host.reboot();
    let mut agent = Agent::start(&host, &SOURCE);
    agent.says("Done rendered-one");
    assert_eq!(agent.phases(), ["Observing", "Verifying", "Uncordoning", "Done"]);
    ensure_is(&host, "one", "two");
    assert_eq!(report(&host)["phase"], "Done");
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn whoever_watches_sees_each_phase() {
    let host = Host::install(Os::new(1));
    apply_light(&host, "one");
    want(&host, light("one").json());
    let mut watching = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--kill-child"])
        .args(host.entering(["flameholder", "status", "--watch"]))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut sees = |what: &str| lines.any(|line| line.contains(what));
    assert!(sees("rendered-one"), "what runs is shown without a daemon");
    let mut agent = Agent::start(&host, &SOURCE);
    agent.says("Done rendered-one");
    assert!(sees(": Done rendered-one"));
    host.write_etc("nmstate/openshift/app.yml", "changed");
    assert!(sees(": Drifted rendered-one"));
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn what_needs_no_reboot_is_there_at_once() {
    let host = Host::install(Os::new(1));
    apply_light(&host, "one");
    want(&host, light("one").json());
    let mut agent = Agent::start(&host, &SOURCE);
    agent.says("Done rendered-one");
    want(&host, light("two").json());
    agent.says("Done rendered-two");
    assert_eq!(host.read_etc("nmstate/openshift/app.yml").as_deref(), Some("two"));
    fs::write(host.path("media/desired.json"), "{\"half\": ").unwrap();
    let trouble = agent.says("warn");
    assert!(trouble.contains("desired.json is refused"), "{trouble}");
    assert_eq!(report(&host)["current"], "rendered-two");
    want(&host, light("three").json());
    agent.says("Done rendered-three");
    host.ensure_whole();
}

#[test]
fn a_volume_of_a_cluster_is_followed_when_it_is_swapped() {
    let host = Host::install(Os::new(1));
    apply_light(&host, "one");
    let volume = host.path("media/volume");
    let swap = |text: &str| {
        let directory = volume.join(format!("..{text}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("config.json"), light(text).json().to_string()).unwrap();
        symlink(format!("..{text}"), volume.join("..new")).unwrap();
        fs::rename(volume.join("..new"), volume.join("..data")).unwrap();
    };
    swap("one");
    symlink("..data/config.json", volume.join("config.json")).unwrap();
    let mut agent = Agent::start(&host, &["--source", "dir:/run/media/volume"]);
    agent.says("Done rendered-one");
    for text in ["two", "three"] {
        swap(text);
        agent.says(&format!("Done rendered-{text}"));
    }
}

#[test]
fn drift_is_noticed_when_it_happens_and_when_it_ends() {
    let host = Host::install(Os::new(1));
    apply_light(&host, "one");
    want(&host, light("one").json());
    let mut agent = Agent::start(&host, &SOURCE);
    agent.says("Done rendered-one");
    host.write_etc("nmstate/openshift/app.yml", "changed");
    let said = agent.says("Drifted");
    assert!(said.contains("/etc/nmstate/openshift/app.yml") && said.contains("flameholder verify"), "{said}");
    host.write_etc("nmstate/openshift/app.yml", "one");
    agent.says("Done rendered-one");
    // An update does not start from there either, unless somebody forces it.
    host.write_etc("nmstate/openshift/app.yml", "changed");
    agent.says("Drifted");
    want(&host, light("two").json());
    agent.says("BackingOff rendered-two, on rendered-one: what was applied does not stay as it is");
    fs::write(host.path("run/machine-config-daemon-force"), "").unwrap();
    agent.says("ShuttingDown rendered-two");
    assert!(!host.path("run/machine-config-daemon-force").exists());
    drop(agent);
    host.reboot();
    let mut agent = Agent::start(&host, &SOURCE);
    agent.says("Done rendered-two");
    host.ensure_whole();
}

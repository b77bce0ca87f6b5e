//! Daemon with the source `dir:`: the desired config is a file or the content of a directory.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use osimage::Os;
use serde_json::Value;
use testbed::agent::Agent;
use testbed::booted::config::{Config, assert_config, full_config};
use testbed::booted::host::Host;
use testbed::output_lines::OutputLines;

pub(crate) const SOURCE: [&str; 2] = ["--source", "dir:/run/media/desired.json"];

const DAEMON_REPORT: &str = "run/flameholder/daemon/report.json";

/// Set the desired config by an atomic rename.
pub(crate) fn set_desired_config(host: &Host, config: &Value) {
    let (path, new) = (host.path("media/desired.json"), host.path("media/.new"));
    fs::write(&new, config.to_string()).unwrap();
    fs::rename(new, path).unwrap();
}

pub(crate) fn daemon_report(host: &Host) -> Value {
    serde_json::from_slice(&fs::read(host.path(DAEMON_REPORT)).unwrap()).unwrap()
}

/// Config whose changes need no reboot.
pub(crate) fn live_config(text: &str) -> Config {
    Config::new(&format!("rendered-{text}"), &[("/etc/nmstate/openshift/app.yml", text)])
}

/// Apply that config before the daemon starts.
pub(crate) fn apply_live_config(host: &Host, text: &str) {
    let outcome = host.apply(&host.config(live_config(text).json()), None);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

/// Start the daemon on a host whose applied and desired config is the live config `one`, and wait until it is done.
fn start_on_live_config(host: &Host) -> Agent {
    apply_live_config(host, "one");
    set_desired_config(host, live_config("one").json());
    let mut agent = Agent::start(host, &SOURCE);
    agent.wait_for_line("Done rendered-one");
    agent
}

#[test]
fn staged_update_reaches_done_after_a_reboot() {
    let host = Host::install(Os::new(1));
    set_desired_config(&host, full_config("one").json());
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("ShuttingDown rendered-one");
    assert_eq!(
        agent.phases(),
        ["Observing", "Fetching", "Preparing", "Unlocking", "Rebooting", "ShuttingDown"],
    );
    assert!(agent.logind.calls().iter().any(|call| call.starts_with("Reboot")), "{:?}", agent.logind.calls());
    drop(agent);
    host.reboot();
    let mut agent = Agent::start(&host, &SOURCE);
    let done = agent.wait_for_line("Done rendered-one");
    assert!(done.contains(" (changed /etc/app/a.conf, ") && done.contains(", CheckingBoot "), "{done}");
    assert_eq!(agent.phases(), ["Observing", "Verifying", "Done"]);
    assert_config(&host, "one", "two");
    assert_eq!(daemon_report(&host)["phase"], "Done");
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn waiting_for_a_state_ends_with_it_or_with_the_time() {
    let host = Host::install(Os::new(1));
    let mut agent = start_on_live_config(&host);
    let wait = |state: &str, timeout: &str| {
        host.run(["flameholder", "status", "--wait", state, "--timeout", timeout]).code
    };
    assert_eq!(wait("done", "1m"), Some(0));
    assert_eq!(wait("Staged", "1s"), Some(75));
    host.write_etc("nmstate/openshift/app.yml", "changed");
    let drifted = agent.wait_for_line("Drifted rendered-one");
    assert!(drifted.starts_with("warning: "), "{drifted}");
    assert_eq!(wait("Drifted", "1m"), Some(0));
    assert_eq!(host.run(["flameholder", "status", "--exit-code"]).code, Some(1));
}

#[test]
fn watched_status_shows_each_phase() {
    let host = Host::install(Os::new(1));
    apply_live_config(&host, "one");
    set_desired_config(&host, live_config("one").json());
    let mut status = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--kill-child"])
        .args(host.unshare_arguments(["flameholder", "status", "--watch"]))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = OutputLines::of(status.stdout.take().unwrap());
    let mut wait_for = |text: &str| lines.wait_for(&format!("with `{text}`"), |line| line.contains(text));
    wait_for("rendered-one");
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("Done rendered-one");
    wait_for(" Done since ");
    host.write_etc("nmstate/openshift/app.yml", "changed");
    wait_for(" Drifted since ");
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.end(), Some(0));
    // Nothing else changes on the host than the report.
    let (report, new) = (host.path(DAEMON_REPORT), host.path("run/flameholder/daemon/.new"));
    let text = fs::read_to_string(&report).unwrap().replace("Stopping", "Draining");
    fs::write(&new, text).unwrap();
    fs::rename(&new, &report).unwrap();
    wait_for("in the phase Draining rendered-one");
    fs::remove_dir_all(report.parent().unwrap()).unwrap();
    apply_live_config(&host, "two");
    wait_for("rendered-two");
    status.kill().unwrap();
    status.wait().unwrap();
}

#[test]
fn butane_config_and_its_local_files_are_followed() {
    let host = Host::install(Os::new(1));
    apply_live_config(&host, "one");
    let folder = host.path("media/site");
    fs::create_dir_all(folder.join("parts")).unwrap();
    fs::write(folder.join("parts/app.yml"), "first").unwrap();
    let butane = "variant: fcos\nversion: 1.5.0\nstorage: {files: [{path: /etc/nmstate/openshift/app.yml, mode: 0644, \
        contents: {local: parts/app.yml}}]}\n";
    fs::write(folder.join("site.bu"), butane).unwrap();
    let mut agent = Agent::start(&host, &["--source", "dir:/run/media/site"]);
    agent.wait_for_line("Done rendered-local-");
    assert_eq!(host.read_etc("nmstate/openshift/app.yml").as_deref(), Some("first"));
    // Also a local file is replaced as a whole.
    fs::write(folder.join("parts/.new"), "second").unwrap();
    fs::rename(folder.join("parts/.new"), folder.join("parts/app.yml")).unwrap();
    agent.wait_for_line("Done rendered-local-");
    assert_eq!(host.read_etc("nmstate/openshift/app.yml").as_deref(), Some("second"));
    fs::remove_file(folder.join("parts/app.yml")).unwrap();
    agent.wait_for_line("warning: /run/media/site/site.bu:3:81: storage.files[0].contents.local: reading /run/media/site/parts/app.yml");
    fs::write(folder.join("parts/.new"), "third").unwrap();
    fs::rename(folder.join("parts/.new"), folder.join("parts/app.yml")).unwrap();
    agent.wait_for_line("Fetching rendered-local-");
    agent.wait_for_line("Done rendered-local-");
    assert_eq!(host.read_etc("nmstate/openshift/app.yml").as_deref(), Some("third"));
    // The whole directory of the local files goes, and comes again.
    fs::rename(folder.join("parts"), folder.join(".parts")).unwrap();
    agent.wait_for_line("warning: /run/media/site/site.bu:3:81: storage.files[0].contents.local: reading /run/media/site/parts/app.yml");
    fs::write(folder.join(".parts/app.yml"), "fourth").unwrap();
    fs::rename(folder.join(".parts"), folder.join("parts")).unwrap();
    agent.wait_for_line("Fetching rendered-local-");
    agent.wait_for_line("Done rendered-local-");
    assert_eq!(host.read_etc("nmstate/openshift/app.yml").as_deref(), Some("fourth"));
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn second_daemon_of_a_host_is_refused() {
    let host = Host::install(Os::new(1));
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("Idle");
    let second = host.run([&["flameholder", "daemon"], SOURCE.as_slice()].concat());
    assert_eq!(second.code, Some(75), "{second:?}");
    assert!(
        second.stderr.contains("one daemon at a time") && second.stderr.contains("daemon/lock"),
        "{second:?}"
    );
    let state = fs::metadata(host.var("lib/flameholder")).unwrap().permissions().mode();
    assert_eq!(state & 0o7777, 0o700, "the state may be secret");
}

#[test]
fn live_update_is_applied_and_malformed_document_is_refused() {
    let host = Host::install(Os::new(1));
    let mut agent = start_on_live_config(&host);
    set_desired_config(&host, live_config("two").json());
    agent.wait_for_line("Done rendered-two");
    assert_eq!(host.read_etc("nmstate/openshift/app.yml").as_deref(), Some("two"));
    fs::write(host.path("media/desired.json"), "{\"half\": ").unwrap();
    let warning = agent.wait_for_line("warn");
    assert!(warning.contains("desired.json:1:9: not valid JSON: EOF while parsing a value"), "{warning}");
    assert_eq!(daemon_report(&host)["current"], "rendered-two");
    set_desired_config(&host, live_config("three").json());
    agent.wait_for_line("Done rendered-three");
    host.assert_no_drift();
}

#[test]
fn replaced_configmap_volume_is_followed() {
    let host = Host::install(Os::new(1));
    apply_live_config(&host, "one");
    let volume = host.path("media/volume");
    let swap = |text: &str| {
        let directory = volume.join(format!("..{text}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("config.json"), live_config(text).json().to_string()).unwrap();
        symlink(format!("..{text}"), volume.join("..new")).unwrap();
        fs::rename(volume.join("..new"), volume.join("..data")).unwrap();
    };
    swap("one");
    symlink("..data/config.json", volume.join("config.json")).unwrap();
    let mut agent = Agent::start(&host, &["--source", "dir:/run/media/volume"]);
    agent.wait_for_line("Done rendered-one");
    for text in ["two", "three"] {
        swap(text);
        agent.wait_for_line(&format!("Done rendered-{text}"));
    }
}

#[test]
fn config_that_other_users_can_change_is_refused_until_it_belongs_to_root() {
    let host = Host::install(Os::new(1));
    let mut agent = start_on_live_config(&host);
    let set_mode = |path: &str, mode| {
        fs::set_permissions(host.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    // A directory that a group can write.
    set_mode("media", 0o775);
    set_desired_config(&host, live_config("two").json());
    let warning = agent.wait_for_line("warning: the source is not trusted");
    let remedy = "/run/media has mode 0775: users other than root can change it; run `chmod go-w /run/media`";
    assert!(warning.contains(remedy), "{warning}");
    set_mode("media", 0o755);
    agent.wait_for_line("Done rendered-two");
    // A file of another user, as target of a link of root.
    let other = host.path("media/other.json");
    fs::write(&other, live_config("three").json().to_string()).unwrap();
    chown(&other, Some(1000), None).unwrap();
    symlink("other.json", host.path("media/.new")).unwrap();
    fs::rename(host.path("media/.new"), host.path("media/desired.json")).unwrap();
    let warning = agent.wait_for_line("warning: the source is not trusted");
    assert!(warning.contains("/run/media/other.json belongs to user 1000"), "{warning}");
    assert_eq!(daemon_report(&host)["current"], "rendered-two");
    // Replaced by root.
    fs::write(host.path("media/.other"), live_config("three").json().to_string()).unwrap();
    fs::rename(host.path("media/.other"), &other).unwrap();
    agent.wait_for_line("Done rendered-three");
}

#[test]
fn config_below_a_sticky_directory_is_accepted_in_a_directory_of_root() {
    let host = Host::install(Os::new(1));
    apply_live_config(&host, "one");
    fs::set_permissions(host.path("media"), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::create_dir(host.path("media/desired")).unwrap();
    fs::write(host.path("media/desired/one.json"), live_config("one").json().to_string()).unwrap();
    let mut agent = Agent::start(&host, &["--source", "dir:/run/media/desired"]);
    agent.wait_for_line("Done rendered-one");
}

#[test]
fn drift_is_reported_until_it_ends_and_stops_updates_unless_forced() {
    let host = Host::install(Os::new(1));
    let mut agent = start_on_live_config(&host);
    host.write_etc("nmstate/openshift/app.yml", "changed");
    let line = agent.wait_for_line("Drifted");
    assert!(line.contains("/etc/nmstate/openshift/app.yml") && line.contains("flameholder verify"), "{line}");
    host.write_etc("nmstate/openshift/app.yml", "one");
    agent.wait_for_line("Done rendered-one");
    // An update does not start from a drifted host, unless the force file exists.
    host.write_etc("nmstate/openshift/app.yml", "changed");
    agent.wait_for_line("Drifted");
    set_desired_config(&host, live_config("two").json());
    let line =
        agent.wait_for_line("BackingOff rendered-two, on rendered-one: managed paths have local changes");
    assert!(line.contains("/etc/nmstate/openshift/app.yml"), "{line}");
    fs::write(host.path("run/machine-config-daemon-force"), "").unwrap();
    agent.wait_for_line("ShuttingDown rendered-two");
    assert!(!host.path("run/machine-config-daemon-force").exists());
    drop(agent);
    host.reboot();
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("Done rendered-two");
    host.assert_no_drift();
}

#[test]
fn update_goes_on_as_soon_as_the_drift_in_its_way_is_repaired() {
    let host = Host::install(Os::new(1));
    let mut agent = start_on_live_config(&host);
    host.write_etc("nmstate/openshift/app.yml", "changed");
    agent.wait_for_line("Drifted");
    set_desired_config(&host, live_config("two").json());
    // Each attempt that is in vain doubles the wait for the next one.
    for _ in 0..3 {
        agent.wait_for_line("BackingOff rendered-two");
        agent.signal(Signal::SIGHUP);
    }
    agent.wait_for_line("BackingOff rendered-two");
    host.write_etc("nmstate/openshift/app.yml", "one");
    agent.wait_for_line("Done rendered-two");
    host.assert_no_drift();
}

#[test]
fn commands_refuse_to_work_against_the_source_of_the_daemon() {
    let host = Host::install(Os::new(1));
    let agent = start_on_live_config(&host);
    let other = host.config(live_config("other").json());
    let refused = host.run(["flameholder", "apply", "--desired", &other]);
    assert_eq!(refused.code, Some(75), "{refused:?}");
    let named = "the daemon of this host follows dir:/run/media/desired.json, which desires rendered-one";
    assert!(refused.stderr.contains(named), "{refused:?}");
    // The same config is no conflict.
    let same = host.config(live_config("one").json());
    assert_eq!(host.run(["flameholder", "apply", "--desired", &same]).code, Some(0));
    assert_eq!(host.run(["flameholder", "unstage"]).code, Some(0));
    let overridden = host.run(["flameholder", "apply", "--desired", &other, "--override-source"]);
    assert_eq!(overridden.code, Some(0), "{overridden:?}");
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.end(), Some(0));
    // Without a daemon there is no conflict, although its last report is still there.
    assert_eq!(host.run(["flameholder", "apply", "--desired", &other]).code, Some(0));
}

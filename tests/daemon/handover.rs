//! Handover of a host from the machine-config-daemon to Flameholder (`adopt`) and back (`release`).

use std::fs;

use osimage::Os;
use serde_json::{Value, json};
use testbed::booted::config::{Config, full_config};
use testbed::booted::host::{Host, assert_unlocked};
use testbed::dbus::fake_systemd::{FakeSystemd, Script};
use testbed::dbus::private_bus::PrivateBus;
use testbed::model::run::Outcome;
use testbed::strace::{self, Call};

use crate::mcd;

/// Configuration file of the image.
const SHIPPED: &str = "/etc/chrony.conf";
/// Kills of each command, unless the run is exhaustive.
const SAMPLE: usize = 10;

/// Config that the imitated machine-config-daemon can apply.
fn config(text: &str) -> Config {
    Config::new(&format!("rendered-{text}"), &[("/etc/app/a.conf", text), ("/usr/local/bin/tool", text)])
        .file_with_mode(&format!("/etc/app/{text}.conf"), 0o600, text)
        .unit("app.service")
        .empty_drop_in()
}

/// Host that the machine-config-daemon manages; the config replaces a file of the image.
pub(crate) fn mcd_host() -> Host {
    mcd_host_on(Os::new(1))
}

pub(crate) fn mcd_host_on(os: Os) -> Host {
    let host = Host::install(os);
    mcd::apply(&host, &config("one").file_with_mode(SHIPPED, 0o644, "ours"));
    mcd::validate(&host);
    host
}

/// Run a command beside a fake systemd whose jobs succeed. Return the outcome and the calls of systemd.
pub(crate) fn run_with_systemd(host: &Host, command: &[&str]) -> (Outcome, Vec<String>) {
    let bus = PrivateBus::on(host);
    let systemd = FakeSystemd::start(&bus.address, Script::of_success());
    let outcome = host.run(command);
    (outcome, systemd.calls())
}

/// Run a command that must succeed, and return its standard output.
pub(crate) fn run_ok(host: &Host, command: &[&str]) -> String {
    let (outcome, _) = run_with_systemd(host, command);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome.stdout
}

/// Panics unless every file of Flameholder but the lock is removed.
fn assert_removed(host: &Host) {
    assert_units_removed(host);
    assert!(fs::symlink_metadata(host.var("usrlocal/bin/flameholder")).is_err());
    assert!(!host.var("usrlocal/libexec/flameholder").exists());
}

fn assert_units_removed(host: &Host) {
    assert!(!host.etc("flameholder/generation").exists());
    assert!(!host.etc("systemd/system/ostree-finalize-staged.service.d").exists());
    assert!(!host.etc("systemd/system/flameholder-daemon.service").exists());
    let links = fs::read_dir(host.etc("systemd/system/multi-user.target.wants")).unwrap();
    for link in links {
        assert!(!link.unwrap().file_name().to_string_lossy().contains("flameholder"));
    }
    let left: Vec<_> = fs::read_dir(host.var("lib/flameholder/objects")).into_iter().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn host_is_adopted_released_and_adopted_again() {
    let host = mcd_host();
    let adopted = run_ok(&host, &["flameholder", "adopt"]);
    assert!(adopted.contains("adopted the current config rendered-one as generation "), "{adopted}");
    host.assert_no_drift();
    mcd::validate(&host);
    assert_eq!(host.status()["deployments"][0]["generation"]["config"], "rendered-one");
    assert!(
        run_ok(&host, &["flameholder", "adopt"]).contains("rendered-one is managed by flameholder already")
    );
    // A staged update without the image's file: the content of the image is restored.
    let shipped = fs::read_to_string(host.booted().root.join("usr/etc/chrony.conf")).unwrap();
    let mut two = config("two").kernel_arguments(&["app=two"]).json().clone();
    two["metadata"]["name"] = "rendered-two".into();
    assert_unlocked(&host.apply(&host.config(&two), None));
    host.reboot();
    assert_eq!(host.read_etc("chrony.conf"), Some(shipped.clone()));
    assert_eq!(host.read_etc("app/one.conf"), None);
    // Release: the machine-config-daemon validates the host and continues with its config.
    assert!(
        run_ok(&host, &["flameholder", "release"])
            .contains("rendered-two is managed by the machine-config-daemon again")
    );
    assert_eq!(mcd::validate(&host)["metadata"]["name"], "rendered-two");
    assert_units_removed(&host);
    assert_eq!(host.read_etc(&mcd::no_original("/etc/app/two.conf")), Some(String::new()));
    assert!(
        !host.etc(&mcd::no_original("/etc/app/one.conf")).exists()
            && !host.etc(&mcd::original(SHIPPED)).exists()
    );
    mcd::remove(&host, "/etc/app/two.conf");
    assert!(!host.etc("app/two.conf").exists());
    // Second adoption: the changes that the machine-config-daemon made are drift from its config.
    let refused = run_with_systemd(&host, &["flameholder", "adopt"]).0;
    assert!(refused.stderr.contains("/etc/app/two.conf is missing"), "{refused:?}");
    assert_units_removed(&host);
    let repaired = run_ok(&host, &["flameholder", "adopt", "--repair"]);
    assert!(repaired.contains("repaired: /etc/app/two.conf is missing"), "{repaired}");
    host.assert_no_drift();
}

/// Write an Ignition config with these files, whose contents are their paths, and return its path on the host.
fn ignition(host: &Host, name: &str, paths: &[&str]) -> String {
    let file =
        |path: &&str| json!({"path": path, "mode": 420, "contents": {"source": format!("data:,{path}")}});
    let files: Vec<Value> = paths.iter().map(file).collect();
    let document = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": files}});
    fs::write(host.path("media").join(name), document.to_string()).unwrap();
    format!("/run/media/{name}")
}

#[test]
fn host_is_adopted_as_ignition_installed_it_and_files_that_leave_the_config_go() {
    let host = Host::install(Os::new(1));
    for name in ["app/a.conf", "app/old.conf"] {
        host.write_etc(name, &format!("/etc/{name}"));
    }
    let result = r#"{"provisioningDate": "2026-05-04T09:30:00Z", "userConfigProvided": true}"#;
    host.write_etc(".ignition-result.json", result);
    let nothing = run_with_systemd(&host, &["flameholder", "adopt"]).0;
    assert!(nothing.stderr.contains("with --config"), "{nothing:?}");
    let installed = ignition(&host, "installed.ign", &["/etc/app/a.conf", "/etc/app/old.conf"]);
    let adopt = ["flameholder", "adopt", "--config", &installed];
    host.write_etc("app/a.conf", "changed");
    fs::remove_file(host.etc("app/old.conf")).unwrap();
    let refused = run_with_systemd(&host, &adopt).0;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("/etc/app/old.conf is missing"), "{refused:?}");
    assert!(refused.stderr.contains("/etc/app/a.conf"), "{refused:?}");
    assert!(!host.etc("flameholder/generation").exists());
    for name in ["app/a.conf", "app/old.conf"] {
        host.write_etc(name, &format!("/etc/{name}"));
    }
    let adopted = run_ok(&host, &adopt);
    assert!(adopted.contains("adopted the current config ignition-"), "{adopted}");
    assert!(adopted.contains("installed the host at 2026-05-04T09:30:00Z, with a config"), "{adopted}");
    host.assert_no_drift();
    let planned = host.run(["flameholder", "plan", "--exit-code", "--desired", &installed]);
    assert_eq!(planned.code, Some(0), "{planned:?}");
    let again = run_with_systemd(&host, &adopt).0;
    assert!(again.stderr.contains("manages this host already"), "{again:?}");
    host.update(&ignition(&host, "next.ign", &["/etc/app/a.conf"]), None);
    assert_eq!(host.read_etc("app/a.conf").as_deref(), Some("/etc/app/a.conf"));
    assert_eq!(host.read_etc("app/old.conf"), None);
    host.assert_no_drift();
}

#[test]
fn config_of_the_installation_is_refused_where_another_was_applied_since() {
    let host = mcd_host();
    let installed = ignition(&host, "installed.ign", &[]);
    let refused = run_with_systemd(&host, &["flameholder", "adopt", "--config", &installed]).0;
    assert!(
        refused.stderr.contains("rendered-one in") && refused.stderr.contains("leave out --config"),
        "{refused:?}"
    );
    assert_removed(&host);
}

#[test]
fn executables_stay_for_another_deployment_that_has_the_units() {
    let host = mcd_host();
    run_ok(&host, &["flameholder", "adopt"]);
    host.update(&host.config(full_config("two").json()), None);
    let (released, _) = run_with_systemd(&host, &["flameholder", "release"]);
    assert_eq!(released.code, Some(0), "{released:?}");
    assert!(released.stderr.contains("the agent's executables stay: the deployment "), "{released:?}");
    assert!(host.var("usrlocal/bin/flameholder").exists());
    assert!(!host.etc("systemd/system/flameholder-daemon.service").exists());
}

#[test]
fn originals_of_the_machine_config_daemon_survive_adoption_and_release() {
    let host = mcd_host();
    // Originals of a file that an administrator wrote, and of an older version of the image's file.
    host.write_etc(&mcd::original("/etc/app/a.conf"), "before");
    host.write_etc(&mcd::original(SHIPPED), "older");
    fs::remove_file(host.etc(&mcd::no_original("/etc/app/a.conf"))).unwrap();
    run_ok(&host, &["flameholder", "adopt"]);
    host.assert_no_drift();
    let unmanaged = host.copy();
    let released = run_ok(&host, &["flameholder", "release"]);
    // The machine-config-daemon restores originals of files of the image only, so `release` keeps this one
    // elsewhere.
    let (_, kept) = released
        .split_once("the content that /etc/app/a.conf had before it was managed is kept in /etc/")
        .unwrap();
    assert_eq!(host.read_etc(kept.trim()), Some("before".to_owned()));
    assert_eq!(host.read_etc(&mcd::no_original("/etc/app/a.conf")), Some(String::new()));
    mcd::remove(&host, SHIPPED);
    assert_eq!(host.read_etc("chrony.conf"), Some("older".to_owned()));
    // Without a release, Flameholder restores both originals once the files are no longer managed.
    let other = Config::new("rendered-other", &[("/etc/app/b.conf", "b")]);
    unmanaged.update(&unmanaged.config(other.json()), None);
    assert_eq!(unmanaged.read_etc("app/a.conf"), Some("before".to_owned()));
    assert_eq!(unmanaged.read_etc("chrony.conf"), Some("older".to_owned()));
}

#[test]
fn handover_is_refused_while_the_machine_config_daemon_runs_or_an_update_is_staged() {
    let host = mcd_host();
    fs::copy("/usr/bin/cat", host.path("media/machine-config-daemon")).unwrap();
    let script = "mkfifo /run/wait; /run/media/machine-config-daemon /run/wait & flameholder adopt; code=$?; kill $!; exit $code";
    let (refused, calls) = run_with_systemd(&host, &["sh", "-c", script]);
    assert_eq!(refused.code, Some(75));
    assert!(refused.stderr.contains("the machine-config-daemon is running as process "), "{refused:?}");
    assert_eq!(calls, Vec::<String>::new());
    assert_removed(&host);
    fs::copy("/usr/bin/cat", host.path("media/kured")).unwrap();
    let script = "mkfifo /run/go; /run/media/kured /run/go & flameholder adopt; code=$?; kill $!; exit $code";
    let (adopted, _) = run_with_systemd(&host, &["sh", "-c", script]);
    assert_eq!(adopted.code, Some(0), "{adopted:?}");
    assert!(adopted.stdout.contains("warning: kured is at work on this host"), "{adopted:?}");
    // An update is staged.
    assert_unlocked(&host.apply(&host.config(full_config("two").json()), None));
    let refused = run_with_systemd(&host, &["flameholder", "release"]).0;
    assert!(refused.code == Some(75) && refused.stderr.contains(" is staged or unconfirmed"), "{refused:?}");
    host.assert_no_drift();
}

#[test]
fn drifted_host_is_neither_adopted_nor_released_without_a_repair() {
    let host = mcd_host();
    host.write_etc("app/a.conf", "changed");
    let refused = run_with_systemd(&host, &["flameholder", "adopt"]).0;
    assert_eq!(refused.code, Some(1));
    for part in ["/etc/app/a.conf has other content", "flameholder adopt --repair"] {
        assert!(refused.stderr.contains(part), "{refused:?}");
    }
    assert_removed(&host);
    let repaired = run_ok(&host, &["flameholder", "adopt", "--repair"]);
    assert!(repaired.contains("repaired: /etc/app/a.conf has other content"), "{repaired}");
    host.assert_no_drift();
    host.write_etc("app/a.conf", "changed");
    let refused = run_with_systemd(&host, &["flameholder", "release"]).0;
    assert!(
        refused.code == Some(1) && refused.stderr.contains("/etc/app/a.conf has other content"),
        "{refused:?}"
    );
    assert!(host.etc("flameholder/generation").exists());
}

#[test]
fn password_that_an_administrator_set_survives_adoption() {
    let host = Host::install(Os::new(1));
    let config = config("one").key("ssh-ed25519 AAAA one");
    mcd::apply(&host, &config);
    let keys = host.var("home/core/.ssh/authorized_keys.d/ignition");
    fs::create_dir_all(keys.parent().unwrap()).unwrap();
    fs::write(&keys, "ssh-ed25519 AAAA one\n").unwrap();
    let shadow = host.read_etc("shadow").unwrap();
    let own = shadow.lines().map(|line| match line.strip_prefix("core:") {
        Some(rest) => {
            format!("core:$6$own{}\n", rest.split_once(':').map_or("", |(_, rest)| rest).replacen("", ":", 1))
        }
        None => format!("{line}\n"),
    });
    let own: String = own.collect();
    host.write_etc("shadow", &own);
    run_ok(&host, &["flameholder", "adopt", "--repair"]);
    assert_eq!(host.read_etc("shadow"), Some(own));
    host.assert_no_drift();
}

#[test]
fn activation_does_not_wait_for_the_lock_after_adoption() {
    let host = mcd_host();
    run_ok(&host, &["flameholder", "adopt"]);
    let script = "exec 9<>/var/lib/flameholder/lock; flock --exclusive 9; flameholder activate";
    let outcome = host.run(["sh", "-c", script]);
    assert!(
        outcome.code == Some(0) && outcome.stderr.contains("files were activated earlier in this boot"),
        "{outcome:?}"
    );
}

#[test]
fn config_without_contents_is_completed_from_the_config_server_document() {
    let host = mcd_host();
    let complete = host.read_etc("machine-config-daemon/currentconfig").unwrap();
    let mut without_contents: serde_json::Value = serde_json::from_str(&complete).unwrap();
    without_contents["spec"]["config"] = serde_json::json!({"ignition": {"version": "3.2.0"}});
    host.write_etc("machine-config-daemon/currentconfig", &without_contents.to_string());
    let refused = run_with_systemd(&host, &["flameholder", "adopt"]).0;
    assert!(refused.code == Some(1) && refused.stderr.contains("has no files and no units"), "{refused:?}");
    host.write_etc("mcs-machine-config-content.json", &complete);
    host.write_etc("app/a.conf", "changed");
    let refused = run_with_systemd(&host, &["flameholder", "adopt"]).0;
    assert!(refused.stderr.contains("/etc/app/a.conf has other content"), "{refused:?}");
    host.write_etc("app/a.conf", "one");
    run_ok(&host, &["flameholder", "adopt"]);
    host.assert_no_drift();
    mcd::validate(&host);
    let record: serde_json::Value =
        serde_json::from_str(&host.read_etc("flameholder/generation").unwrap()).unwrap();
    assert_eq!(
        record["originals"],
        serde_json::json!([]),
        "files that the machine-config-daemon wrote are not originals"
    );
    // A host without the machine-config-daemon.
    let bare = Host::install(Os::new(1));
    let refused = run_with_systemd(&bare, &["flameholder", "adopt"]).0;
    assert!(refused.code == Some(1) && refused.stderr.contains("there is nothing to adopt"), "{refused:?}");
}

#[test]
fn adoption_starts_the_daemon_with_the_given_source() {
    let host = mcd_host();
    let command = [
        "flameholder",
        "adopt",
        "--source",
        "kube",
        "--node-name",
        "edge-7",
        "--kubeconfig",
        "/etc/flameholder/kubeconfig",
    ];
    let (outcome, calls) = run_with_systemd(&host, &command);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let environment =
        "FLAMEHOLDER_SOURCE=kube\nFLAMEHOLDER_KUBECONFIG=/etc/flameholder/kubeconfig\nNODE_NAME=edge-7\n";
    assert_eq!(host.read_etc("flameholder/daemon.env").as_deref(), Some(environment));
    let requests: Vec<&str> = calls.iter().map(String::as_str).filter(|call| *call != "Subscribe").collect();
    assert_eq!(requests, ["Reload", "RestartUnit flameholder-daemon.service replace"]);
    for bad in ["a b", "x\ny", "\"q", "#"] {
        let refused = host.run(["flameholder", "adopt", "--source", "kube", "--node-name", bad]);
        assert_eq!(refused.code, Some(64), "{refused:?}");
    }
}

/// Kill a command at a sample of its system calls that change something, and run it again: the second run
/// must end in the same state, and the machine-config-daemon must find no fault in it.
pub(crate) fn assert_survives_kills(before: &Host, command: &str, assert_end: fn(&Host)) {
    let traced = |host: &Host, arguments: &str| {
        run_with_systemd(host, &["sh", "-c", &format!("strace {arguments} flameholder {command}")])
    };
    let host = before.copy();
    traced(&host, "-o /run/media/calls");
    let log = fs::read(host.path("media/calls")).unwrap();
    let mut calls = strace::parse(&String::from_utf8_lossy(&log));
    calls.retain(Call::is_change);
    let is_exhaustive = testbed::is_exhaustive();
    let step = if is_exhaustive { 1 } else { calls.len().div_ceil(SAMPLE) };
    let mut killed = 0;
    for call in calls.iter().rev().step_by(step) {
        let host = before.copy();
        let injection = call.kill_injection();
        traced(&host, &format!("-o /run/media/end -e trace={} -e {injection}", call.name));
        let end = fs::read(host.path("media/end")).unwrap_or_default();
        killed += usize::from(String::from_utf8_lossy(&end).contains("killed by SIGKILL"));
        // A power cut follows half of the kills.
        if killed % 2 == 0 {
            host.power_cut();
            host.boot_kernel(0);
        }
        let (again, _) = run_with_systemd(&host, &["flameholder", command]);
        assert_eq!(again.code, Some(0), "{injection}: {again:?}");
        mcd::validate(&host);
        assert_end(&host);
    }
    assert!(killed * 2 >= SAMPLE, "{killed} kills at {} system calls", calls.len());
}

#[test]
fn adopt_completes_after_a_kill() {
    testbed::preconditions::require_strace();
    let host = mcd_host();
    assert_survives_kills(&host, "adopt", Host::assert_no_drift);
}

#[test]
fn release_completes_after_a_kill() {
    testbed::preconditions::require_strace();
    let host = mcd_host();
    run_ok(&host, &["flameholder", "adopt"]);
    assert_survives_kills(&host, "release", assert_removed);
}

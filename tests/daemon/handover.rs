//! A host that was the machine-config-daemon's becomes ours, and its own again.

use std::fs;

use osimage::Os;

use crate::mcd;
use testbed::{
    booted::{
        config::{Config, whole},
        host::{Host, ensure_asked},
    },
    dbus::{
        fake_systemd::{Act, FakeSystemd, Script},
        private_bus::PrivateBus,
    },
    model::run::Outcome,
    strace::{self, Call},
};

/// What the image ships.
const SHIPPED: &str = "/etc/chrony.conf";
/// Kills of each kind, where not all are asked for.
const SAMPLE: usize = 10;

/// A config that the machine-config-daemon can have applied here.
fn config(text: &str) -> Config {
    Config::new(&format!("rendered-{text}"), &[("/etc/app/a.conf", text), ("/usr/local/bin/tool", text)])
        .file_with_mode(&format!("/etc/app/{text}.conf"), 0o600, text)
        .unit("app.service")
}

/// A host on which it was applied, something shipped replaced by it.
pub(crate) fn managed() -> Host {
    let host = Host::install(Os::new(1));
    mcd::apply(&host, &config("one").file_with_mode(SHIPPED, 0o644, "ours"));
    mcd::validate(&host);
    host
}

/// Runs a command beside a systemd that does what it is told.
pub(crate) fn with_systemd(host: &Host, command: &[&str]) -> (Outcome, Vec<String>) {
    let bus = PrivateBus::on(host);
    let job = vec![Act::Job(1), Act::Removed(1, "done")];
    let systemd = FakeSystemd::start(&bus.address, Script { job, ..Script::default() });
    let outcome = host.run(command);
    (outcome, systemd.calls())
}

fn ensure(host: &Host, command: &[&str]) -> String {
    let (outcome, _) = with_systemd(host, command);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome.stdout
}

/// Nothing of ours is left but the lock.
fn ensure_gone(host: &Host) {
    assert!(!host.etc("flameholder/generation").exists());
    assert!(!host.etc("systemd/system/ostree-finalize-staged.service.d").exists());
    assert!(!host.etc("systemd/system/flameholder-daemon.service").exists());
    let links = fs::read_dir(host.etc("systemd/system/multi-user.target.wants")).unwrap();
    for link in links {
        assert!(!link.unwrap().file_name().to_string_lossy().contains("flameholder"));
    }
    assert!(fs::symlink_metadata(host.var("usrlocal/bin/flameholder")).is_err());
    assert!(!host.var("usrlocal/libexec/flameholder").exists());
    let left: Vec<_> = fs::read_dir(host.var("lib/flameholder/objects")).into_iter().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn there_and_back_and_there_again() {
    let host = managed();
    let adopted = ensure(&host, &["flameholder", "adopt"]);
    assert!(adopted.contains("adopted rendered-one, which runs, as generation "), "{adopted}");
    host.ensure_whole();
    mcd::validate(&host);
    assert_eq!(host.status()["deployments"][0]["generation"]["config"], "rendered-one");
    assert!(ensure(&host, &["flameholder", "adopt"]).contains("rendered-one is flameholder's already"));
    // Ours: another configuration, over a reboot. What the image ships is there again.
    let shipped = fs::read_to_string(host.booted().root.join("usr/etc/chrony.conf")).unwrap();
    let mut two = config("two").kernel_arguments(&["app=two"]).json().clone();
    two["metadata"]["name"] = "rendered-two".into();
    ensure_asked(&host.apply(&host.config(&two), None));
    host.reboot();
    assert_eq!(host.read_etc("chrony.conf"), Some(shipped.clone()));
    assert_eq!(host.read_etc("app/one.conf"), None);
    // Back: it finds everything in order, and goes on with it.
    assert!(
        ensure(&host, &["flameholder", "release"]).contains("rendered-two is the machine-config-daemon's")
    );
    assert_eq!(mcd::validate(&host)["metadata"]["name"], "rendered-two");
    ensure_gone(&host);
    assert_eq!(host.read_etc(&mcd::stamp("/etc/app/two.conf")), Some(String::new()));
    assert!(!host.etc(&mcd::stamp("/etc/app/one.conf")).exists() && !host.etc(&mcd::copy(SHIPPED)).exists());
    mcd::leave(&host, "/etc/app/two.conf");
    assert!(!host.etc("app/two.conf").exists());
    // There again: what it changed meanwhile is what counts.
    let refused = with_systemd(&host, &["flameholder", "adopt"]).0;
    assert!(refused.stderr.contains("/etc/app/two.conf is missing"), "{refused:?}");
    ensure_gone(&host);
    let mended = ensure(&host, &["flameholder", "adopt", "--repair"]);
    assert!(mended.contains("repaired: /etc/app/two.conf is missing"), "{mended}");
    host.ensure_whole();
}

#[test]
fn what_it_kept_is_kept_for_it() {
    let host = managed();
    // Written by an administrator, and kept by it all the same: an older version of what is shipped.
    host.write_etc(&mcd::copy("/etc/app/a.conf"), "before");
    host.write_etc(&mcd::copy(SHIPPED), "older");
    fs::remove_file(host.etc(&mcd::stamp("/etc/app/a.conf"))).unwrap();
    ensure(&host, &["flameholder", "adopt"]);
    host.ensure_whole();
    let unmanaged = host.copy();
    let released = ensure(&host, &["flameholder", "release"]);
    // It would not keep what nobody ships.
    let (_, kept) =
        released.split_once("what was at /etc/app/a.conf before it was managed stays in /etc/").unwrap();
    assert_eq!(host.read_etc(kept.trim()), Some("before".to_owned()));
    assert_eq!(host.read_etc(&mcd::stamp("/etc/app/a.conf")), Some(String::new()));
    mcd::leave(&host, SHIPPED);
    assert_eq!(host.read_etc("chrony.conf"), Some("older".to_owned()));
    // And for us.
    let other = Config::new("rendered-other", &[("/etc/app/b.conf", "b")]);
    let outcome = unmanaged.apply(&unmanaged.config(other.json()), None);
    if outcome.code != Some(0) {
        ensure_asked(&outcome);
        unmanaged.reboot();
    }
    assert_eq!(unmanaged.read_etc("app/a.conf"), Some("before".to_owned()));
    assert_eq!(unmanaged.read_etc("chrony.conf"), Some("older".to_owned()));
}

#[test]
fn it_is_not_taken_over_while_somebody_is_at_work() {
    let host = managed();
    fs::copy("/usr/bin/cat", host.path("media/machine-config-daemon")).unwrap();
    let script = "mkfifo /run/wait; /run/media/machine-config-daemon /run/wait & flameholder adopt; code=$?; kill $!; exit $code";
    let (refused, calls) = with_systemd(&host, &["sh", "-c", script]);
    assert_eq!(refused.code, Some(75));
    assert!(refused.stderr.contains("the machine-config-daemon runs here as process "), "{refused:?}");
    assert_eq!(calls, Vec::<String>::new());
    ensure_gone(&host);
    ensure(&host, &["flameholder", "adopt"]);
    // Something is on its way.
    ensure_asked(&host.apply(&host.config(whole("two").json()), None));
    let refused = with_systemd(&host, &["flameholder", "release"]).0;
    assert!(
        refused.code == Some(75) && refused.stderr.contains(" is staged or was not judged yet"),
        "{refused:?}"
    );
    host.ensure_whole();
}

#[test]
fn a_host_that_is_not_as_it_should_be_is_left_alone_until_it_is_to_be_mended() {
    let host = managed();
    host.write_etc("app/a.conf", "changed");
    let refused = with_systemd(&host, &["flameholder", "adopt"]).0;
    assert_eq!(refused.code, Some(1));
    for part in ["/etc/app/a.conf has other content", "flameholder adopt --repair"] {
        assert!(refused.stderr.contains(part), "{refused:?}");
    }
    ensure_gone(&host);
    let mended = ensure(&host, &["flameholder", "adopt", "--repair"]);
    assert!(mended.contains("repaired: /etc/app/a.conf has other content"), "{mended}");
    host.ensure_whole();
    host.write_etc("app/a.conf", "changed");
    let refused = with_systemd(&host, &["flameholder", "release"]).0;
    assert!(
        refused.code == Some(1) && refused.stderr.contains("/etc/app/a.conf has other content"),
        "{refused:?}"
    );
    assert!(host.etc("flameholder/generation").exists());
}

#[test]
fn a_password_of_the_administrators_own_stays() {
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
    ensure(&host, &["flameholder", "adopt", "--repair"]);
    assert_eq!(host.read_etc("shadow"), Some(own));
    host.ensure_whole();
}

#[test]
fn a_kubelet_that_is_started_meanwhile_is_not_kept_from_running() {
    let host = managed();
    ensure(&host, &["flameholder", "adopt"]);
    let script = "exec 9<>/var/lib/flameholder/lock; flock --exclusive 9; flameholder activate";
    let outcome = host.run(["sh", "-c", script]);
    assert!(
        outcome.code == Some(0) && outcome.stderr.contains("nothing is left to be activated"),
        "{outcome:?}"
    );
}

#[test]
fn what_a_first_boot_leaves_is_completed_from_what_the_config_server_sent() {
    let host = managed();
    let whole = host.read_etc("machine-config-daemon/currentconfig").unwrap();
    let mut hollow: serde_json::Value = serde_json::from_str(&whole).unwrap();
    hollow["spec"]["config"] = serde_json::json!({"ignition": {"version": "3.2.0"}});
    host.write_etc("machine-config-daemon/currentconfig", &hollow.to_string());
    let refused = with_systemd(&host, &["flameholder", "adopt"]).0;
    assert!(refused.code == Some(1) && refused.stderr.contains("has no files and no units"), "{refused:?}");
    host.write_etc("mcs-machine-config-content.json", &whole);
    host.write_etc("app/a.conf", "changed");
    let refused = with_systemd(&host, &["flameholder", "adopt"]).0;
    assert!(refused.stderr.contains("/etc/app/a.conf has other content"), "{refused:?}");
    host.write_etc("app/a.conf", "one");
    ensure(&host, &["flameholder", "adopt"]);
    host.ensure_whole();
    mcd::validate(&host);
    let record: serde_json::Value =
        serde_json::from_str(&host.read_etc("flameholder/generation").unwrap()).unwrap();
    assert_eq!(record["originals"], serde_json::json!([]), "what it wrote is nobody else's");
    // And where there is nothing at all.
    let bare = Host::install(Os::new(1));
    let refused = with_systemd(&bare, &["flameholder", "adopt"]).0;
    assert!(refused.code == Some(1) && refused.stderr.contains("there is nothing to adopt"), "{refused:?}");
}

#[test]
fn a_daemon_is_started_with_what_it_is_to_follow() {
    let host = managed();
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
    let (outcome, calls) = with_systemd(&host, &command);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let environment =
        "FLAMEHOLDER_SOURCE=kube\nFLAMEHOLDER_KUBECONFIG=/etc/flameholder/kubeconfig\nNODE_NAME=edge-7\n";
    assert_eq!(host.read_etc("flameholder/daemon.env").as_deref(), Some(environment));
    let asked: Vec<&str> = calls.iter().map(String::as_str).filter(|call| *call != "Subscribe").collect();
    assert_eq!(asked, ["Reload", "RestartUnit flameholder-daemon.service replace"]);
    for bad in ["a b", "x\ny", "\"q", "#"] {
        let refused = host.run(["flameholder", "adopt", "--source", "kube", "--node-name", bad]);
        assert_eq!(refused.code, Some(64), "{refused:?}");
    }
}

/// Killed at a sample of its calls that change something, and called again: it comes to the same end, and the host is
/// never anything that the machine-config-daemon would refuse.
fn killed(before: &Host, command: &str, ensure_end: fn(&Host)) {
    let traced = |host: &Host, arguments: &str| {
        with_systemd(host, &["sh", "-c", &format!("strace {arguments} flameholder {command}")])
    };
    let host = before.copy();
    traced(&host, "-o /run/media/calls");
    let log = fs::read(host.path("media/calls")).unwrap();
    let mut calls = strace::parse(&String::from_utf8_lossy(&log));
    calls.retain(Call::is_change);
    let is_all = testbed::is_exhaustive();
    let step = if is_all { 1 } else { calls.len().div_ceil(SAMPLE) };
    let mut killed = 0;
    for call in calls.iter().rev().step_by(step) {
        let host = before.copy();
        let place = call.place();
        traced(&host, &format!("-o /run/media/end -e trace={} -e {place}", call.name));
        let end = fs::read(host.path("media/end")).unwrap_or_default();
        killed += usize::from(String::from_utf8_lossy(&end).contains("killed by SIGKILL"));
        // The power goes as well, for half of them.
        if killed % 2 == 0 {
            host.power_cut();
            host.start(0);
        }
        let (again, _) = with_systemd(&host, &["flameholder", command]);
        assert_eq!(again.code, Some(0), "{place}: {again:?}");
        mcd::validate(&host);
        ensure_end(&host);
    }
    assert!(killed * 2 >= SAMPLE, "{killed} kills at {} places", calls.len());
}

#[test]
fn killed_while_it_adopts() {
    testbed::preconditions::require_strace();
    let host = managed();
    killed(&host, "adopt", Host::ensure_whole);
}

#[test]
fn killed_while_it_releases() {
    testbed::preconditions::require_strace();
    let host = managed();
    ensure(&host, &["flameholder", "adopt"]);
    killed(&host, "release", ensure_gone);
}

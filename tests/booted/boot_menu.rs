//! An older entry chosen at the boot menu: files that other programs wrote since are carried forward into it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use osimage::Os;
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::{Host, confirmed_host};
use testbed::strace;

/// Files of other programs, by their paths below `/etc`.
const POD: &str = "kubernetes/manifests/pod.yaml";
const OTHER_POD: &str = "kubernetes/manifests/other.yaml";
const HOST_KEY: &str = "ssh/ssh_host_ed25519_key";

/// A host updated from generation one to two, with files of other programs written in each.
pub(crate) fn two_after_one() -> (Host, String) {
    let host = confirmed_host("one");
    host.write_etc(POD, "in one");
    host.write_etc(HOST_KEY, "key of one");
    let two = host.config(full_config("two").json());
    host.update(&two, None);
    assert_eq!(host.read_etc(POD).as_deref(), Some("in one"));
    fs::remove_file(host.etc(POD)).unwrap();
    host.write_etc(OTHER_POD, "in two");
    host.write_etc(HOST_KEY, "key of two");
    host.write_etc("shadow", "root:*:20000::::::\ncore:rotated:20001:0:99999:7:::\n");
    host.write_etc("chrony.conf", "tuned in two");
    (host, two)
}

#[test]
fn files_of_other_programs_are_carried_both_ways() {
    let (host, two) = two_after_one();
    host.shut_down();
    let boot = host.boot_entry(1).assert_success();
    assert!(boot.activate.stdout.contains("carried forward"), "{boot:?}");
    assert_config(&host, "one", "two");
    assert_eq!(host.read_etc(POD), None, "the pod was removed since");
    assert_eq!(host.read_etc(OTHER_POD).as_deref(), Some("in two"));
    assert_eq!(host.read_etc(HOST_KEY).as_deref(), Some("key of two"));
    assert!(host.read_etc("shadow").unwrap().contains("rotated"));
    assert!(
        !host.read_etc("chrony.conf").unwrap().contains("tuned"),
        "a tuned default stays with its deployment"
    );
    assert_eq!(host.core_keys(), "ssh-ed25519 AAAA two\n", "keys never go back");
    let verified = host.run(["flameholder", "verify"]);
    assert!(
        verified.code == Some(0) && verified.stdout.contains("ignored by policy: 1 drifted path"),
        "{verified:?}"
    );
    assert!(verified.stdout.contains("authorized_keys.d/ignition  content"), "{verified:?}");
    assert_eq!(host.status()["blocked"]["config"], "rendered-two");
    let refused = host.apply(&two, None);
    assert!(refused.code == Some(1) && refused.stderr.contains("boot menu"), "{refused:?}");
    // Booted a second time, it takes nothing more.
    host.write_etc(OTHER_POD, "in one again");
    host.shut_down();
    let boot = host.boot_entry(1).assert_success();
    assert!(!boot.activate.stdout.contains("carried forward"), "{boot:?}");
    assert_eq!(host.read_etc(OTHER_POD).as_deref(), Some("in one again"));
    // The newer entry takes the files back.
    host.shut_down();
    let boot = host.boot_entry(0).assert_success();
    assert!(boot.activate.stdout.contains("carried forward"), "{boot:?}");
    assert_config(&host, "two", "one");
    assert_eq!(host.read_etc(OTHER_POD).as_deref(), Some("in one again"));
    assert_eq!(host.core_keys(), "ssh-ed25519 AAAA two\n");
    host.assert_no_drift();
}

#[test]
fn name_that_no_path_can_have_does_not_keep_the_others_from_being_carried() {
    let (host, _) = two_after_one();
    let anchors = host.etc("pki/ca-trust/source/anchors");
    fs::create_dir_all(&anchors).unwrap();
    fs::write(anchors.join(OsStr::from_bytes(b"Stra\xdfe.pem")), "latin").unwrap();
    fs::write(anchors.join("site.pem"), "new").unwrap();
    host.shut_down();
    let boot = host.boot_entry(1).assert_success();
    assert!(boot.activate.stderr.contains("a name that is not valid UTF-8 stays"), "{boot:?}");
    assert_eq!(host.read_etc("pki/ca-trust/source/anchors/site.pem").as_deref(), Some("new"));
    assert!(host.read_etc("shadow").unwrap().contains("rotated"));
}

/// Run a command of the activation whose disk is full when it stages the files to carry: their directory is the first that
/// it makes.
fn run_with_a_full_disk(host: &Host, command: &[&str]) {
    let full = "inject=mkdirat:error=ENOSPC:when=1";
    let trace = ["strace", "-f", "-o", "/dev/null", "-e", "trace=mkdirat", "-e", full];
    let activated = host.run([&trace[..], command].concat());
    assert_eq!(activated.code, Some(0), "{activated:?}");
    assert!(activated.stderr.contains("files are not carried forward"), "{activated:?}");
    assert!(!host.read_etc("shadow").unwrap().contains("rotated"));
}

/// Generation one, booted again, whose early activation could not carry the files forward.
fn host_that_could_not_carry() -> Host {
    testbed::preconditions::require_strace();
    let (host, _) = two_after_one();
    host.shut_down();
    host.boot_kernel(1);
    run_with_a_full_disk(&host, &ACTIVATE);
    host
}

fn assert_carried(host: &Host) {
    assert!(host.read_etc("shadow").unwrap().contains("rotated"));
    assert_eq!(host.read_etc(OTHER_POD).as_deref(), Some("in two"));
}

const ACTIVATE: [&str; 2] = ["flameholder", "activate"];
const AFTER_MOUNTS: [&str; 3] = ["flameholder", "activate", "--after-mounts"];

#[test]
fn files_are_carried_at_the_second_attempt_before_the_workload_starts() {
    let host = host_that_could_not_carry();
    assert!(host.path("run/flameholder/awaits-mounts").exists());
    host.run_ok(AFTER_MOUNTS);
    assert_carried(&host);
}

#[test]
fn next_boot_carries_the_files_if_the_power_went_before_the_workload_started() {
    let host = host_that_could_not_carry();
    host.power_cut();
    let boot = host.boot_entry(1).assert_success();
    assert!(boot.activate.stdout.contains("carried forward"), "{boot:?}");
    assert_carried(&host);
}

#[test]
fn files_that_the_workload_wrote_are_not_overwritten_by_those_that_could_not_be_carried() {
    let host = host_that_could_not_carry();
    run_with_a_full_disk(&host, &AFTER_MOUNTS);
    host.write_etc(POD, "in one again");
    host.power_cut();
    let boot = host.boot_entry(1).assert_success();
    assert!(!boot.activate.stdout.contains("carried forward"), "{boot:?}");
    assert_eq!(host.read_etc(POD).as_deref(), Some("in one again"));
    assert_eq!(host.read_etc(OTHER_POD), None);
}

#[test]
fn links_are_carried_and_not_followed() {
    let (host, _) = two_after_one();
    let certs = host.etc("containers/certs.d");
    fs::create_dir_all(host.etc("pki/site")).unwrap();
    fs::create_dir_all(&certs).unwrap();
    symlink("/etc/pki/site", certs.join("quay.io")).unwrap();
    host.write_etc("pki/site/ca.crt", "in two");
    for (link, target) in [("a", "."), ("b", ".")] {
        symlink(target, certs.join(link)).unwrap();
    }
    host.shut_down();
    let boot = host.boot_entry(1).assert_success();
    assert!(boot.activate.stderr.is_empty(), "{boot:?}");
    let link = fs::read_link(host.etc("containers/certs.d/quay.io")).unwrap();
    assert_eq!(link, Path::new("/etc/pki/site"));
    assert_eq!(host.read_etc("pki/site/ca.crt"), None, "it is no path of other programs");
}

#[test]
fn keys_from_before_the_first_config_do_not_come_back() {
    let host = Host::install(Os::new(1));
    let keys = host.var("home/core/.ssh/authorized_keys.d/ignition");
    fs::create_dir_all(keys.parent().unwrap()).unwrap();
    fs::write(keys, "ssh-ed25519 AAAA installer\n").unwrap();
    for text in ["one", "two"] {
        host.update(&host.config(full_config(text).json()), None);
    }
    host.shut_down();
    host.boot_entry(1).assert_success();
    assert_config(&host, "one", "two");
    assert_eq!(host.core_keys(), "ssh-ed25519 AAAA two\n");
    host.assert_no_drift();
    host.update(&host.config(full_config("three").json()), None);
    assert_config(&host, "three", "one");
    host.assert_no_drift();
}

#[test]
fn update_starts_from_older_entry() {
    let (host, _) = two_after_one();
    host.shut_down();
    host.boot_entry(1).assert_success();
    let three = host.config(full_config("three").json());
    host.update(&three, None);
    assert_config(&host, "three", "one");
    assert_eq!(host.read_etc(OTHER_POD).as_deref(), Some("in two"));
    assert_eq!(host.read_etc(HOST_KEY).as_deref(), Some("key of two"));
    host.assert_no_drift();
}

/// A file that changes without a reboot.
const LIVE: &str = "/etc/nmstate/openshift/cluster.yml";

#[test]
fn interrupted_live_update_is_undone_from_another_entry() {
    testbed::preconditions::require_strace();
    let (host, _) = two_after_one();
    // The harder case: the stateroot's own directory has no journal.
    host.move_var_out_of_stateroot();
    let live = host.config(full_config("two").file_with_mode(LIVE, 0o644, "live").json());
    let before = host.booted();
    // Each journaled step ends in one such call, as does the journal itself.
    for number in 1.. {
        let place = strace::injection("renameat2", number, "KILL");
        let killed = host.run([
            "strace",
            "-o",
            "/dev/null",
            "-e",
            "trace=renameat2",
            "-e",
            &place,
            "flameholder",
            "apply",
            "--desired",
            &live,
        ]);
        let is_open = host.var("lib/flameholder/journal").exists();
        // The last call is that of the published status, when the change is complete.
        if !is_open && host.read_etc("nmstate/openshift/cluster.yml").as_deref() == Some("live") {
            assert!(number > 3, "a change makes {number} renames");
            break;
        }
        assert_eq!(killed.code, Some(137), "{killed:?}");
        host.power_cut();
        host.boot_entry(1).assert_success();
        assert_config(&host, "one", "two");
        assert!(!host.var("lib/flameholder/journal").exists(), "{place}");
        let staged = before.at("etc/.flameholder.d");
        let left = fs::read_dir(&staged).map_or(0, Iterator::count);
        assert!(!is_open || left == 0, "{place} leaves something in {}", staged.display());
        host.shut_down();
        host.boot_entry(0).assert_success();
        assert_config(&host, "two", "one");
        host.assert_no_drift();
    }
    assert_eq!(host.read_etc("nmstate/openshift/cluster.yml").as_deref(), Some("live"));
    host.assert_no_drift();
}

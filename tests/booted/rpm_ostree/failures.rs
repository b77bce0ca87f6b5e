//! A daemon that fails, in each of the ways in which it can: an error that says what to do, or the update all the same;
//! and nothing of it is left.

use osimage::Os;
use rpmostreed::{Die, Faults};

use crate::rpm_ostree::peers::bus::{Bus, fail};
use testbed::booted::{
    config::{assert_config, full_config},
    host::{Host, assert_reboot_requested},
};

/// A host with what it is to become, and a daemon with this fault.
fn faulty(faults: &Faults) -> (Host, Bus, [String; 2]) {
    let host = Host::install(Os::new(1));
    let wanted = [host.config(full_config("one").json()), host.image(&Os::new(2))];
    let bus = Bus::start(&host);
    fail(&host, faults);
    (host, bus, wanted)
}

/// It is refused with these words, nothing is staged, and once the fault is gone it works.
fn refused(faults: &Faults, words: &[&str]) {
    let (host, bus, [config, image]) = faulty(faults);
    let outcome = host.apply(&config, Some(&image));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    for word in words {
        assert!(outcome.stderr.contains(word), "{word}: {outcome:?}");
    }
    assert!(!host.is_staged(), "{outcome:?}");
    fail(&host, &Faults::default());
    goes_there(&host, bus, &config, &image);
}

/// It works all the same.
fn survived(faults: &Faults) {
    let (host, bus, [config, image]) = faulty(faults);
    goes_there(&host, bus, &config, &image);
}

fn goes_there(host: &Host, bus: Bus, config: &str, image: &str) {
    let outcome = host.apply(config, Some(image));
    assert_reboot_requested(&outcome);
    drop(bus);
    host.reboot();
    assert_config(host, "one", "two");
    assert!(host.etc("os/version-2.conf").exists(), "{outcome:?}");
}

fn says(text: &str) -> Faults {
    Faults { fail: Some(text.to_owned()), ..Faults::default() }
}

fn dies(die: Die) -> Faults {
    Faults { die: Some(die), ..Faults::default() }
}

#[test]
fn a_full_disk_is_told() {
    refused(&says("Writing content object: No space left on device"), &["no space left", "remove old"]);
}

#[test]
fn a_registry_that_denies_is_told() {
    refused(
        &says("reading manifest x: unauthorized: authentication required"),
        &["the registry denies access", "pull secret"],
    );
}

#[test]
fn packages_that_cannot_be_had_are_told() {
    refused(&says("Packages not found: usbguard"), &["packages cannot be changed", "usbguard"]);
}

#[test]
fn what_says_that_it_succeeded_is_not_believed() {
    let faults = Faults { lie: true, ..Faults::default() };
    refused(&faults, &["rpm-ostreed reports success, but no deployment is staged"]);
}

#[test]
fn a_result_before_the_answer_is_heard() {
    survived(&Faults { early_result: true, ..Faults::default() });
}

#[test]
fn one_that_dies_once_all_is_done_is_not_needed_any_more() {
    survived(&dies(Die::BeforeFinished));
}

#[test]
fn one_that_cannot_note_who_drives_updates_is_asked_without() {
    let (host, bus, [config, image]) = faulty(&Faults::default());
    let apply = ["flameholder", "apply", "--desired", &config, "--os-image", &image];
    // As in a unit; and the stand-in is in none.
    let outcome = host.run([&["env", "INVOCATION_ID=0123456789abcdef0123456789abcdef"], &apply[..]].concat());
    assert_reboot_requested(&outcome);
    assert_eq!(host.status()["pending"]["rpmOstreeTransactions"], 2, "{outcome:?}");
    drop(bus);
    host.reboot();
    assert_config(&host, "one", "two");
}

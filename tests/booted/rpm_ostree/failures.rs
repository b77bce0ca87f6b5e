//! Failures of the daemon: the error names the remedy or the update succeeds, and no partial change remains.

use osimage::Os;
use rpmostreed::{Die, Faults};
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::{Host, assert_reboot_requested};

use crate::rpm_ostree::peers::bus::{Bus, fail};

/// A host with a faulty daemon, its desired config and its image.
fn faulty(faults: &Faults) -> (Host, Bus, [String; 2]) {
    let host = Host::install(Os::new(1));
    let wanted = [host.config(full_config("one").json()), host.image(&Os::new(2))];
    let bus = Bus::start(&host);
    fail(&host, faults);
    (host, bus, wanted)
}

/// `apply` fails with these words, stages nothing, and succeeds after the fault is removed.
fn ensure_refused(faults: &Faults, words: &[&str]) {
    let (host, bus, [config, image]) = faulty(faults);
    let outcome = host.apply(&config, Some(&image));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    for word in words {
        assert!(outcome.stderr.contains(word), "{word}: {outcome:?}");
    }
    assert!(!host.is_staged(), "{outcome:?}");
    fail(&host, &Faults::default());
    ensure_updated(&host, bus, &config, &image);
}

/// `apply` succeeds despite the fault.
fn ensure_survived(faults: &Faults) {
    let (host, bus, [config, image]) = faulty(faults);
    ensure_updated(&host, bus, &config, &image);
}

fn ensure_updated(host: &Host, bus: Bus, config: &str, image: &str) {
    let outcome = host.apply(config, Some(image));
    assert_reboot_requested(&outcome);
    drop(bus);
    host.reboot();
    assert_config(host, "one", "two");
    assert!(host.etc("os/version-2.conf").exists(), "{outcome:?}");
}

fn fails_with(text: &str) -> Faults {
    Faults { fail: Some(text.to_owned()), ..Faults::default() }
}

fn dies_at(die: Die) -> Faults {
    Faults { die: Some(die), ..Faults::default() }
}

#[test]
fn full_disk_error_names_the_remedy() {
    ensure_refused(
        &fails_with("Writing content object: No space left on device"),
        &["no space left", "remove old"],
    );
}

#[test]
fn denied_registry_error_names_the_pull_secret() {
    ensure_refused(
        &fails_with("reading manifest x: unauthorized: authentication required"),
        &["the registry denies access", "pull secret"],
    );
}

#[test]
fn missing_packages_are_named() {
    ensure_refused(&fails_with("Packages not found: usbguard"), &["packages cannot be changed", "usbguard"]);
}

#[test]
fn success_without_staged_deployment_is_an_error() {
    let faults = Faults { lie: true, ..Faults::default() };
    ensure_refused(&faults, &["rpm-ostreed reports success, but no deployment is staged"]);
}

#[test]
fn result_before_the_reply_is_received() {
    ensure_survived(&Faults { early_result: true, ..Faults::default() });
}

#[test]
fn daemon_death_after_staging_is_tolerated() {
    ensure_survived(&dies_at(Die::BeforeFinished));
}

#[test]
fn request_is_repeated_without_driver_registration() {
    let (host, bus, [config, image]) = faulty(&Faults::default());
    let apply = ["flameholder", "apply", "--desired", &config, "--os-image", &image];
    // The variable says that a unit runs; the stand-in finds no such unit.
    let outcome = host.run([&["env", "INVOCATION_ID=0123456789abcdef0123456789abcdef"], &apply[..]].concat());
    assert_reboot_requested(&outcome);
    assert_eq!(host.status()["pending"]["rpmOstreeTransactions"], 2, "{outcome:?}");
    drop(bus);
    host.reboot();
    assert_config(&host, "one", "two");
}

/// rpm-ostreed pulls through the same skopeo, so that the check comes before its transaction.
#[test]
fn image_whose_signature_no_policy_demands_never_reaches_the_daemon() {
    let (host, bus, [config, image]) = faulty(&fails_with("the daemon was asked"));
    host.write_etc("containers/policy.json", r#"{"default": [{"type": "insecureAcceptAnything"}]}"#);
    let signed = image.replace("ostree-unverified-image:", "ostree-image-signed:");
    let outcome = host.apply(&config, Some(&signed));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("insecureAcceptAnything"), "{outcome:?}");
    assert!(!outcome.stderr.contains("the daemon was asked"), "{outcome:?}");
    assert!(!host.is_staged(), "{outcome:?}");
    fail(&host, &Faults::default());
    ensure_updated(&host, bus, &config, &image);
}

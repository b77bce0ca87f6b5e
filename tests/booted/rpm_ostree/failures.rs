//! Failures of the daemon: the error names the remedy or the update succeeds, and no partial change remains.

use osimage::Os;
use rpmostreed::{Die, Faults};
use serde_json::Value;
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::{Host, assert_unlocked};

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
    assert_unlocked(&outcome);
    drop(bus);
    host.reboot();
    assert_config(host, "one", "two");
    assert!(host.etc("os/version-2.conf").exists(), "{outcome:?}");
}

fn fails_with(text: &str) -> Faults {
    Faults { fail: Some(text.to_owned()), ..Faults::default() }
}

fn dies_once_at(die: Die) -> Faults {
    Faults { die: Some(die), die_once: true, ..Faults::default() }
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
    ensure_survived(&dies_once_at(Die::AfterStaging));
    ensure_survived(&dies_once_at(Die::BeforeFinished));
}

/// rpm-ostreed runs a program of the new OS after it has staged it, and leaves it staged where that fails.
#[test]
fn rejected_image_is_removed_and_not_tried_again_until_retry() {
    let host = Host::install(Os::new(1));
    let config = host.config(full_config("one").json());
    let broken = host.image(&Os::new(2).broken());
    let bus = Bus::start(&host);
    let refs =
        || host.run_ok(["ostree", "refs", "--repo=/sysroot/ostree/repo", "--list", "ostree/container/image"]);
    let before = refs();
    let rejected = host.apply(&config, Some(&broken));
    assert_eq!(rejected.code, Some(1), "{rejected:?}");
    for words in ["rejects", "Sanity-checking final rootfs", "flameholder retry"] {
        assert!(rejected.stderr.contains(words), "{words}: {rejected:?}");
    }
    assert!(!host.is_staged(), "{rejected:?}");
    assert_eq!(refs(), before, "its image would be deployed without a check");
    // Neither the same command nor another config with that image deploys it, by rpm-ostreed or without.
    let other = host.config(full_config("two").json());
    for (config, backend, words) in [
        (&config, "libostree", "is blocked: rpm-ostreed rejects"),
        (&other, "libostree", "is blocked: rpm-ostreed rejects"),
        // A tag may name another image by now.
        (&other, "auto", "error: rpm-ostreed rejects"),
    ] {
        let command =
            ["flameholder", "apply", "--desired", config, "--os-image", &broken, "--os-backend", backend];
        let blocked = host.run(command);
        assert_eq!(blocked.code, Some(1), "{blocked:?}");
        assert!(blocked.stderr.contains(words), "{blocked:?}");
        assert!(!host.is_staged(), "{blocked:?}");
    }
    let status = host.status();
    assert_eq!((&status["blocked"]["attempts"], &status["blocked"]["generation"]), (&1.into(), &Value::Null));
    let printed = host.run_ok(["flameholder", "status"]);
    assert!(printed.contains("Sanity-checking final rootfs"), "{printed}");
    host.run_ok(["flameholder", "retry"]);
    let again = host.apply(&config, Some(&broken));
    assert!(again.stderr.contains("error: rpm-ostreed rejects"), "{again:?}");
    // Another image of that tag is no retry.
    let good = host.image(&Os::new(2));
    ensure_updated(&host, bus, &config, &good);
}

/// The next attempt fetches nothing again.
#[test]
fn update_that_cannot_be_staged_leaves_its_checked_image_and_no_request() {
    let (host, _bus, [_, image]) = faulty(&Faults::default());
    let config = full_config("one").file_with_mode("/nowhere/file", 0o644, "a directory that no image has");
    let config = host.config(config.json());
    let images = || {
        let refs = ["ostree", "refs", "--repo=/sysroot/ostree/repo", "--list", "ostree/container/image"];
        host.run_ok(refs).lines().count()
    };
    let before = images();
    let refused = host.apply(&config, Some(&image));
    assert!(refused.code == Some(78) && refused.stderr.contains("/nowhere"), "{refused:?}");
    assert!(refused.stderr.contains("fetch the image"), "the image was imported: {refused:?}");
    assert!(!host.is_staged() && images() == before + 1, "{refused:?}");
    assert!(!host.var("lib/flameholder/rpm-ostree-request").exists(), "{refused:?}");
}

#[test]
fn daemon_death_between_staging_and_check_is_no_success() {
    let (host, bus, [config, image]) = faulty(&Faults { die: Some(Die::AfterStaging), ..Faults::default() });
    let outcome = host.apply(&config, Some(&image));
    assert_eq!(outcome.code, Some(1), "each transaction dies: {outcome:?}");
    assert!(!host.is_staged(), "{outcome:?}");
    fail(&host, &Faults::default());
    ensure_updated(&host, bus, &config, &image);
}

#[test]
fn cancellation_between_staging_and_check_is_no_success() {
    let (host, bus, [config, image]) = faulty(&Faults { cancelled_late: true, ..Faults::default() });
    let outcome = host.apply(&config, Some(&image));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("cancelled by another program"), "{outcome:?}");
    assert!(!host.is_staged(), "{outcome:?}");
    fail(&host, &Faults::default());
    ensure_updated(&host, bus, &config, &image);
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

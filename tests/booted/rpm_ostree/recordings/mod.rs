//! Recorded sessions of the real rpm-ostreed, repeated with the stand-in: it must answer as the real one did, in order,
//! with the same members, signatures, error names and texts. `tests/fixtures/rpm-ostreed` describes the recordings.

mod message;
mod replay;

use std::fs;

use osimage::{ImageRegistry, Os, RegistryAnswers};
use rpmostreed::Faults;
use testbed::booted::host::Host;

use super::client::DaemonHost;
use super::packages::offer;
use replay::Replay;

/// Image references of the recordings, and the versions that stand for them.
const IMAGES: [(&str, u32); 6] = [
    ("os@sha256:dd180e7429e7b95d2f71cca1643cbc23bca12887e6a9829c8b94c0f12f2d122b", 2),
    ("os@sha256:3394fba288ed4f160c46fb6e06cca911dff0b4ebe96c2c402e692955ec063b70", 3),
    ("pk:v2", 2),
    ("pk:v1", 1),
    ("os:latest", 1),
    ("os:v1", 1),
];
const BROKEN: &str = "broken@sha256:0592b63f3b8fd1b112b43e6fff41253aeca5e44e3ee08ed07a31fc64bda5e926";
/// Registry of the recordings.
const REGISTRY: &str = "ostree-unverified-registry:registry.example/";

/// Milliseconds without a client after which the daemon exits, where a recording has its end.
const IDLE: u64 = 200;

/// Repeat a recording on a host with these faults.
fn replay(name: &str, faults: &Faults) {
    let fixture =
        if name.starts_with("idle") { DaemonHost::with_idle(faults, IDLE) } else { DaemonHost::new(faults) };
    offer(&fixture.host, &["usbguard"]);
    let mut replay = Replay::new(&fixture);
    for (recorded, version) in IMAGES {
        replay.substitute(format!("{REGISTRY}{recorded}"), fixture.host.image(&Os::new(version)));
    }
    // Its own tag, so that no other image is replaced.
    replay.substitute(format!("{REGISTRY}{BROKEN}"), fixture.host.image(&Os::new(4).broken()));
    fixture.runtime.block_on(replay.run(name));
}

/// Repeat a recording in which `repository` of the registry is asked for a manifest, on a host that booted the image
/// with the tag `booted` from there.
fn replay_with_registry(name: &str, (repository, booted): (&str, &str), answers: RegistryAnswers) {
    let fixture = DaemonHost::new(&Faults::default());
    let registry = ImageRegistry::start(answers).unwrap();
    let own = format!("{}/os", registry.address());
    let insecure = format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", registry.address());
    fixture.host.write_etc("containers/registries.conf.d/50-test.conf", &insecure);
    set_booted_image(&fixture.host, &format!("ostree-unverified-registry:{own}:{booted}"));
    let mut replay = Replay::new(&fixture);
    replay.substitute(format!("registry.example/{repository}"), own);
    fixture.runtime.block_on(replay.run(name));
}

/// Write another image reference into the origin of the booted deployment.
fn set_booted_image(host: &Host, reference: &str) {
    let key = "container-image-reference=";
    let deployments = fs::read_dir(host.sysroot().join("ostree/deploy/fedora-coreos/deploy")).unwrap();
    let mut files = deployments.map(|entry| entry.unwrap().path());
    let origin = files.find(|path| path.extension().is_some_and(|it| it == "origin")).unwrap();
    let text = fs::read_to_string(&origin).unwrap();
    let lines = text
        .lines()
        .map(|line| if line.starts_with(key) { format!("{key}{reference}\n") } else { format!("{line}\n") });
    fs::write(origin, lines.collect::<String>()).unwrap();
}

fn registry_without_images() -> RegistryAnswers {
    RegistryAnswers::Layout("/nonexistent".into())
}

#[test]
fn missing_manifest_is_named() {
    replay_with_registry("registry-missing-tag", ("os", "v1"), registry_without_images());
}

#[test]
fn denied_manifest_is_named() {
    let answer = r#"{"errors": [{"code": "UNAUTHORIZED"}]}"#;
    let answers = RegistryAnswers::Status("401 Unauthorized", answer);
    replay_with_registry("registry-unauthorized", ("private/os", "v0"), answers);
}

#[test]
fn packages_alone_pull_the_tag_of_their_base() {
    replay_with_registry("packages-pull-the-tag-of-their-base", ("pk", "v1"), registry_without_images());
}

/// Time enough for a client to act while a layer is fetched.
fn slow_layers() -> Faults {
    Faults { slow_layers: 1500, ..Faults::default() }
}

/// Generate a test of each recording from its name.
macro_rules! recordings {
    ($($name:ident $file:literal $faults:expr;)*) => {$(
        #[test]
        fn $name() {
            replay($file, &$faults);
        }
    )*};
}

recordings! {
    registration_is_answered "registration" Faults::default();
    rebase_is_followed "rebase-by-flameholder" Faults::default();
    rebase_of_the_command_is_followed "rebase-by-rpm-ostree" Faults::default();
    rebase_with_slow_layers_is_followed "rebase-slow-layers" Faults::default();
    same_image_is_refused_and_upgrade_finds_nothing "same-image-again" Faults::default();
    rejected_image_stays_staged "sanity-check-fails-after-staging" Faults::default();
    skip_purge_without_an_image_is_refused "skip-purge-without-refspec" Faults::default();
    unknown_option_is_ignored_and_nonsense_refused "bad-options" Faults::default();
    packages_are_added_and_removed "packages-added-then-removed" Faults::default();
    package_is_not_added_twice "packages-already-requested" Faults::default();
    missing_package_is_named "packages-not-found" Faults::default();
    package_that_was_not_requested_is_named "packages-not-requested" Faults::default();
    packages_come_with_an_image "packages-with-image-in-one" Faults::default();
    override_of_a_missing_package_is_refused "override-remove-not-there" Faults::default();
    staged_deployment_is_cleaned_up_once "cleanup-of-pending" Faults::default();
    second_client_is_refused_or_joins "busy-second-client" slow_layers();
    held_lock_is_an_error_at_once "lock-held" Faults::default();
    owner_cancels "cancel-by-owner" slow_layers();
    another_client_cancels "cancel-by-another-client" slow_layers();
    transaction_outlives_its_owner "owner-disconnects" Faults::default();
    closed_port_is_named "registry-down" Faults::default();
    client_that_waits_sees_the_transaction_until_it_ends "busy-flameholder-waits" slow_layers();
    killed_daemon_is_started_again "daemon-killed-midway" Faults { slow_layers: 300, ..Faults::default() };
    idle_daemon_exits_and_is_started_again "idle-exit-and-restart" Faults::default();
    failed_script_of_a_package_is_named "packages-script-fails" Faults { script_fails: true, ..Faults::default() };
}

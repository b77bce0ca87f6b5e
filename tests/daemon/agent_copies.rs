//! An adopted copy of the agent on hosts whose image gets an agent of its own: the newer one runs, its units
//! are in effect, and every deployment can boot.

use std::fs;

use flameholder::core::state::installation::image_agent::IMAGE_UNITS;
use flameholder::core::state::installation::{unit_files, unit_links};
use osimage::Os;
use testbed::booted::config::full_config;
use testbed::booted::host::{Host, WORKER, assert_unlocked};

use crate::handover::{assert_survives_kills, mcd_host, mcd_host_on, run_ok};

const COPY: &str = "/var/usrlocal/libexec/flameholder/";
const IMAGE: &str = "/usr/bin/flameholder";
const NEWER: &str = "9.0.0";
const OLDER: &str = "0.0.9";

/// Adopt the host, and leave it with the adopted copy alone.
fn adopted(host: Host) -> Host {
    run_ok(&host, &["flameholder", "adopt"]);
    remove_pod(&host);
    host
}

/// Remove the programs of the pod, which precede others.
fn remove_pod(host: &Host) {
    host.remove_program("flameholder");
    host.remove_program(WORKER);
}

/// Path of the agent that a unit runs.
fn agent(host: &Host) -> String {
    let status = host.status();
    assert_eq!(status["agent"]["version"], env!("CARGO_PKG_VERSION"));
    status["agent"]["path"].as_str().unwrap().to_owned()
}

/// Update to this image, with the text in the config's files.
fn update(host: &Host, text: &str, os: &Os) {
    let image = host.image(os);
    assert_unlocked(&host.apply(&host.config(full_config(text).json()), Some(&image)));
    host.reboot();
    host.assert_no_drift();
}

fn assert_copy_runs(host: &Host) {
    assert!(agent(host).starts_with(COPY), "{}", agent(host));
    for (path, text) in unit_files() {
        let path = path.as_str().trim_start_matches("/etc/");
        assert_eq!(host.read_etc(path).as_deref(), Some(text), "{path}");
    }
    for (path, target) in unit_links() {
        let link = host.etc(path.as_str().trim_start_matches("/etc/"));
        assert_eq!(fs::read_link(&link).unwrap().to_str().unwrap(), target, "{path}");
    }
}

/// Panics unless the image's units are in effect, and no others.
fn assert_units_of_image(host: &Host) {
    for (path, _) in unit_files() {
        assert!(!host.etc(path.as_str().trim_start_matches("/etc/")).exists(), "{path}");
        let shipped = path.as_str().replace("/etc/systemd/system", IMAGE_UNITS);
        assert!(host.booted().root.join(shipped.trim_start_matches('/')).exists(), "{shipped}");
    }
    for (path, target) in unit_links() {
        let (link, expected) = (
            host.etc(path.as_str().trim_start_matches("/etc/")),
            target.replace("/etc/systemd/system", IMAGE_UNITS),
        );
        assert_eq!(fs::read_link(&link).unwrap().to_str().unwrap(), expected, "{path}");
    }
}

fn assert_image_runs(host: &Host) {
    assert_eq!(agent(host), IMAGE);
    assert_units_of_image(host);
}

fn has_copy(host: &Host) -> bool {
    let link = fs::symlink_metadata(host.var("usrlocal/bin/flameholder")).is_ok();
    assert_eq!(link, host.var("usrlocal/libexec/flameholder").exists());
    link
}

#[test]
fn adopted_copy_gives_way_to_a_newer_agent_of_the_image_until_it_is_rolled_back() {
    for enabled in [true, false] {
        let host = adopted(mcd_host());
        assert_copy_runs(&host);
        update(&host, "two", &Os::new(2).with_agent(NEWER, enabled));
        assert_image_runs(&host);
        assert!(has_copy(&host), "the older deployment needs it");
        // The old boot entry.
        let menu = host.copy();
        menu.shut_down();
        menu.boot_entry(1);
        assert_copy_runs(&menu);
        // A new deployment of the old image, merged from an /etc without installed units.
        assert_unlocked(&host.run(["flameholder", "rollback"]));
        host.reboot();
        assert_copy_runs(&host);
    }
}

#[test]
fn adopted_copy_is_removed_after_the_last_deployment_with_its_units() {
    let host = adopted(mcd_host());
    update(&host, "two", &Os::new(2).with_agent(NEWER, true));
    assert!(has_copy(&host));
    update(&host, "three", &Os::new(3).with_agent(NEWER, true));
    assert!(!has_copy(&host));
    assert_image_runs(&host);
    update(&host, "four", &Os::new(4).with_agent(NEWER, true));
    assert_image_runs(&host);
}

#[test]
fn adopted_copy_stays_beside_an_older_agent_of_the_image() {
    let host = adopted(mcd_host());
    update(&host, "two", &Os::new(2).with_agent(OLDER, true));
    assert_copy_runs(&host);
    update(&host, "three", &Os::new(3).with_agent(NEWER, true));
    assert_image_runs(&host);
    // The newer image's agent writes the units of the copy for an image with an older agent.
    update(&host, "four", &Os::new(4).with_agent(OLDER, true));
    assert_copy_runs(&host);
}

#[test]
fn image_agent_of_unknown_version_leaves_the_adopted_copy_in_place() {
    let host = adopted(mcd_host());
    update(&host, "two", &Os::new(2).with_agent("next", true));
    assert_copy_runs(&host);
    let warned = host.run(["flameholder", "status", "-o", "json"]);
    assert!(warned.stderr.contains("`next` is no version of the agent"), "{warned:?}");
}

#[test]
fn adopt_installs_nothing_beside_an_agent_of_the_image() {
    let host = mcd_host_on(Os::new(1).with_agent(NEWER, true));
    let text = run_ok(&host, &["flameholder", "adopt"]);
    assert!(text.contains("the OS image ships the agent"), "{text}");
    assert!(!text.contains("removed"), "{text}");
    assert!(!has_copy(&host));
    assert_units_of_image(&host);
    remove_pod(&host);
    assert_image_runs(&host);
}

/// Host with an adopted copy, whose image then gets a newer agent without Flameholder's finalization.
fn adopted_host_under_foreign_image() -> Host {
    let host = mcd_host_on(Os::new(1).with_agent(OLDER, true));
    run_ok(&host, &["flameholder", "adopt"]);
    let unit = host.booted().root.join("usr/lib/systemd/system/flameholder-activate.service");
    let text = fs::read_to_string(&unit).unwrap();
    fs::remove_file(&unit).unwrap();
    fs::write(&unit, text.replace(OLDER, NEWER)).unwrap();
    host
}

fn assert_gave_way(host: &Host) {
    assert!(!has_copy(host));
    assert_units_of_image(host);
    host.assert_no_drift();
}

#[test]
fn adopt_removes_an_adopted_copy_beside_an_agent_of_the_image() {
    let host = adopted_host_under_foreign_image();
    let without_pod = host.copy();
    remove_pod(&without_pod);
    assert_eq!(agent(&without_pod), IMAGE, "whichever units start it");
    let text = run_ok(&host, &["flameholder", "adopt"]);
    assert!(text.contains("the units of the adopted copy are removed"), "{text}");
    assert_gave_way(&host);
    assert!(!run_ok(&host, &["flameholder", "adopt"]).contains("removed"));
}

#[test]
fn removal_of_an_adopted_copy_completes_after_a_kill() {
    testbed::preconditions::require_strace();
    let host = adopted_host_under_foreign_image();
    assert_survives_kills(&host, "adopt", assert_gave_way);
}

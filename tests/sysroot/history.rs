//! Long sequences of generations: the result depends on the last config only, not on the earlier ones.

use std::fs;

use osimage::Os;
use testbed::boot::words;
use testbed::model::pairs::{fixtures, load, rendered};
use testbed::offline::{Host, small_config};

use crate::etc::{self, Etc};

/// An `/etc` without the links that enable units and their directories: a preset unit that is no longer listed keeps
/// its link, whereas a host that never listed it has none.
fn without_enablement(etc: Etc) -> Etc {
    let is_enablement = |path: &String| {
        path == "systemd/system"
            || path.starts_with("systemd/system/")
                && (path.contains(".wants") || path.ends_with("/cri-o.service"))
    };
    etc.into_iter().filter(|(path, _)| !is_enablement(path)).collect()
}

#[test]
fn sequence_of_configs_leaves_no_remains() {
    testbed::preconditions::require_installed(&["systemctl"]);
    let host = Host::new();
    let installed = host.default();
    etc::administrate(&installed.at("etc"));
    let mut complaints = Vec::new();
    let configs = [fixtures(), rendered()].concat();
    for (step, path) in configs.iter().chain(configs.iter().rev().step_by(2)).enumerate() {
        let image = (step % 4 == 0).then(|| host.image(&Os::new(2 + u32::try_from(step / 4).unwrap())));
        // The configs name images that no registry here has; the booted image stands in for them.
        let image = image.or_else(|| host.status()["deployments"][0]["image"].as_str().map(str::to_owned));
        let entry = host.update(path, image.as_deref());
        let config = load(path);
        let wanted = without_enablement(etc::expected(&entry.root, etc::administrate, &config));
        let found = without_enablement(etc::found(&entry.root));
        let place = format!("step {step}, {}", path.display());
        complaints
            .extend(etc::differences(&found, &wanted).into_iter().map(|unlike| format!("{place}: {unlike}")));
        let configured: Vec<String> = config.kernel_arguments.iter().flat_map(|line| words(line)).collect();
        let arguments = [installed.arguments.clone(), configured].concat();
        if entry.plain_arguments() != arguments {
            complaints
                .push(format!("{place}: kernel arguments {:?}, not {arguments:?}", entry.plain_arguments()));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn image_behind_moved_tag_is_deployed() {
    let host = Host::new();
    let desired = host.config(&small_config("same", &[("/etc/managed.conf", "1\n")], &[]));
    let layout = host.path("moving");
    let image = format!("ostree-unverified-image:oci:{}:latest", layout.display());
    for version in [2, 3, 2] {
        osimage::remove(&layout).unwrap();
        let digest = osimage::write_image(&Os::new(version), &layout, Some("latest")).unwrap();
        let entry = host.update(&desired, Some(&image));
        assert!(entry.at(&format!("usr/etc/os/version-{version}.conf")).is_file());
        let deployed = &host.status()["deployments"][0];
        assert_eq!(deployed["manifestDigest"], digest.as_str());
        assert_eq!(deployed["version"], Os::new(version).version().as_str());
        assert_eq!(testbed::offline::record(&entry)["deployment"]["imageDigest"], digest.as_str());
    }
}

#[test]
fn drift_is_repaired_in_the_next_deployment() {
    let host = Host::new();
    let desired = host.config(&small_config(
        "same",
        &[("/etc/managed.conf", "1\n"), ("/etc/kept.conf", "1\n")],
        &["one"],
    ));
    let drifted = host.update(&desired, None);
    fs::write(drifted.at("etc/managed.conf"), "drifted\n").unwrap();
    fs::create_dir(drifted.at("etc/.flameholder.d")).unwrap();
    fs::write(drifted.at("etc/.flameholder.d/0"), "staged by a run that was killed\n").unwrap();
    assert_eq!(host.verify().code, Some(2));
    let repaired = host.update(&desired, None);
    assert_ne!(repaired.root, drifted.root);
    assert_eq!(fs::read_to_string(repaired.at("etc/managed.conf")).unwrap(), "1\n");
    assert_eq!(fs::read_to_string(drifted.at("etc/managed.conf")).unwrap(), "drifted\n");
    assert!(!repaired.at("etc/.flameholder.d").exists());
    assert_eq!(repaired.plain_arguments(), drifted.plain_arguments());
    assert_eq!(host.verify().code, Some(0));
}

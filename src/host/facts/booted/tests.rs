//! Identification of the booted deployment, on directories that stand for the root and the sysroot.
#![allow(clippy::unwrap_used, reason = "a test reports by panicking")]

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::core::state::booted_state::{BootedState, booted_state};
use crate::core::state::pending::tests::intent;

fn deployment(serial: u32) -> DeploymentId {
    DeploymentId { stateroot: "os".into(), commit: "a".repeat(64), serial }
}

/// Sysroot with the deployments 0 to 2; the kernel argument `ostree=` leads to the first one.
fn sysroot() -> (tempfile::TempDir, KernelArguments) {
    let sysroot = tempfile::tempdir().unwrap();
    for serial in 0..3 {
        fs::create_dir_all(sysroot.path().join(deployment(serial).path()).join("etc")).unwrap();
    }
    let boot = sysroot.path().join("ostree/boot.1/os/b");
    fs::create_dir_all(&boot).unwrap();
    symlink(format!("../../../deploy/os/deploy/{}.0", "a".repeat(64)), boot.join("0")).unwrap();
    (sysroot, KernelArguments::parse("ro ostree=/ostree/boot.1/os/b/0 flameholder.generation=0a"))
}

/// Metadata of ostree-prepare-root that names this directory.
fn metadata(directory: &Path) -> Vec<u8> {
    let found = directory.metadata().unwrap();
    let mut bytes = b"backing-root-device-inode\0\0\0\0\0\0\0".to_vec();
    bytes.extend(found.dev().to_ne_bytes().into_iter().chain(found.ino().to_ne_bytes()));
    bytes.extend(b"\0(tt)\x1a\x36");
    bytes
}

#[test]
fn deployment_is_identified_by_what_a_soft_reboot_cannot_leave_stale() {
    let (sysroot, line) = sysroot();
    let at = |serial| sysroot.path().join(deployment(serial).path());
    let identify = |root: &Path, soft_reboots| identify(root, sysroot.path(), &line, soft_reboots).unwrap();
    // The root directory is the deployment's.
    assert_eq!(identify(&at(1), 0), Some(deployment(1)));
    assert_eq!(identify(&at(1), 1), Some(deployment(1)));
    // A composefs root: only /etc is the deployment's. The test follows a link where a host has a bind mount.
    let composefs = tempfile::tempdir().unwrap();
    fs::create_dir_all(composefs.path().join("run/ostree")).unwrap();
    let booted = composefs.path().join("run/ostree-booted");
    fs::write(&booted, metadata(&at(2))).unwrap();
    symlink(at(1).join("etc"), composefs.path().join("etc")).unwrap();
    assert_eq!(identify(composefs.path(), 1), Some(deployment(1)), "libostree's metadata is stale");
    // A transient /etc as well: the metadata decides.
    fs::remove_file(composefs.path().join("etc")).unwrap();
    fs::create_dir(composefs.path().join("etc")).unwrap();
    assert_eq!(identify(composefs.path(), 0), Some(deployment(2)));
    fs::write(composefs.path().join("run/ostree/nextroot-booted"), metadata(&at(1))).unwrap();
    assert_eq!(identify(composefs.path(), 1), Some(deployment(1)));
    // No metadata: the command line, unless it is that of an earlier boot.
    fs::remove_dir_all(composefs.path().join("run")).unwrap();
    assert_eq!(identify(composefs.path(), 0), Some(deployment(0)));
    assert_eq!(identify(composefs.path(), 1), None);
}

#[test]
fn unread_boot_entry_is_replaced_by_what_names_this_deployment() {
    let pending = PendingGeneration::new(intent("this boot"));
    let ours = pending.staged.deployment.id();
    let foreign = DeploymentId { serial: ours.serial + 1, ..ours.clone() };
    let named = GenerationRecord {
        deployment: Some(pending.staged.deployment.clone()),
        ..pending.staged.record.clone()
    };
    for (deployment, entry, record, expected) in [
        (&ours, None, Some(&named), (Some(pending.generation()), BootedState::Complete)),
        (&ours, None, None, (Some(pending.generation()), BootedState::WithoutConfig)),
        (&foreign, None, Some(&named), (None, BootedState::Foreign)),
        // An entry that was read counts, even if it names no generation.
        (&ours, Some(KernelArguments::default()), None, (None, BootedState::Foreign)),
    ] {
        let booted = BootedDeployment { deployment: deployment.clone(), generation: None, entry };
        let seen = booted.observation(record, Some(&pending));
        assert_eq!((seen.argument, booted_state(seen)), expected, "{booted:?}");
    }
}

#[test]
fn generation_is_read_from_the_kernel_arguments() {
    let generation = |line| generation(&KernelArguments::parse(line));
    let line = "BOOT_IMAGE=/x root=LABEL=root flameholder.generation=0a rw\n";
    assert_eq!(generation(line), Some("0a".into()));
    assert_eq!(generation("rw xflameholder.generation=1"), None);
}

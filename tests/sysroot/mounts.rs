//! Sysroots on full and on read-only file systems.

use std::fs;
use std::process::Command;

use osimage::Os;
use serde_json::json;
use testbed::boot::{self, Entry};
use testbed::model::document::data_url;
use testbed::model::run::Outcome;
use testbed::offline::{Host, run, small_config};

use crate::etc;

/// Runs `command` in a mount namespace of its own, after `script` and before `afterwards`. Their mounts end with the
/// namespace.
pub(crate) fn run_between(script: &str, command: &Command, afterwards: &str) -> Outcome {
    testbed::preconditions::require_mount_namespaces();
    let script = format!("set -e\n{script}\ncode=0\n\"$@\" || code=$?\n{afterwards}\nexit $code");
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "sh", "-c", &script, "sh"]).arg(command.get_program()).args(command.get_args());
    run(inside)
}

/// Mounts a copy of the sysroot with `free` KiB of free space in its place and runs the command. Returns the
/// command's outcome and the boot menu after it.
fn on_full_disk(host: &Host, free: u32, command: &Command) -> (Outcome, Vec<Entry>) {
    let (sysroot, copy) = (host.sysroot(), host.path("copy"));
    let (sysroot, copy, after) = (sysroot.display(), copy.display(), host.path("after"));
    let script = format!(
        "mkdir {copy}\nmount -t tmpfs -o size=64m tmpfs {copy}\ncp -a {sysroot}/. {copy}\n\
         free=$(df --output=avail -k {copy} | tail -n 1)\nfallocate -l $((free - {free}))KiB {copy}/filler\n\
         mount --bind {copy} {sysroot}"
    );
    let afterwards = format!("rm {sysroot}/filler\ncp -a {sysroot} {}", after.display());
    let outcome = run_between(&script, command, &afterwards);
    (outcome, boot::entries(&after))
}

/// Entries of a copied sysroot boot the same as those of the original.
fn assert_same_menu(menu: &[Entry], before: &[Entry]) {
    let told = |entries: &[Entry]| -> Vec<_> {
        entries.iter().map(|entry| (entry.id(), entry.arguments.clone())).collect()
    };
    assert_eq!(told(menu), told(before));
    let [menu, before] = [menu, before].map(|entries| etc::found(&entries[0].root));
    assert_eq!(etc::differences(&menu, &before), [""; 0]);
}

#[test]
fn full_disk_leaves_the_boot_menu_unchanged() {
    const BIG: usize = 2 << 20;
    let host = Host::new();
    let before = host.entries();
    let image = host.image(&Os::new(2));
    let tiny = host.config(&small_config("tiny", &[("/etc/managed.conf", "1\n")], &[]));
    let mut big = small_config("big", &[("/etc/managed.conf", "1\n"), ("/etc/big", "")], &[]);
    // The content is neither encoded nor compressed, which keeps the document below the size limit.
    big["spec"]["config"]["storage"]["files"][1]["contents"]["source"] = json!(data_url(&vec![b'x'; BIG]));
    let big = host.config(&big);
    for (doing, free, command) in [
        ("importing", 64, host.apply_command(&tiny, Some(&image))),
        ("configuring", 1024, host.apply_command(&big, None)),
    ] {
        let (outcome, menu) = on_full_disk(&host, free, &command);
        fs::remove_dir(host.path("copy")).unwrap();
        assert_eq!(outcome.code, Some(1), "{doing}: {outcome:?}");
        assert!(outcome.stderr.to_lowercase().contains("no space left"), "{doing}: {outcome:?}");
        assert_same_menu(&menu, &before);
        osimage::remove(&host.path("after")).unwrap();
    }
}

#[test]
fn read_only_file_system_is_reported() {
    let host = Host::new();
    let before = host.snapshot();
    let desired = host.config(&small_config("desired", &[("/etc/managed.conf", "1\n")], &[]));
    let sysroot = host.sysroot();
    let sysroot = sysroot.display();
    let script = format!("mount --bind {sysroot} {sysroot}\nmount -o remount,bind,ro {sysroot}");
    let outcome = run_between(&script, &host.apply_command(&desired, None), "");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("read-only"), "{outcome:?}");
    assert_eq!(testbed::model::snapshot::changes(&before, &host.snapshot()), [""; 0]);
}

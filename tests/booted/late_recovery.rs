//! Recovery of an interrupted change whose staged files are on a file system that a reboot empties, or that a boot mounts
//! later than it activates.

use std::fs;
use std::os::unix::fs::symlink;

use testbed::booted::config::full_config;
use testbed::booted::host::{Host, confirmed_host};
use testbed::model::run::Outcome;
use testbed::strace;

/// File that changes without a reboot.
const LIVE: &str = "nmstate/openshift/cluster.yml";
/// File below a mount, which changes without a reboot by the settings.
const BELOW: &str = "/var/home/site/cfg";
const RULE: &str = "[[disruption.path]]\npath = \"/var/home/site\"\nactions = [\"none\"]\n";

/// Command line that is killed at its rename of this number.
fn killed(number: usize, command: &str) -> String {
    let place = strace::injection("renameat2", number, "KILL");
    format!("strace -f -o /dev/null -e trace=renameat2 -e {place} {command}")
}

fn run_after(host: &Host, preparation: &str, command: &str) -> Outcome {
    host.run(["sh", "-c", &format!("{preparation} && {command}")])
}

fn journal_is_open(host: &Host) -> bool {
    host.var("lib/flameholder/journal").exists()
}

fn declare_mount(host: &Host) {
    let requires = host.path("run/systemd/generator/local-fs.target.requires");
    fs::create_dir_all(&requires).unwrap();
    symlink("../var-home.mount", requires.join("var-home.mount")).unwrap();
}

/// Host whose settings let the file below the mount change without a reboot, and the command that mounts its disk.
fn host_with_a_disk() -> (Host, &'static str) {
    testbed::preconditions::require_strace();
    let host = confirmed_host("one");
    host.write_etc("flameholder/config.d/50-rules.toml", RULE);
    fs::create_dir_all(host.var("disk/site")).unwrap();
    (host, "mount --bind /var/disk /var/home")
}

#[test]
fn update_with_files_below_a_missing_mount_is_refused_before_the_disruption() {
    let host = confirmed_host("one");
    declare_mount(&host);
    let two = host.config(full_config("two").file_with_mode("/var/home/site/cfg", 0o644, "two").json());
    let refused = host.apply(&two, None);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("/var/home/site/cfg lies below /var/home, which is not mounted; mount it"),
        "{refused:?}"
    );
    assert!(!host.is_staged());
    fs::create_dir_all(host.var("disk")).unwrap();
    let staged =
        run_after(&host, "mount --bind /var/disk /var/home", &format!("flameholder apply --desired {two}"));
    assert!(staged.code == Some(0) && host.is_staged(), "{staged:?}");
}

#[test]
fn files_in_memory_are_gone_with_the_reboot_and_hold_up_no_recovery() {
    testbed::preconditions::require_strace();
    // A file system in memory at `/run/site`, which each command finds empty.
    let memory = "mkdir -p /run/site && mount -t tmpfs none /run/site";
    let mut open = 0;
    for number in 1.. {
        let host = confirmed_host("one");
        let two = full_config("two").file_with_mode("/run/site/banner", 0o644, "two");
        host.stage_update(&host.config(two.json()), None);
        host.shut_down();
        host.boot_kernel(0);
        let activated = run_after(&host, memory, &killed(number, "flameholder activate"));
        if activated.code == Some(0) {
            assert!(open > 0, "{number} calls, and at none of them was the journal open");
            break;
        }
        assert_eq!(activated.code, Some(137), "{activated:?}");
        open += usize::from(journal_is_open(&host));
        host.power_cut();
        host.boot_kernel(0);
        let activated = run_after(&host, memory, "flameholder activate && cat /run/site/banner");
        assert!(activated.code == Some(0) && activated.stdout.ends_with("two"), "{number}: {activated:?}");
        assert!(!journal_is_open(&host), "{number}");
        assert_eq!(host.read_var("usrlocal/bin/tool").as_deref(), Some("two"));
    }
}

#[test]
fn change_that_a_late_mount_interrupts_is_undone_before_services_and_completely_after_the_mount() {
    let (host, mount) = host_with_a_disk();
    let before = host.config(full_config("one").file_with_mode(BELOW, 0o644, "before").json());
    let applied = run_after(&host, mount, &format!("flameholder apply --desired {before}"));
    assert_eq!(applied.code, Some(0), "{applied:?}");
    let after = full_config("one").file_with_mode(BELOW, 0o644, "after");
    let after = host.config(after.file_with_mode(&format!("/etc/{LIVE}"), 0o644, "live").json());
    let apply = format!("flameholder apply --desired {after}");
    let mut torn = 0;
    for number in 1.. {
        let applied = run_after(&host, mount, &killed(number, &apply));
        if !journal_is_open(&host) && host.read_etc(LIVE).as_deref() == Some("live") {
            assert!(torn > 0, "{number} calls, and at none of them was the live file changed");
            break;
        }
        assert_eq!(applied.code, Some(137), "{applied:?}");
        torn += usize::from(host.read_etc(LIVE).is_some());
        host.power_cut();
        host.boot_kernel(0);
        declare_mount(&host);
        let was_open = journal_is_open(&host);
        let early = host.run(["flameholder", "activate"]);
        assert_eq!(early.code, Some(0), "{number}: {early:?}");
        assert_eq!(host.read_etc(LIVE), None, "{number}: services find the files from before");
        if was_open {
            assert!(host.path("run/flameholder/awaits-mounts").exists(), "{number}: {early:?}");
        }
        let late = run_after(&host, mount, "flameholder activate --after-mounts && flameholder verify");
        assert_eq!(late.code, Some(0), "{number}: {late:?}");
        assert!(!journal_is_open(&host), "{number}");
        assert_eq!(host.read_var("disk/site/cfg").as_deref(), Some("before"), "{number}");
    }
}

#[test]
fn confirmed_generation_serves_if_the_mount_of_an_interrupted_change_is_never_made() {
    let (host, mount) = host_with_a_disk();
    let after = full_config("one").file_with_mode(BELOW, 0o644, "after");
    let after = host.config(after.file_with_mode(&format!("/etc/{LIVE}"), 0o644, "live").json());
    let apply = format!("flameholder apply --desired {after}");
    let number = (1..1000)
        .find(|number| {
            let applied = run_after(&host, mount, &killed(*number, &apply));
            assert_eq!(applied.code, Some(137), "{applied:?}");
            journal_is_open(&host)
        })
        .unwrap();
    host.power_cut();
    host.boot_kernel(0);
    declare_mount(&host);
    for command in [&["flameholder", "activate"][..], &["flameholder", "activate", "--after-mounts"]] {
        let activated = host.run(command);
        assert_eq!(activated.code, Some(0), "{number}: {activated:?}");
    }
    assert!(host.workload_starts());
    assert!(journal_is_open(&host), "the change is undone once the mount is there");
    let recovered = run_after(&host, mount, "flameholder recover");
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    assert!(!journal_is_open(&host) && host.read_etc(LIVE).is_none());
}

#[test]
fn interrupted_change_waits_for_a_mount_that_is_made_after_all_others() {
    let (host, mount) = host_with_a_disk();
    let after = full_config("one").file_with_mode(BELOW, 0o644, "after");
    let apply = format!("flameholder apply --desired {}", host.config(after.json()));
    let is_left = |number: &usize| {
        run_after(&host, mount, &killed(*number, &apply));
        journal_is_open(&host)
    };
    (1..1000).find(is_left).unwrap();
    host.power_cut();
    host.boot_kernel(0);
    declare_mount(&host);
    host.run_ok(["flameholder", "activate"]);
    assert!(journal_is_open(&host) && host.path("run/flameholder/awaits-mounts").exists());
    fs::write(host.path("run/flameholder/config.d/90-wait.toml"), "[boot-check]\ntimeout = 60\n").unwrap();
    // The mount is made once the activation sleeps between two looks (clock_nanosleep(2), 230 on x86-64 and 115 on arm64).
    let waits = "until grep -qE '^(230|115) ' /proc/$!/syscall; do :; done";
    let late = format!("flameholder activate --after-mounts & {waits}; {mount}; wait $!");
    let late = run_after(&host, "mount --make-rshared /", &late);
    assert_eq!(late.code, Some(0), "{late:?}");
    assert!(!journal_is_open(&host), "{late:?}");
}

#[test]
fn mount_that_the_update_changes_or_masks_does_not_hold_it_up() {
    let host = confirmed_host("one");
    declare_mount(&host);
    let below = || full_config("two").file_with_mode(BELOW, 0o644, "two");
    let refused = host.apply(&host.config(below().json()), None);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    host.stage_update(&host.config(below().unit("var-home.mount").json()), None);
    host.run_ok(["flameholder", "unstage"]);
    fs::create_dir_all(host.path("run/systemd/system")).unwrap();
    symlink("/dev/null", host.path("run/systemd/system/var-home.mount")).unwrap();
    host.stage_update(&host.config(below().json()), None);
}

//! The tests of `tests/kola`, by the rules of kola: the real Ignition applies the test's Butane config, the script is called the
//! moment a login is possible, and again after each reboot that it announced.

mod butane;
mod session;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use vm::containerfile::BuiltImage;
use vm::operator::allow_rollback;
use vm::{Host, HostOrigin, Lab, Start, program, scenario_from};

use self::session::TestFiles;
use crate::images::installed;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../kola")
}

/// Script of a test: a file of its name, or `test.sh` in a folder of its name.
fn script(name: &str) -> PathBuf {
    let path = folder().join(name);
    if path.is_dir() { path.join("test.sh") } else { path }
}

/// Run a test on a machine that was never booted; `expect` declares the failures that belong to it.
fn run(name: &str, expect: impl FnOnce(&mut Host)) -> Result<()> {
    run_with(name, None, expect)
}

/// Run a test with the archive of an OS image that it asks for.
fn run_with(name: &str, os_archive: Option<PathBuf>, expect: impl FnOnce(&mut Host)) -> Result<()> {
    let script = script(name);
    let config = script.with_file_name("config.bu");
    let config = if config.is_file() { Some(fs::read_to_string(config)?) } else { None };
    let steps = fs::read_to_string(folder().join("data/steps.sh"))?;
    let files = TestFiles { script: fs::read_to_string(&script)?, steps, os_archive };
    let machine = HostOrigin::Unprovisioned(butane::to_ignition(config.as_deref())?);
    scenario_from(Start { data_disk: additional_disk(&files.script), ..machine.into() }, |host| {
        expect(host);
        session::run(host, &files)
    })
}

/// Return the serial number of the additional disk that a script's metadata ask for.
fn additional_disk(script: &str) -> Option<String> {
    let disks = script.lines().find_map(|line| line.strip_prefix("##   additionalDisks: "))?;
    let (_, serial) = disks.split_once("serial=")?;
    Some(serial.trim_end_matches(['"', ']']).to_owned())
}

/// Install this release below a folder in other bytes, and return the folder that has it in `installation`. A release that
/// writes other schemas cannot be rolled back across without a hand: `generations::releases` shows the way.
fn other_agent(scratch: &Path) -> Result<PathBuf> {
    let folder = scratch.join("other");
    let mut copy = Command::new("cp");
    program::read(copy.arg("--archive").arg(installed()?).arg(&folder))?;
    let agent = folder.join("installation/usr/bin/flameholder");
    let mut change = Command::new("objcopy");
    program::read(change.args(["--add-section", ".other=/etc/hostname"]).arg(agent))?;
    Ok(folder)
}

fn nothing(_host: &mut Host) {}

fn rollback(host: &mut Host) {
    allow_rollback(host);
    host.allow_error("Failed to start flameholder-check-");
}

#[test]
fn every_test_of_kola_runs_here() {
    let mut found = BTreeSet::new();
    let mut pending = vec![folder()];
    while let Some(path) = pending.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::metadata(&path).unwrap();
            if meta.is_dir() {
                pending.push(path);
            } else if meta.permissions().mode() & 0o111 != 0 {
                let named = if path.ends_with("test.sh") { path.parent().unwrap() } else { &path };
                found.insert(named.strip_prefix(folder()).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    // The names that the functions of this file call.
    let calls = include_str!("mod.rs").split("\n    run").skip(1);
    let names =
        calls.filter_map(|call| call.trim_start_matches("_with").strip_prefix("(\"")?.split_once('"'));
    let run: BTreeSet<String> = names.map(|(name, _)| name.to_owned()).collect();
    assert_eq!(found, run);
}

#[test]
#[ignore = "exhaustive: tests without a boot cover resets"]
fn reset_host_boots_the_old_generation_whole() -> Result<()> {
    run("crash/apply", nothing)
}

#[test]
#[ignore = "exhaustive: another scenario counts boots as well"]
fn generation_that_never_ends_its_boot_check_is_rolled_back() -> Result<()> {
    run("crash/three-boots", rollback)
}

#[test]
#[ignore = "exhaustive: another scenario runs the daemon as well"]
fn daemon_follows_a_directory() -> Result<()> {
    run("daemon/dir", nothing)
}

#[test]
#[ignore = "exhaustive: a rare layout of disks"]
fn disk_of_its_own_has_var() -> Result<()> {
    run("disk/var", nothing)
}

#[test]
#[ignore = "exhaustive: another scenario fills the disk as well"]
fn full_disk_refuses_an_update() -> Result<()> {
    run("disk/full", nothing)
}

#[test]
#[ignore = "exhaustive: another scenario completes a first boot as well"]
fn first_boot_completes_before_a_login() -> Result<()> {
    run("firstboot/completes", |host| host.allow_error("flameholder-firstboot.service"))
}

#[test]
#[ignore = "exhaustive: another scenario has nothing to complete as well"]
fn first_boot_without_changes_takes_no_reboot() -> Result<()> {
    run("firstboot/nothing", nothing)
}

#[test]
#[ignore = "exhaustive: other scenarios roll back by themselves as well"]
fn failing_health_check_is_rolled_back() -> Result<()> {
    run("generations/revert", rollback)
}

#[test]
#[ignore = "exhaustive: other scenarios update and roll back as well"]
fn updates_and_a_rollback_take_one_reboot_each() -> Result<()> {
    run("generations/update", allow_rollback)
}

#[test]
#[ignore = "exhaustive: another scenario loses the network as well"]
fn lost_network_is_rolled_back() -> Result<()> {
    run("health/network", rollback)
}

#[test]
#[ignore = "exhaustive: tests without a boot cover live updates"]
fn live_update_reboots_nothing() -> Result<()> {
    run("live/reload", |host| host.allow_error("crio.service"))
}

#[test]
#[ignore = "exhaustive: another scenario exchanges the agent as well"]
fn agent_of_another_image_reads_what_this_one_wrote() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let archive = scratch.path().join("os.ociarchive");
    let installed = other_agent(scratch.path())?;
    BuiltImage::build(&Lab::locate()?, "Containerfile", &installed)?.save(&archive)?;
    run_with("self/upgrade", Some(archive), allow_rollback)
}

#[test]
#[ignore = "exhaustive: tests without a boot check the installation as well"]
fn installation_is_whole() -> Result<()> {
    run("status/basic", nothing)
}

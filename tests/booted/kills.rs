//! Each stage of the way to a generation, killed at one system call after the other: in the executable, in the
//! worker and in libostree's own program. Then the host is booted, and is wholly what it was or wholly what it was
//! to be; and the next update works.

use crate::bench::{After, Bench, Stage, Victim, Wanted};
use testbed::booted::host::Host;

fn kill(stage: Stage) {
    Bench::new(stage).kill();
}

fn staged(host: &Host, wanted: &Wanted) {
    host.run_ok(wanted.apply(&["--reboot", "never"]));
}

fn armed(host: &Host, wanted: &Wanted) {
    host.stage_update(&wanted.config, Some(&wanted.image));
}

/// Bound, and rebooted as far as the first unit.
fn bound(host: &Host, wanted: &Wanted) {
    armed(host, wanted);
    assert_eq!(host.shut_down().unwrap().code, Some(0));
    host.boot_kernel(0);
}

fn activated(host: &Host, wanted: &Wanted) {
    bound(host, wanted);
    host.run_ok(["flameholder", "activate"]);
}

/// Finalized without its configuration, and rebooted as far as the first unit.
fn bypassed(host: &Host, wanted: &Wanted) {
    armed(host, wanted);
    host.run_ok(["ostree", "admin", "finalize-staged"]);
    host.power_cut();
    host.boot_kernel(0);
}

/// The power went before anything was finalized.
fn cut_off(host: &Host, wanted: &Wanted) {
    armed(host, wanted);
    host.power_cut();
    host.boot_kernel(0);
    host.run_ok(["flameholder", "activate"]);
}

fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|word| (*word).to_owned()).collect()
}

const STAGE: fn(&Wanted) -> Vec<String> = |wanted| wanted.apply(&["--reboot", "never"]);
const ARM: fn(&Wanted) -> Vec<String> = |wanted| wanted.apply(&[]);
const BIND: fn(&Wanted) -> Vec<String> = |_| words(&["flameholder", "finalize"]);
const ACTIVATE: fn(&Wanted) -> Vec<String> = |_| words(&["flameholder", "activate"]);
const SETTLE: fn(&Wanted) -> Vec<String> = |_| words(&["flameholder", "confirm-boot"]);
const RECOVER: fn(&Wanted) -> Vec<String> = |_| words(&["flameholder", "recover"]);

#[test]
fn staging() {
    kill(Stage { prepare: |_, _| {}, command: STAGE, victim: Victim::Flameholder, after: After::RunsOn });
}

#[test]
fn the_worker_that_stages() {
    kill(Stage { prepare: |_, _| {}, command: STAGE, victim: Victim::Worker, after: After::RunsOn });
}

#[test]
fn arming() {
    kill(Stage { prepare: staged, command: ARM, victim: Victim::Flameholder, after: After::RunsOn });
}

#[test]
fn the_worker_that_arms() {
    kill(Stage { prepare: staged, command: ARM, victim: Victim::Worker, after: After::RunsOn });
}

#[test]
fn binding() {
    kill(Stage { prepare: armed, command: BIND, victim: Victim::Flameholder, after: After::Boots });
}

#[test]
fn the_worker_that_tells_what_is_to_be_bound() {
    kill(Stage { prepare: armed, command: BIND, victim: Victim::Worker, after: After::Boots });
}

#[test]
fn finalizing() {
    kill(Stage { prepare: armed, command: BIND, victim: Victim::Ostree, after: After::Boots });
}

#[test]
fn activating() {
    kill(Stage { prepare: bound, command: ACTIVATE, victim: Victim::Flameholder, after: After::Boots });
}

#[test]
fn binding_where_it_runs() {
    kill(Stage {
        prepare: bypassed,
        command: ACTIVATE,
        victim: Victim::Flameholder,
        after: After::BootsOrLeaves,
    });
}

#[test]
fn settling() {
    kill(Stage { prepare: activated, command: SETTLE, victim: Victim::Flameholder, after: After::Boots });
}

#[test]
fn the_worker_that_settles() {
    kill(Stage { prepare: activated, command: SETTLE, victim: Victim::Worker, after: After::Boots });
}

#[test]
fn staging_again() {
    kill(Stage { prepare: cut_off, command: RECOVER, victim: Victim::Flameholder, after: After::RunsAgain });
}

#[test]
fn the_worker_that_stages_again() {
    kill(Stage { prepare: cut_off, command: RECOVER, victim: Victim::Worker, after: After::RunsAgain });
}

#[test]
fn carrying_over() {
    Bench::at_the_boot_menu().kill();
}

#[test]
fn leaving() {
    Bench::leaving(Victim::Flameholder).kill();
}

#[test]
fn the_worker_that_leaves() {
    Bench::leaving(Victim::Worker).kill();
}

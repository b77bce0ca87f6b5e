//! Each stage of an update, killed at one system call after the other: in the executable, in the worker and in the
//! `ostree` program. The host then boots either the complete old generation or the complete new one, and the next
//! update works.

use testbed::booted::host::Host;

use crate::stage_kills::{After, StageKills, Update, UpdateStage, Victim};

fn kill(stage: UpdateStage) {
    StageKills::new(stage).kill();
}

fn staged(host: &Host, update: &Update) {
    host.run_ok(update.apply(&["--locked"]));
}

fn unlocked(host: &Host, update: &Update) {
    host.stage_update(&update.config, Some(&update.image));
}

/// Finalized with its configuration, and rebooted as far as the first unit.
fn finalized(host: &Host, update: &Update) {
    unlocked(host, update);
    assert_eq!(host.shut_down().unwrap().code, Some(0));
    host.boot_kernel(0);
}

fn activated(host: &Host, update: &Update) {
    finalized(host, update);
    host.run_ok(["flameholder", "activate"]);
}

/// Finalized without its configuration, and rebooted as far as the first unit.
fn bypassed(host: &Host, update: &Update) {
    unlocked(host, update);
    host.run_ok(["ostree", "admin", "finalize-staged"]);
    host.power_cut();
    host.boot_kernel(0);
}

/// Power was cut before the deployment was finalized.
fn power_cut(host: &Host, update: &Update) {
    unlocked(host, update);
    host.power_cut();
    host.boot_kernel(0);
    host.run_ok(["flameholder", "activate"]);
}

fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|word| (*word).to_owned()).collect()
}

const STAGE: fn(&Update) -> Vec<String> = |update| update.apply(&["--locked"]);
const UNLOCK: fn(&Update) -> Vec<String> = |update| update.apply(&[]);
const FINALIZE: fn(&Update) -> Vec<String> = |_| words(&["flameholder", "finalize"]);
const ACTIVATE: fn(&Update) -> Vec<String> = |_| words(&["flameholder", "activate"]);
const CONFIRM: fn(&Update) -> Vec<String> = |_| words(&["flameholder", "confirm-boot"]);
const RECOVER: fn(&Update) -> Vec<String> = |_| words(&["flameholder", "recover"]);

#[test]
fn staging_survives_kills() {
    kill(UpdateStage {
        prepare: |_, _| {},
        command: STAGE,
        victim: Victim::Flameholder,
        after: After::ShutsDown,
    });
}

#[test]
fn staging_survives_kills_of_worker() {
    kill(UpdateStage { prepare: |_, _| {}, command: STAGE, victim: Victim::Worker, after: After::ShutsDown });
}

#[test]
fn unlocking_survives_kills() {
    kill(UpdateStage {
        prepare: staged,
        command: UNLOCK,
        victim: Victim::Flameholder,
        after: After::ShutsDown,
    });
}

#[test]
fn unlocking_survives_kills_of_worker() {
    kill(UpdateStage { prepare: staged, command: UNLOCK, victim: Victim::Worker, after: After::ShutsDown });
}

#[test]
fn finalizing_survives_kills() {
    kill(UpdateStage {
        prepare: unlocked,
        command: FINALIZE,
        victim: Victim::Flameholder,
        after: After::Boots,
    });
}

#[test]
fn finalizing_survives_kills_of_worker() {
    kill(UpdateStage { prepare: unlocked, command: FINALIZE, victim: Victim::Worker, after: After::Boots });
}

#[test]
fn finalizing_survives_kills_of_ostree() {
    kill(UpdateStage { prepare: unlocked, command: FINALIZE, victim: Victim::Ostree, after: After::Boots });
}

#[test]
fn activation_survives_kills() {
    kill(UpdateStage {
        prepare: finalized,
        command: ACTIVATE,
        victim: Victim::Flameholder,
        after: After::Boots,
    });
}

#[test]
fn writing_config_into_running_deployment_survives_kills() {
    kill(UpdateStage {
        prepare: bypassed,
        command: ACTIVATE,
        victim: Victim::Flameholder,
        after: After::BootsOrRollsBack,
    });
}

#[test]
fn confirming_survives_kills() {
    kill(UpdateStage {
        prepare: activated,
        command: CONFIRM,
        victim: Victim::Flameholder,
        after: After::Boots,
    });
}

#[test]
fn confirming_survives_kills_of_worker() {
    kill(UpdateStage {
        prepare: activated,
        command: CONFIRM,
        victim: Victim::Worker,
        after: After::BootsOrRollsBack,
    });
}

#[test]
fn restaging_survives_kills() {
    kill(UpdateStage {
        prepare: power_cut,
        command: RECOVER,
        victim: Victim::Flameholder,
        after: After::Repeats,
    });
}

#[test]
fn restaging_survives_kills_of_worker() {
    kill(UpdateStage { prepare: power_cut, command: RECOVER, victim: Victim::Worker, after: After::Repeats });
}

#[test]
fn carrying_etc_forward_survives_kills() {
    StageKills::at_boot_menu().kill();
}

#[test]
fn rollback_survives_kills() {
    StageKills::rolling_back(Victim::Flameholder).kill();
}

#[test]
fn rollback_survives_kills_of_worker() {
    StageKills::rolling_back(Victim::Worker).kill();
}

//! Invariants of a host, judged as an observer of the host sees it.

use std::fmt;

use serde_json::Value;
use testbed::booted::config::etc_differences;
use testbed::booted::host::Host;
use testbed::model::run::Outcome;

use super::damage::DECOY;
use super::run::{Checked, SoakRun, is_own};

/// Kind of violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BrokenRule {
    /// The workload of a confirmed generation, or of a foreign deployment, does not start.
    WorkloadStopped,
    /// The workload of an unconfirmed generation starts before its activation.
    WorkloadUnchecked,
    /// A rejected generation counts as confirmed.
    RejectedIsDone,
    /// Files and kernel arguments are not those of one generation.
    MixedSet,
    /// The deployment before an unconfirmed generation is gone, although no operator removed it.
    WayBackLost,
    /// A document of a newer release is believed.
    NewerBelieved,
    /// A failed command names no way out.
    NoWayOut,
    /// A way out does not lead out.
    WayOutFails,
}

/// Violated invariant.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) rule: BrokenRule,
    detail: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}: {}", self.rule, self.detail)
    }
}

impl Broken {
    pub(super) fn new(rule: BrokenRule, detail: impl fmt::Display) -> Self {
        Self { rule, detail: detail.to_string() }
    }

    /// Add the command that was run.
    pub(super) fn during(self, command: &[&str]) -> Self {
        Self { detail: format!("flameholder {}: {}", command.join(" "), self.detail), ..self }
    }

    pub(super) fn reboots_forever(host: &Host) -> Self {
        Self::new(BrokenRule::WayOutFails, format!("the host reboots again and again: {}", told(host)))
    }
}

/// The status as an operator reads it.
pub(super) fn told(host: &Host) -> String {
    let outcome = host.run(["flameholder", "status"]);
    outcome.stdout + &outcome.stderr
}

fn ensure(holds: bool, rule: BrokenRule, detail: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Broken::new(rule, detail())) }
}

/// Before its activation, an unconfirmed generation starts no workload.
pub(super) fn check_waits(run: &SoakRun) -> Checked {
    let is_marked = run.host.etc("flameholder/unconfirmed").exists();
    ensure(is_marked || run.damaged.marks.contains(&run.booted_root()), BrokenRule::WorkloadUnchecked, || {
        format!("{} is unconfirmed and has no mark", run.booted_root().display())
    })
}

/// After an activation: every deployment but an unconfirmed one serves, and a serving one is complete.
pub(super) fn check_starts(run: &SoakRun, activated: &Outcome) -> Checked {
    let starts = run.host.workload_starts();
    ensure(starts || run.is_unconfirmed(), BrokenRule::WorkloadStopped, || format!("{activated:?}"))?;
    if starts { check_set(run) } else { Ok(()) }
}

/// A generation that has just been confirmed is healthy and complete.
pub(super) fn check_confirmed(run: &SoakRun, checked: &Outcome) -> Checked {
    let text = run.booted_text().unwrap_or_default();
    let is_sick = run.configs.values().any(|config| config.text == text && !config.is_healthy);
    ensure(!is_sick, BrokenRule::RejectedIsDone, || format!("{text} is confirmed: {checked:?}"))?;
    check_set(run)
}

/// After each step.
pub(super) fn check_running(run: &mut SoakRun) -> Checked {
    check_observation(run)?;
    check_way_back(run)?;
    if run.host.workload_starts() { check_set(run) } else { Ok(()) }
}

/// The daemon's observation is never that a rejected generation is confirmed.
fn check_observation(run: &mut SoakRun) -> Checked {
    let observed = run.host.observation();
    let document: Value = serde_json::from_str(&observed.stdout).unwrap_or_default();
    if let Some(failed) = document["event"].get("Failed") {
        let message = failed["reason"].as_str().unwrap_or_default().to_owned();
        let outcome = Outcome { code: Some(1), stdout: String::new(), stderr: message };
        super::ways_out::named_in(&outcome)?;
    }
    let seen = &document["event"]["Observed"];
    let (current, blocked) = (&seen["current"]["config"], &seen["blocked"]["desired"]["config"]);
    ensure(current != DECOY && blocked != DECOY, BrokenRule::NewerBelieved, || observed.stdout.clone())?;
    let config = current.as_str().and_then(|name| run.configs.get(name));
    let is_rejected = config.is_some_and(|config| !config.is_healthy);
    if !is_rejected || seen["boot_check"] != "Confirmed" {
        return Ok(());
    }
    // A foreign deployment that was merged from a rejected generation has its record. The verification that precedes
    // Done refuses it.
    let is_done = is_own(&run.booted_root()) || run.host.run(["flameholder", "verify"]).code == Some(0);
    ensure(!is_done, BrokenRule::RejectedIsDone, || observed.stdout.clone())
}

/// Whatever other programs deploy: while an unconfirmed generation is booted, the deployment before it stays.
fn check_way_back(run: &SoakRun) -> Checked {
    let Some(base) = run.unconfirmed.get(&run.booted_root()) else { return Ok(()) };
    let exists = run.host.entries().iter().any(|entry| entry.root == *base);
    ensure(exists || run.undeployed.contains(base), BrokenRule::WayBackLost, || {
        format!("{} has no boot entry: {:?}", base.display(), run.host.entries())
    })
}

/// The files of the booted deployment are those of the config that its kernel arguments name.
fn check_set(run: &SoakRun) -> Checked {
    // The first deployment of the host has none.
    let Some(text) = run.booted_text() else { return Ok(()) };
    let host = &run.host;
    let mut wrong = etc_differences(host, &text);
    let tool = host.read_var("usrlocal/bin/tool");
    // Without its record, the files of a generation outside `/etc` are not known.
    let is_known = !run.is_activation_partial && !run.has_damaged_record();
    if tool.as_deref() != Some(&text) && is_known {
        wrong.push(format!("tool: {tool:?}"));
    }
    ensure(wrong.is_empty(), BrokenRule::MixedSet, || {
        format!("kernel arguments: {text}, {}", wrong.join(", "))
    })?;
    check_drift_reported(run, tool.as_deref() == Some(&text))
}

/// A difference that an obstructed activation left is reported.
fn check_drift_reported(run: &SoakRun, is_equal: bool) -> Checked {
    if is_equal || run.has_damaged_record() {
        return Ok(());
    }
    let verified = run.host.run(["flameholder", "verify"]);
    ensure(verified.code != Some(0), BrokenRule::MixedSet, || format!("drift is not reported: {verified:?}"))
}

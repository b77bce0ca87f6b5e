//! Transitions of the daemon's state machine: desired config changed, drain finished, reboot inhibited,
//! backoff over.

use super::{
    AfterDrain, BlockedConfig, BootCheckState, ConfigRef, DaemonCommand, DaemonEvent, DaemonPhase,
    DaemonProblem, HostObservation, Lifecycle, ProblemClass,
};
use crate::core::plan::remaining_work::{LiveDisruption, RemainingWork};
use crate::core::trust::document::TrustVersion;

/// Failures in a row after which a change of managed files no longer ends the backoff after drift: a program that keeps
/// changing them must not keep the host busy.
const PROMPT_ATTEMPTS: u32 = 5;

/// Next state, and the commands to carry out in it.
pub(super) type LifecycleStep = (Lifecycle, Vec<DaemonCommand>);

impl Lifecycle {
    /// Return the next state for an event. An event that has no meaning in the current phase changes nothing.
    #[must_use]
    pub fn step(self, event: DaemonEvent) -> LifecycleStep {
        match (&self.phase, event) {
            (DaemonPhase::Stopping, _) => self.stay(),
            (_, DaemonEvent::Stop) => self.stop(),
            (_, DaemonEvent::DesiredChanged(desired)) => self.desired_changed(desired),
            (_, DaemonEvent::NoDesiredConfig(reason)) => self.desires_nothing(reason),
            (_, DaemonEvent::Failed(problem)) => self.failed(problem),
            (DaemonPhase::Observing, DaemonEvent::Observed(observation)) => self.observed(observation),
            (DaemonPhase::Fetching { target }, DaemonEvent::Fetched) => {
                let target = target.clone();
                self.enter(DaemonPhase::Preparing { target })
            }
            (DaemonPhase::Preparing { target }, DaemonEvent::Prepared(remaining)) => {
                let target = target.clone();
                self.prepared(target, remaining, false)
            }
            (DaemonPhase::Preparing { target }, DaemonEvent::PreparedUnderPolicy(remaining)) => {
                let target = target.clone();
                self.prepared(target, remaining, true)
            }
            (DaemonPhase::Applying { target }, DaemonEvent::Applied) => {
                let target = target.clone();
                self.applied(target)
            }
            (DaemonPhase::Unlocking { target }, DaemonEvent::Unlocked) => {
                let target = target.clone();
                self.proceed(DaemonPhase::Rebooting { target, inhibited_by: None })
            }
            (DaemonPhase::Rebooting { target, .. }, DaemonEvent::Inhibited { by }) => {
                let target = target.clone();
                self.proceed(DaemonPhase::Rebooting { target, inhibited_by: Some(by) })
            }
            (DaemonPhase::Rebooting { target, .. }, DaemonEvent::RebootAccepted) => {
                let target = target.clone();
                self.enter(DaemonPhase::ShuttingDown { target })
            }
            (DaemonPhase::Verifying, DaemonEvent::Verified) => self.verified(),
            (DaemonPhase::Verifying, DaemonEvent::Drifted { reason }) => {
                self.enter(DaemonPhase::Drifted { reason })
            }
            (DaemonPhase::Uncordoning { .. }, DaemonEvent::Uncordoned) => self.done(),
            (DaemonPhase::Uncordoning { .. }, DaemonEvent::UncordonDelayed(reason)) => {
                Self { drain_wait: Some(reason), ..self }.stay()
            }
            (_, DaemonEvent::TimerExpired) => self.timer_expired(),
            (_, DaemonEvent::FilesChanged) => self.files_changed(),
            (_, DaemonEvent::StateChanged) => self.state_changed(),
            (_, DaemonEvent::PinsChanged(pins)) => Self { pins: Some(pins), ..self }.stay(),
            (_, DaemonEvent::TrustApplied(version)) => self.trust_applied(version),
            (_, DaemonEvent::TrustFailed(failure)) => Self { trust_failure: Some(failure), ..self }.stay(),
            (_, DaemonEvent::KubeletRestarted) => self.kubelet_restarted(),
            (DaemonPhase::AwaitingGrant { .. } | DaemonPhase::Draining { .. }, event) => {
                self.step_before_disruption(event)
            }
            _ => self.stay(),
        }
    }

    /// Verify the host after a change of managed files. An update that drift was in the way of is tried again: the drift may
    /// be repaired.
    fn files_changed(self) -> LifecycleStep {
        match &self.phase {
            DaemonPhase::Done | DaemonPhase::Drifted { .. } => self.enter(DaemonPhase::Verifying),
            DaemonPhase::BackingOff { problem }
                if problem.class == ProblemClass::Drift && self.failures <= PROMPT_ATTEMPTS =>
            {
                self.enter(DaemonPhase::Observing)
            }
            _ => self.stay(),
        }
    }

    /// Observe the host again: at once where nothing or only a fetch, a drain or a preparation is under way, which the
    /// host survives unchanged; else at the end of the running work.
    fn state_changed(self) -> LifecycleStep {
        match &self.phase {
            DaemonPhase::Preparing { .. } => (self, vec![DaemonCommand::Cancel]),
            // The answer may be there already, and is then followed by the observation.
            DaemonPhase::AwaitingGrant { is_requested: true, .. } => {
                (Self { observes_again: true, ..self }, vec![DaemonCommand::Cancel])
            }
            DaemonPhase::Fetching { .. }
            | DaemonPhase::AwaitingGrant { .. }
            | DaemonPhase::Draining { .. }
            | DaemonPhase::Uncordoning { .. }
            | DaemonPhase::ShuttingDown { .. } => self.enter(DaemonPhase::Observing),
            phase if phase.is_resting() => self.enter(DaemonPhase::Observing),
            _ => (Self { observes_again: true, ..self }, Vec::new()),
        }
    }

    /// Take trust material for applied. It changes no phase: updates depend on it no more than it on them.
    fn trust_applied(self, version: Option<TrustVersion>) -> LifecycleStep {
        let trust = version.or(self.trust);
        let trust_failure = self.trust_failure.filter(|failure| failure.is_of_restart);
        Self { trust, trust_failure, ..self }.stay()
    }

    fn kubelet_restarted(self) -> LifecycleStep {
        let trust_failure = self.trust_failure.filter(|failure| !failure.is_of_restart);
        Self { trust_failure, ..self }.stay()
    }

    pub(super) fn stay(self) -> LifecycleStep {
        (self, Vec::new())
    }

    pub(super) fn enter(mut self, phase: DaemonPhase) -> LifecycleStep {
        if phase == DaemonPhase::Observing {
            self.observes_again = false;
        } else if self.observes_again && phase.is_resting() {
            return self.enter(DaemonPhase::Observing);
        }
        if !matches!(phase, DaemonPhase::Draining { .. } | DaemonPhase::Uncordoning { .. }) {
            self.drain_wait = None;
        }
        let commands = phase.commands(self.failures);
        (Self { phase, ..self }, commands)
    }

    /// Enter `phase`, or start over with a desired config that changed in the meantime.
    pub(super) fn proceed(self, phase: DaemonPhase) -> LifecycleStep {
        if self.is_superseded() { self.follow_desired() } else { self.enter(phase) }
    }

    /// Cancel the running command. The next daemon, or the next boot, recovers from the interruption.
    fn stop(self) -> LifecycleStep {
        (Self { phase: DaemonPhase::Stopping, ..self }, vec![DaemonCommand::Cancel])
    }

    fn desired_changed(mut self, desired: ConfigRef) -> LifecycleStep {
        if self.desired.as_ref() == Some(&desired) {
            return self.stay();
        }
        (self.desired, self.undesired) = (Some(desired), None);
        self.failures = 0;
        match &self.phase {
            // An update to this config is under way already, or the phase decides at its end.
            _ if !self.is_superseded() && self.phase.target().is_some() => self.stay(),
            DaemonPhase::Observing
            | DaemonPhase::Applying { .. }
            | DaemonPhase::Unlocking { .. }
            | DaemonPhase::Rebooting { .. }
            | DaemonPhase::ShuttingDown { .. }
            | DaemonPhase::CheckingBoot { .. }
            | DaemonPhase::RollingBack { .. }
            | DaemonPhase::Verifying
            | DaemonPhase::Stopping => self.stay(),
            DaemonPhase::Preparing { .. } | DaemonPhase::AwaitingGrant { is_requested: true, .. } => {
                (self, vec![DaemonCommand::Cancel])
            }
            DaemonPhase::Idle
            | DaemonPhase::Fetching { .. }
            | DaemonPhase::AwaitingGrant { .. }
            | DaemonPhase::Draining { .. }
            | DaemonPhase::Uncordoning { .. }
            | DaemonPhase::Done
            | DaemonPhase::Drifted { .. }
            | DaemonPhase::Blocked { .. }
            | DaemonPhase::BackingOff { .. } => self.follow_desired(),
        }
    }

    /// Keep the last desired config; without one the reason counts.
    fn desires_nothing(mut self, reason: String) -> LifecycleStep {
        if self.desired.is_some() {
            return self.stay();
        }
        self.undesired = Some(reason);
        if self.phase == DaemonPhase::Idle { self.follow_desired() } else { self.stay() }
    }

    fn observed(mut self, observation: HostObservation) -> LifecycleStep {
        let HostObservation { current, boot_check, blocked, is_forced, finalize_failure } = observation;
        (self.current, self.blocked, self.is_forced, self.finalize_failure) =
            (current, blocked, is_forced, finalize_failure);
        match boot_check {
            BootCheckState::Confirmed => self.follow_desired(),
            BootCheckState::Unconfirmed { failed_checks } => {
                self.enter(DaemonPhase::CheckingBoot { failed_checks })
            }
            // A rejected generation is never taken for the current config, whatever is desired.
            BootCheckState::RollingBack { reason } => self.enter(DaemonPhase::RollingBack { reason }),
            // A new desired config is a way to repair the host.
            BootCheckState::Unhealthy { .. } if !self.is_current_desired() => self.follow_desired(),
            BootCheckState::Unhealthy { failed_checks } => self.back_off(DaemonProblem {
                class: ProblemClass::Host,
                reason: format!(
                    "the host is not healthy: {failed_checks}; repair it, or run `flameholder rollback`"
                ),
            }),
        }
    }

    fn prepared(mut self, target: ConfigRef, remaining: RemainingWork, needs_grant: bool) -> LifecycleStep {
        self.is_forced = false;
        if self.is_superseded() {
            return self.follow_desired();
        }
        let disrupting = |next| {
            let target = target.clone();
            if needs_grant {
                DaemonPhase::AwaitingGrant { target, next, wait: None, is_requested: true }
            } else {
                DaemonPhase::Draining { target, next, is_overdue: false }
            }
        };
        match remaining {
            RemainingWork::Nothing => self.applied(target),
            RemainingWork::Live(LiveDisruption { drain: false }) => {
                self.enter(DaemonPhase::Applying { target })
            }
            RemainingWork::Live(LiveDisruption { drain: true }) => self.enter(disrupting(AfterDrain::Apply)),
            RemainingWork::Reboot(()) => self.enter(disrupting(AfterDrain::Unlock)),
        }
    }

    /// Verify the host, with `target` as its current config.
    fn applied(self, target: ConfigRef) -> LifecycleStep {
        Self { current: Some(target), ..self }.enter(DaemonPhase::Verifying)
    }

    fn verified(self) -> LifecycleStep {
        if self.is_current_desired() {
            self.enter(DaemonPhase::Uncordoning { is_overdue: false })
        } else {
            self.follow_desired()
        }
    }

    fn done(mut self) -> LifecycleStep {
        self.failures = 0;
        self.enter(DaemonPhase::Done)
    }

    fn failed(self, problem: DaemonProblem) -> LifecycleStep {
        if self.phase.is_resting() || matches!(self.phase, DaemonPhase::ShuttingDown { .. }) {
            return self.stay();
        }
        if self.is_superseded() {
            return self.follow_desired();
        }
        self.back_off(problem)
    }

    fn back_off(mut self, problem: DaemonProblem) -> LifecycleStep {
        self.failures = self.failures.saturating_add(1);
        self.enter(DaemonPhase::BackingOff { problem })
    }

    fn timer_expired(self) -> LifecycleStep {
        match &self.phase {
            DaemonPhase::Draining { target, next, is_overdue: false } => {
                let phase = DaemonPhase::Draining { target: target.clone(), next: *next, is_overdue: true };
                self.enter(phase)
            }
            DaemonPhase::AwaitingGrant { target, next, wait, is_requested: false } => {
                let (target, next, wait) = (target.clone(), *next, wait.clone());
                self.enter(DaemonPhase::AwaitingGrant { target, next, wait, is_requested: true })
            }
            DaemonPhase::Uncordoning { is_overdue: false } => {
                self.enter(DaemonPhase::Uncordoning { is_overdue: true })
            }
            DaemonPhase::BackingOff { .. }
            | DaemonPhase::ShuttingDown { .. }
            | DaemonPhase::CheckingBoot { .. }
            | DaemonPhase::RollingBack { .. } => self.enter(DaemonPhase::Observing),
            _ => self.stay(),
        }
    }

    /// Choose the next phase from the desired config: idle, verify, blocked, or fetch and update.
    fn follow_desired(self) -> LifecycleStep {
        let Some(target) = self.desired.clone() else { return self.without_desired() };
        if self.is_forced {
            return self.enter(DaemonPhase::Fetching { target });
        }
        if self.is_current_desired() {
            return self.enter(DaemonPhase::Verifying);
        }
        match &self.blocked {
            Some(BlockedConfig { desired, reason }) if desired.is_same(&target) => {
                let reason = format!(
                    "{} is blocked: {reason}; `flameholder retry` on the host or another desired config releases it",
                    target.config
                );
                self.enter(DaemonPhase::Blocked { reason })
            }
            _ => self.enter(DaemonPhase::Fetching { target }),
        }
    }

    /// Wait for a desired config. A host with neither a desired nor a current config needs an operator.
    fn without_desired(self) -> LifecycleStep {
        match (&self.undesired, &self.current) {
            (Some(reason), None) => {
                let problem = DaemonProblem { class: ProblemClass::Host, reason: reason.clone() };
                self.back_off(problem)
            }
            _ => self.enter(DaemonPhase::Idle),
        }
    }

    /// Return true if only another attempt at the same grant distinguishes the state from `before`, so that there is nothing to
    /// publish.
    #[must_use]
    pub fn is_same_wait(&self, before: &Self) -> bool {
        let waits = self.phase.grant_wait().is_some() && self.phase.grant_wait() == before.phase.grant_wait();
        waits && *self == Self { phase: self.phase.clone(), ..before.clone() }
    }

    fn is_current_desired(&self) -> bool {
        self.current
            .as_ref()
            .zip(self.desired.as_ref())
            .is_some_and(|(current, desired)| current.is_same(desired))
    }

    /// Return true if the desired config is no longer the one that this phase works towards.
    #[must_use]
    pub fn is_superseded(&self) -> bool {
        self.phase
            .target()
            .zip(self.desired.as_ref())
            .is_some_and(|(target, desired)| !target.is_same(desired))
    }
}

impl DaemonPhase {
    /// Return true if no command is under way that has to end first.
    #[must_use]
    pub fn is_resting(&self) -> bool {
        matches!(
            self,
            Self::Idle
                | Self::CheckingBoot { .. }
                | Self::RollingBack { .. }
                | Self::Done
                | Self::Drifted { .. }
                | Self::Blocked { .. }
                | Self::BackingOff { .. }
        )
    }
}

//! From one phase to the next.

use super::{
    AfterDrain, BlockedConfig, BootCheckState, ConfigRef, DaemonCommand, DaemonEvent, DaemonPhase,
    DaemonProblem, HostObservation, Lifecycle, PreparedUpdate, ProblemClass,
};

/// Where the daemon stands then, and what is to be done for it.
type Step = (Lifecycle, Vec<DaemonCommand>);

impl Lifecycle {
    /// What follows from an event. One that means nothing in this phase changes nothing.
    #[must_use]
    pub fn step(self, event: DaemonEvent) -> Step {
        match (&self.phase, event) {
            (DaemonPhase::Stopping, _) => self.stay(),
            (_, DaemonEvent::Stop) => self.stop(),
            (_, DaemonEvent::DesiredChanged(wish)) => self.wished(wish),
            (_, DaemonEvent::Failed(problem)) => self.failed(problem),
            (DaemonPhase::Observing, DaemonEvent::Observed(look)) => self.looked(look),
            (DaemonPhase::Fetching { target }, DaemonEvent::Fetched) => {
                let target = target.clone();
                self.enter(DaemonPhase::Preparing { target })
            }
            (DaemonPhase::Preparing { target }, DaemonEvent::Prepared(prepared)) => {
                let target = target.clone();
                self.prepared(target, prepared)
            }
            (DaemonPhase::Draining { target, then, .. }, DaemonEvent::Drained) => {
                let target = target.clone();
                let phase = match then {
                    AfterDrain::Apply => DaemonPhase::Applying { target },
                    AfterDrain::Unlock => DaemonPhase::Unlocking { target },
                };
                self.enter(phase)
            }
            (DaemonPhase::Applying { target }, DaemonEvent::Applied) => {
                let target = target.clone();
                self.became(target)
            }
            (DaemonPhase::Unlocking { target }, DaemonEvent::Unlocked) => {
                let target = target.clone();
                self.proceed(DaemonPhase::Rebooting { target, blocked_by: None })
            }
            (DaemonPhase::Rebooting { target, .. }, DaemonEvent::Inhibited { by }) => {
                let target = target.clone();
                self.proceed(DaemonPhase::Rebooting { target, blocked_by: Some(by) })
            }
            (DaemonPhase::Rebooting { target, .. }, DaemonEvent::RebootAccepted) => {
                let target = target.clone();
                self.enter(DaemonPhase::ShuttingDown { target })
            }
            (DaemonPhase::Verifying, DaemonEvent::Verified) if self.runs_what_is_wanted() => {
                self.enter(DaemonPhase::Uncordoning { is_late: false })
            }
            (DaemonPhase::Verifying, DaemonEvent::Verified) => self.pursue(),
            (DaemonPhase::Verifying, DaemonEvent::Drifted { reason }) => {
                self.enter(DaemonPhase::Drifted { reason })
            }
            (DaemonPhase::Uncordoning { .. }, DaemonEvent::Uncordoned) => self.done(),
            (_, DaemonEvent::TimerExpired) => self.due(),
            (DaemonPhase::Done | DaemonPhase::Drifted { .. }, DaemonEvent::FilesChanged) => {
                self.enter(DaemonPhase::Verifying)
            }
            (phase, DaemonEvent::StateChanged) if phase.rests() => self.enter(DaemonPhase::Observing),
            _ => self.stay(),
        }
    }

    fn stay(self) -> Step {
        (self, Vec::new())
    }

    fn enter(self, phase: DaemonPhase) -> Step {
        let commands = phase.commands(self.failures);
        (Self { phase, ..self }, commands)
    }

    /// Goes on, unless something else is wanted by now.
    fn proceed(self, phase: DaemonPhase) -> Step {
        if self.is_superseded() { self.pursue() } else { self.enter(phase) }
    }

    /// What is under way ends early, and whatever is left of it is settled by whoever starts next.
    fn stop(self) -> Step {
        (Self { phase: DaemonPhase::Stopping, ..self }, vec![DaemonCommand::Cancel])
    }

    fn wished(mut self, wish: ConfigRef) -> Step {
        if self.wish.as_ref() == Some(&wish) {
            return self.stay();
        }
        self.wish = Some(wish);
        self.failures = 0;
        match &self.phase {
            // It is on its way already, or what it waits for decides anyway.
            _ if !self.is_superseded() && self.phase.target().is_some() => self.stay(),
            DaemonPhase::Observing
            | DaemonPhase::Applying { .. }
            | DaemonPhase::Unlocking { .. }
            | DaemonPhase::Rebooting { .. }
            | DaemonPhase::ShuttingDown { .. }
            | DaemonPhase::CheckingBoot { .. }
            | DaemonPhase::Verifying
            | DaemonPhase::Stopping => self.stay(),
            DaemonPhase::Preparing { .. } => (self, vec![DaemonCommand::Cancel]),
            DaemonPhase::Idle
            | DaemonPhase::Fetching { .. }
            | DaemonPhase::Draining { .. }
            | DaemonPhase::Uncordoning { .. }
            | DaemonPhase::Done
            | DaemonPhase::Drifted { .. }
            | DaemonPhase::Blocked { .. }
            | DaemonPhase::BackingOff { .. } => self.pursue(),
        }
    }

    fn looked(mut self, look: HostObservation) -> Step {
        let HostObservation { runs, standing, held, is_forced, vain_reboot } = look;
        (self.runs, self.held, self.is_forced, self.vain_reboot) = (runs, held, is_forced, vain_reboot);
        match standing {
            BootCheckState::Confirmed => self.pursue(),
            BootCheckState::Unconfirmed { complaint } => self.enter(DaemonPhase::CheckingBoot { complaint }),
            // Something else may be wanted by now, which is the way out.
            BootCheckState::Unhealthy { .. } if !self.runs_what_is_wanted() => self.pursue(),
            BootCheckState::Unhealthy { complaint } => self.wait(DaemonProblem {
                class: ProblemClass::Host,
                reason: format!(
                    "the host is not healthy: {complaint}; mend that, or go back with `flameholder rollback`"
                ),
            }),
        }
    }

    fn prepared(mut self, target: ConfigRef, prepared: PreparedUpdate) -> Step {
        self.is_forced = false;
        if self.is_superseded() {
            return self.pursue();
        }
        let draining = |then| DaemonPhase::Draining { target: target.clone(), then, is_late: false };
        match prepared {
            PreparedUpdate::Nothing => self.became(target),
            PreparedUpdate::Live { drain: false } => self.enter(DaemonPhase::Applying { target }),
            PreparedUpdate::Live { drain: true } => self.enter(draining(AfterDrain::Apply)),
            PreparedUpdate::Staged => self.enter(draining(AfterDrain::Unlock)),
        }
    }

    /// The host is what was wanted.
    fn became(self, target: ConfigRef) -> Step {
        Self { runs: Some(target), ..self }.enter(DaemonPhase::Verifying)
    }

    fn done(mut self) -> Step {
        self.failures = 0;
        self.enter(DaemonPhase::Done)
    }

    fn failed(self, problem: DaemonProblem) -> Step {
        if self.phase.rests() || matches!(self.phase, DaemonPhase::ShuttingDown { .. }) {
            return self.stay();
        }
        if self.is_superseded() {
            return self.pursue();
        }
        self.wait(problem)
    }

    fn wait(mut self, problem: DaemonProblem) -> Step {
        self.failures = self.failures.saturating_add(1);
        self.enter(DaemonPhase::BackingOff { problem })
    }

    fn due(self) -> Step {
        match &self.phase {
            DaemonPhase::Draining { target, then, is_late: false } => {
                let phase = DaemonPhase::Draining { target: target.clone(), then: *then, is_late: true };
                self.enter(phase)
            }
            DaemonPhase::Uncordoning { is_late: false } => {
                self.enter(DaemonPhase::Uncordoning { is_late: true })
            }
            DaemonPhase::BackingOff { .. } | DaemonPhase::ShuttingDown { .. } => {
                self.enter(DaemonPhase::Observing)
            }
            _ => self.stay(),
        }
    }

    /// Goes after what is wanted.
    fn pursue(self) -> Step {
        let Some(target) = self.wish.clone() else { return self.enter(DaemonPhase::Idle) };
        if self.is_forced {
            return self.enter(DaemonPhase::Fetching { target });
        }
        if self.runs_what_is_wanted() {
            return self.enter(DaemonPhase::Verifying);
        }
        match &self.held {
            Some(BlockedConfig { wish, reason }) if wish.is_same(&target) => {
                let reason = format!(
                    "{} is held: {reason}; `flameholder retry` on the host releases it, and so does another configuration",
                    target.config
                );
                self.enter(DaemonPhase::Blocked { reason })
            }
            _ => self.enter(DaemonPhase::Fetching { target }),
        }
    }

    fn runs_what_is_wanted(&self) -> bool {
        self.runs.as_ref().zip(self.wish.as_ref()).is_some_and(|(runs, wish)| runs.is_same(wish))
    }

    /// Whether something else is wanted than what is worked on.
    #[must_use]
    pub fn is_superseded(&self) -> bool {
        self.phase.target().zip(self.wish.as_ref()).is_some_and(|(target, wish)| !target.is_same(wish))
    }
}

impl DaemonPhase {
    /// Whether nothing is under way that has to end first.
    #[must_use]
    pub fn rests(&self) -> bool {
        matches!(
            self,
            Self::Idle
                | Self::CheckingBoot { .. }
                | Self::Done
                | Self::Drifted { .. }
                | Self::Blocked { .. }
                | Self::BackingOff { .. }
        )
    }
}

//! From one phase to the next.

use super::{Class, Command, Event, Held, Lifecycle, Look, Phase, Prepared, Problem, Standing, Then, Wish};

/// Where the daemon stands then, and what is to be done for it.
type Step = (Lifecycle, Vec<Command>);

impl Lifecycle {
    /// What follows from an event. One that means nothing in this phase changes nothing.
    #[must_use]
    pub fn step(self, event: Event) -> Step {
        match (&self.phase, event) {
            (Phase::Stopping, _) => self.stay(),
            (_, Event::Stop) => self.stop(),
            (_, Event::Wished(wish)) => self.wished(wish),
            (_, Event::Failed(problem)) => self.failed(problem),
            (Phase::Looking, Event::Looked(look)) => self.looked(look),
            (Phase::Fetching { target }, Event::Fetched) => {
                let target = target.clone();
                self.enter(Phase::Preparing { target })
            }
            (Phase::Preparing { target }, Event::Prepared(prepared)) => {
                let target = target.clone();
                self.prepared(target, prepared)
            }
            (Phase::Draining { target, then, .. }, Event::Drained) => {
                let target = target.clone();
                let phase = match then {
                    Then::Apply => Phase::Applying { target },
                    Then::Arm => Phase::Arming { target },
                };
                self.enter(phase)
            }
            (Phase::Applying { target }, Event::Applied) => {
                let target = target.clone();
                self.became(target)
            }
            (Phase::Arming { target }, Event::Armed) => {
                let target = target.clone();
                self.proceed(Phase::Rebooting { target, blocked_by: None })
            }
            (Phase::Rebooting { target, .. }, Event::Blocked { by }) => {
                let target = target.clone();
                self.proceed(Phase::Rebooting { target, blocked_by: Some(by) })
            }
            (Phase::Rebooting { target, .. }, Event::Accepted) => {
                let target = target.clone();
                self.enter(Phase::GoingDown { target })
            }
            (Phase::Verifying, Event::Verified) if self.runs_what_is_wanted() => {
                self.enter(Phase::Uncordoning { is_late: false })
            }
            (Phase::Verifying, Event::Verified) => self.pursue(),
            (Phase::Verifying, Event::Deviates { reason }) => self.enter(Phase::Drifted { reason }),
            (Phase::Uncordoning { .. }, Event::Uncordoned) => self.done(),
            (_, Event::Due) => self.due(),
            (Phase::Done | Phase::Drifted { .. }, Event::Touched) => self.enter(Phase::Verifying),
            (phase, Event::Nudged) if phase.rests() => self.enter(Phase::Looking),
            _ => self.stay(),
        }
    }

    fn stay(self) -> Step {
        (self, Vec::new())
    }

    fn enter(self, phase: Phase) -> Step {
        let commands = phase.commands(self.failures);
        (Self { phase, ..self }, commands)
    }

    /// Goes on, unless something else is wanted by now.
    fn proceed(self, phase: Phase) -> Step {
        if self.is_superseded() { self.pursue() } else { self.enter(phase) }
    }

    /// What is under way ends early, and whatever is left of it is settled by whoever starts next.
    fn stop(self) -> Step {
        (Self { phase: Phase::Stopping, ..self }, vec![Command::Cancel])
    }

    fn wished(mut self, wish: Wish) -> Step {
        if self.wish.as_ref() == Some(&wish) {
            return self.stay();
        }
        self.wish = Some(wish);
        self.failures = 0;
        match &self.phase {
            // It is on its way already, or what it waits for decides anyway.
            _ if !self.is_superseded() && self.phase.target().is_some() => self.stay(),
            Phase::Looking
            | Phase::Applying { .. }
            | Phase::Arming { .. }
            | Phase::Rebooting { .. }
            | Phase::GoingDown { .. }
            | Phase::Judging { .. }
            | Phase::Verifying
            | Phase::Stopping => self.stay(),
            Phase::Preparing { .. } => (self, vec![Command::Cancel]),
            Phase::Idle
            | Phase::Fetching { .. }
            | Phase::Draining { .. }
            | Phase::Uncordoning { .. }
            | Phase::Done
            | Phase::Drifted { .. }
            | Phase::Held { .. }
            | Phase::Waiting { .. } => self.pursue(),
        }
    }

    fn looked(mut self, look: Look) -> Step {
        let Look { runs, standing, held, is_forced, vain_reboot } = look;
        (self.runs, self.held, self.is_forced, self.vain_reboot) = (runs, held, is_forced, vain_reboot);
        match standing {
            Standing::Settled => self.pursue(),
            Standing::OnProbation { complaint } => self.enter(Phase::Judging { complaint }),
            // Something else may be wanted by now, which is the way out.
            Standing::Unhealthy { .. } if !self.runs_what_is_wanted() => self.pursue(),
            Standing::Unhealthy { complaint } => self.wait(Problem {
                class: Class::Host,
                reason: format!(
                    "the host is not healthy: {complaint}; mend that, or go back with `flameholder rollback`"
                ),
            }),
        }
    }

    fn prepared(mut self, target: Wish, prepared: Prepared) -> Step {
        self.is_forced = false;
        if self.is_superseded() {
            return self.pursue();
        }
        let draining = |then| Phase::Draining { target: target.clone(), then, is_late: false };
        match prepared {
            Prepared::Nothing => self.became(target),
            Prepared::Ready { drain: false } => self.enter(Phase::Applying { target }),
            Prepared::Ready { drain: true } => self.enter(draining(Then::Apply)),
            Prepared::Staged => self.enter(draining(Then::Arm)),
        }
    }

    /// The host is what was wanted.
    fn became(self, target: Wish) -> Step {
        Self { runs: Some(target), ..self }.enter(Phase::Verifying)
    }

    fn done(mut self) -> Step {
        self.failures = 0;
        self.enter(Phase::Done)
    }

    fn failed(self, problem: Problem) -> Step {
        if self.phase.rests() || matches!(self.phase, Phase::GoingDown { .. }) {
            return self.stay();
        }
        if self.is_superseded() {
            return self.pursue();
        }
        self.wait(problem)
    }

    fn wait(mut self, problem: Problem) -> Step {
        self.failures = self.failures.saturating_add(1);
        self.enter(Phase::Waiting { problem })
    }

    fn due(self) -> Step {
        match &self.phase {
            Phase::Draining { target, then, is_late: false } => {
                let phase = Phase::Draining { target: target.clone(), then: *then, is_late: true };
                self.enter(phase)
            }
            Phase::Uncordoning { is_late: false } => self.enter(Phase::Uncordoning { is_late: true }),
            Phase::Waiting { .. } | Phase::GoingDown { .. } => self.enter(Phase::Looking),
            _ => self.stay(),
        }
    }

    /// Goes after what is wanted.
    fn pursue(self) -> Step {
        let Some(target) = self.wish.clone() else { return self.enter(Phase::Idle) };
        if self.is_forced {
            return self.enter(Phase::Fetching { target });
        }
        if self.runs_what_is_wanted() {
            return self.enter(Phase::Verifying);
        }
        match &self.held {
            Some(Held { wish, reason }) if wish.is_same(&target) => {
                let reason = format!(
                    "{} is held: {reason}; `flameholder retry` on the host releases it, and so does another configuration",
                    target.config
                );
                self.enter(Phase::Held { reason })
            }
            _ => self.enter(Phase::Fetching { target }),
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

impl Phase {
    /// Whether nothing is under way that has to end first.
    #[must_use]
    pub fn rests(&self) -> bool {
        matches!(
            self,
            Self::Idle
                | Self::Judging { .. }
                | Self::Done
                | Self::Drifted { .. }
                | Self::Held { .. }
                | Self::Waiting { .. }
        )
    }
}

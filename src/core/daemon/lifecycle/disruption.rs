//! Transitions between the preparation and the disruption: the grant, and the drain.

use super::step::LifecycleStep;
use super::{AfterDrain, ConfigRef, DaemonEvent, DaemonPhase, Lifecycle};
use crate::core::daemon::grant::GrantDelay;

impl Lifecycle {
    /// Return the next state for an event of the grant or the drain.
    pub(super) fn step_before_disruption(self, event: DaemonEvent) -> LifecycleStep {
        match (&self.phase, event) {
            (DaemonPhase::AwaitingGrant { .. }, DaemonEvent::Granted) => self.grant_answered(None),
            (DaemonPhase::AwaitingGrant { .. }, DaemonEvent::GrantDelayed(delay)) => {
                self.grant_answered(Some(delay))
            }
            (DaemonPhase::Draining { target, next, .. }, DaemonEvent::Drained) => {
                let phase = next.phase(target.clone());
                self.enter(phase)
            }
            (DaemonPhase::Draining { .. }, DaemonEvent::DrainDelayed(subject)) => {
                Self { drain_wait: Some(subject), ..self }.stay()
            }
            (DaemonPhase::Draining { target, next, .. }, DaemonEvent::DrainGivenUp(delay)) => {
                let (target, next) = (target.clone(), *next);
                let wait = Some(delay);
                self.proceed(DaemonPhase::AwaitingGrant { target, next, wait, is_requested: false })
            }
            _ => self.stay(),
        }
    }

    /// Begin the disruption, or wait for the rest of the grant.
    fn grant_answered(self, wait: Option<GrantDelay>) -> LifecycleStep {
        if self.observes_again {
            // The grant stays.
            return self.enter(DaemonPhase::Observing);
        }
        let DaemonPhase::AwaitingGrant { target, next, .. } = &self.phase else { return self.stay() };
        let (target, next) = (target.clone(), *next);
        self.proceed(match wait {
            None => DaemonPhase::Draining { target, next, is_overdue: false },
            wait => DaemonPhase::AwaitingGrant { target, next, wait, is_requested: false },
        })
    }
}

impl AfterDrain {
    /// Return the phase that follows the drain for `target`.
    fn phase(self, target: ConfigRef) -> DaemonPhase {
        match self {
            Self::Apply => DaemonPhase::Applying { target },
            Self::Unlock => DaemonPhase::Unlocking { target },
        }
    }
}

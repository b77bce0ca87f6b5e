//! Progress of the fleet: the config that each agent is done with, and the agents that cannot reach the API server.

use std::sync::{Mutex, PoisonError};

/// State of an agent.
#[derive(Debug, Clone, Default)]
struct AgentState {
    done: Option<String>,
    is_failing: bool,
}

/// Progress of all agents, by their numbers.
#[derive(Debug)]
pub(crate) struct FleetProgress(Mutex<Vec<AgentState>>);

impl FleetProgress {
    /// Create the progress of so many agents, none of which has begun.
    pub(crate) fn of(agents: usize) -> Self {
        Self(Mutex::new(vec![AgentState::default(); agents]))
    }

    fn change(&self, agent: usize, change: impl FnOnce(&mut AgentState)) {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = states.get_mut(agent) {
            change(state);
        }
    }

    /// Note the config that an agent is done with; `None` while it is not done.
    pub(crate) fn set_done(&self, agent: usize, config: Option<&str>) {
        self.change(agent, |state| state.done = config.map(str::to_owned));
    }

    /// Note whether the source of an agent reports an error.
    pub(crate) fn set_failing(&self, agent: usize, is_failing: bool) {
        self.change(agent, |state| state.is_failing = is_failing);
    }

    /// Return the number of agents that are done with a config.
    pub(crate) fn done_with(&self, config: &str) -> usize {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        states.iter().filter(|state| state.done.as_deref() == Some(config)).count()
    }

    /// Return the number of agents whose source reports an error.
    pub(crate) fn failing(&self) -> usize {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        states.iter().filter(|state| state.is_failing).count()
    }
}

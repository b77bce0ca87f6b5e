//! Releases of the agent that a host can run, and their exchange.

use std::path::PathBuf;

use crate::booted::host::{Host, WORKER};
use crate::{executables, preconditions};

/// Release of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentRelease {
    /// The release under test.
    This,
    /// The executables that stand for the next release (feature `next-schema`).
    Next,
}

impl AgentRelease {
    pub fn other(self) -> Self {
        match self {
            Self::This => Self::Next,
            Self::Next => Self::This,
        }
    }

    /// The agent and its worker. Panics if there are no executables of the next release.
    fn executables(self) -> [(&'static str, PathBuf); 2] {
        let [agent, worker] = match self {
            Self::This => [executables::flameholder(), executables::worker()],
            Self::Next => {
                let folder = preconditions::require_next_release();
                ["flameholder", WORKER].map(|name| folder.join(name))
            }
        };
        [("flameholder", agent), (WORKER, worker)]
    }
}

impl Host {
    /// Install the executables of `release` in place of the present ones.
    pub fn install_agent(&self, release: AgentRelease) {
        for (name, executable) in release.executables() {
            self.put_program(name, Some(&executable));
        }
    }
}

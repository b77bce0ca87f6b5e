//! Other programs that update or reboot the host by themselves: each undoes the work of the agent, or the agent theirs.

use std::fmt;
use std::path::Path;

use crate::core::values::causes::chain;
use crate::host::facts::processes;
use crate::host::systemd::system_status;
use crate::host::systemd::system_status::UnitState;

/// Sign that a program is at work on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentSign {
    /// This unit of systemd is active.
    Unit(&'static str),
    /// A process has this name.
    Process(&'static str),
}

/// Program that updates or reboots hosts by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherAgent {
    sign: AgentSign,
    /// Conflict with this agent.
    conflict: &'static str,
    /// Command that ends the conflict.
    way_out: &'static str,
}

/// Agents that are known. The machine-config-daemon is none of them: no update begins while it runs.
const KNOWN: [OtherAgent; 4] = [
    OtherAgent {
        sign: AgentSign::Unit("zincati.service"),
        conflict: "it reboots into releases of the OS that the config does not name",
        way_out: "systemctl mask --now zincati.service",
    },
    OtherAgent {
        sign: AgentSign::Unit("rpm-ostreed-automatic.timer"),
        conflict: "it stages updates that the config does not name",
        way_out: "systemctl disable --now rpm-ostreed-automatic.timer",
    },
    OtherAgent {
        sign: AgentSign::Unit("bootc-fetch-apply-updates.timer"),
        conflict: "it stages updates that the config does not name, and reboots",
        way_out: "systemctl mask --now bootc-fetch-apply-updates.timer",
    },
    OtherAgent {
        sign: AgentSign::Process("kured"),
        conflict: "it drains and reboots the node without a grant of the reboot policy",
        way_out: "exclude this node from the DaemonSet of kured, such as by its nodeSelector",
    },
];

impl fmt::Display for OtherAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.sign {
            AgentSign::Unit(name) | AgentSign::Process(name) => name,
        };
        write!(f, "{name} is at work on this host, and {}; to end that: {}", self.conflict, self.way_out)
    }
}

/// Find other agents that are at work on the running host. One that cannot be looked at is logged: no change depends on it.
#[must_use]
pub fn other_agents() -> Vec<OtherAgent> {
    let units: Vec<&str> = KNOWN
        .iter()
        .filter_map(|agent| match agent.sign {
            AgentSign::Unit(name) => Some(name),
            AgentSign::Process(_) => None,
        })
        .collect();
    let seen = system_status::look(Path::new("/"), &units);
    let seen = seen.inspect_err(|error| log::debug!("cannot look for other agents: {}", chain(error)));
    let states = seen.ok().flatten().map(|seen| seen.asked).unwrap_or_default();
    let runs = |name: &str| processes::processes_named(name).is_ok_and(|found| !found.is_empty());
    KNOWN.into_iter().filter(|agent| is_at_work(*agent, &states, &runs)).collect()
}

fn is_at_work(agent: OtherAgent, states: &[UnitState], runs: &dyn Fn(&str) -> bool) -> bool {
    match agent.sign {
        AgentSign::Unit(name) => states.iter().any(|unit| {
            unit.name == name && ["active", "activating", "reloading"].contains(&unit.active.as_str())
        }),
        AgentSign::Process(name) => runs(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_that_are_at_work_are_named_with_the_command_against_them() {
        let state = |name: &str, active: &str| UnitState {
            name: name.to_owned(),
            load: "loaded".to_owned(),
            active: active.to_owned(),
        };
        let states = [
            state("zincati.service", "active"),
            state("rpm-ostreed-automatic.timer", "inactive"),
            state("bootc-fetch-apply-updates.timer", "failed"),
        ];
        let found = |runs: bool| -> Vec<String> {
            let at_work = KNOWN.iter().filter(|agent| is_at_work(**agent, &states, &|_| runs));
            at_work.map(ToString::to_string).collect()
        };
        let [zincati] = found(false).try_into().unwrap();
        assert!(zincati.starts_with("zincati.service is at work"), "{zincati}");
        assert!(zincati.ends_with("systemctl mask --now zincati.service"), "{zincati}");
        assert_eq!(found(true).len(), 2);
    }
}

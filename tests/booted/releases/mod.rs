//! Upgrades and downgrades of the agent in each phase of an update.
//!
//! One release of the agent brings a host into the phase. Its executables are exchanged, and the host goes on: it shuts
//! down, boots, activates and checks its generation. Then it is updated once more. `life.rs` has the acts and the rules
//! that hold after each of them; the table here has the results. The next release is the feature `next-schema`: every
//! document of the agent has a schema, and some an entry, that this release does not know.

mod foreign;
mod life;

use std::collections::BTreeSet;

use life::UpdateLife;
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::release::AgentRelease;
use testbed::booted::release::AgentRelease::{Next, This};

/// Phase of an update in which the agent is exchanged.
#[derive(Debug, Clone, Copy)]
struct UpdatePhase {
    /// Number of the acts that lead to it.
    acts: usize,
    /// True if the generation passes its boot check.
    is_healthy: bool,
}

impl UpdatePhase {
    /// Number of acts before the next update. Whichever release runs which of them: the update is decided, and the last
    /// release boots the host once more.
    fn end(self) -> usize {
        self.acts.max(DECIDED) + 2 * REBOOT
    }
}

/// Acts until the boot check has decided the update, and acts of one reboot.
const DECIDED: usize = 6;
const REBOOT: usize = 4;

const fn healthy(acts: usize) -> UpdatePhase {
    UpdatePhase { acts, is_healthy: true }
}

const fn sick(acts: usize) -> UpdatePhase {
    UpdatePhase { acts, is_healthy: false }
}

/// State of the host when it has gone on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SettledState {
    /// The workload runs, with all files of one generation.
    Serves,
    /// The workload runs. The agent is older than the record, so it does not know the files outside `/etc`, leaves them as
    /// they are, and reports that. An unconfirmed generation was rolled back, since this agent cannot check it.
    Unverified,
}

/// Result of an exchange: the config in force (`one` before the update, `two` after it), the state, and the documents
/// that were set aside.
type Settled = (&'static str, SettledState, &'static [&'static str]);

/// Generate a test of each phase from its name, the acts that lead to it, and the results of the exchanges.
macro_rules! matrix {
    ($($phase:ident $health:ident($acts:literal): $($text:ident $state:ident [$($aside:ident)*])|+;)*) => {$(
        mod $phase {
            use super::{SettledState, exchange, $health};

            #[test]
            fn host_goes_on_and_updates() {
                let settled = [$((stringify!($text), SettledState::$state, &[$(stringify!($aside)),*][..])),+];
                exchange($health($acts), settled);
            }
        }
    )*};
}

// One line per phase: upgrade | downgrade | upgrade, one command, and back | downgrade, one command, and back.
matrix! {
    idle healthy(0):
        two Serves [] | one Serves [active] | two Serves [pending] | two Serves [active];
    locked healthy(1):
        two Serves [] | one Serves [active pending] | two Serves [pinned] | one Serves [active pending];
    unlocked healthy(2):
        two Serves [] | one Serves [pending pinned] | one Serves [] | one Serves [];
    finalized healthy(3):
        two Serves [] | one Serves [pending pinned] | two Serves [active pending] | one Serves [];
    booted healthy(4):
        two Serves [] | one Serves [pending pinned] | two Serves [active pending] | one Serves [];
    activated healthy(5):
        two Serves [] | one Unverified [pending pinned] | two Serves [] | one Serves [pending];
    confirmed healthy(6):
        two Serves [] | two Serves [] | two Serves [active] | two Serves [];
    sick_booted sick(4):
        one Serves [] | one Serves [pending pinned] | one Serves [active pending] | one Serves [];
    sick_activated sick(5):
        one Serves [] | one Unverified [pending pinned] | one Serves [] | one Serves [pending];
    rejected sick(6):
        one Serves [] | one Unverified [blocked pending pinned] | one Serves [active] | one Serves [];
    blocked sick(10):
        one Serves [] | one Serves [blocked] | one Serves [active] | one Serves [];
}

/// Exchange the agent of copies of a host in this phase.
fn exchange(phase: UpdatePhase, [upgrade, downgrade, upgrade_and_back, downgrade_and_back]: [Settled; 4]) {
    let [this, next] = [This, Next].map(|release| {
        let mut life = UpdateLife::begin(release, phase.is_healthy);
        life.take_acts(phase.acts);
        life
    });
    for (prepared, releases, expected) in [
        (&this, &[Next][..], upgrade),
        (&next, &[This], downgrade),
        (&this, &[Next, This], upgrade_and_back),
        (&next, &[This, Next], downgrade_and_back),
    ] {
        println!("{phase:?} {releases:?}");
        go_on(prepared.copy(), phase.end(), releases, expected);
    }
}

/// Let the host go on with these releases one after the other, to the last act and through one more update.
fn go_on(mut life: UpdateLife, end: usize, releases: &[AgentRelease], (text, state, aside): Settled) {
    for (index, release) in releases.iter().enumerate() {
        if index > 0 {
            life.take_act_of_agent();
        }
        life.host.install_agent(*release);
    }
    life.take_acts(end);
    life.follow_reboots();
    let aside = aside.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let settled = (life.text(), state_of(&life), life.documents_aside());
    assert_eq!(settled, (text.to_owned(), state, aside), "{releases:?}");
    life.update(&full_config("three"));
    assert_config(&life.host, "three", text);
    life.host.assert_no_drift();
}

fn state_of(life: &UpdateLife) -> SettledState {
    assert!(life.host.workload_starts(), "the workload waits for ever: {}", life.host.status());
    if life.has_all_files() { SettledState::Serves } else { SettledState::Unverified }
}

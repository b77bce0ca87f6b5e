//! Models of the fleet, of the lock's server, and of the failures.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use fastrand::Rng;
use flameholder::core::daemon::grant::SlotRequest;
use flameholder::core::daemon::grant::leases::LeaseSightings;

use super::host::{Consequences, Host, Occurrence, config};
use super::leases::{LeaseClient, LeaseServer};

/// Seconds after which a fleet that is not updated counts as stuck.
const END: i64 = 10 * 24 * 3600;
/// The lock's server and the source are away for a part of each of these periods, in seconds.
const OUTAGE: (i64, i64) = (3600, 900);

/// Fault of the policy that a run must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mutation {
    ReleaseBeforeConfirmation,
    /// Another identity for each attempt.
    LockPerAttempt,
    NoLock,
    NoWindow,
    NeverRelease,
    /// The request is not on the disk before its answer.
    ForgetLostAnswer,
    /// Leases are taken over without a look at their age.
    NoExpiry,
    /// Expired Leases of hosts that are down are taken over.
    TakeFromTheDead,
}

/// Breach of a promise of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(dead_code, reason = "read by a person in the message of a failed test")]
pub(super) enum Violation {
    WithoutSlot { host: usize, now: i64 },
    OutsideWindow { host: usize, now: i64 },
    TooManyDown { down: usize, now: i64 },
}

/// A fleet and what happens to it. Times are in seconds.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "independent kinds of faults")]
pub(super) struct FleetSetup {
    pub(super) seed: u64,
    pub(super) hosts: usize,
    pub(super) slots: usize,
    /// Hosts that lose their power for good while they reboot.
    pub(super) deaths: usize,
    pub(super) kills: bool,
    pub(super) outages: bool,
    /// Some answers of the lock's server are lost after it granted or released.
    pub(super) lost_answers: bool,
    pub(super) is_bad: bool,
    pub(super) keeps_after_rollback: bool,
    /// Config that is desired after a time in place of the new one.
    pub(super) then_desires: Option<(i64, &'static str)>,
    pub(super) has_windows: bool,
    /// The slots are Leases, which expire.
    pub(super) has_leases: bool,
    /// The Nodes of dead hosts are removed from the cluster.
    pub(super) dead_are_removed: bool,
    pub(super) clocks_differ: bool,
    pub(super) retry: std::time::Duration,
    pub(super) pull: i64,
    pub(super) drain: i64,
    pub(super) reboot: i64,
    pub(super) boot_check: i64,
    pub(super) mutation: Option<Mutation>,
}

impl FleetSetup {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            hosts: 0,
            slots: 0,
            deaths: 0,
            kills: false,
            outages: false,
            lost_answers: false,
            is_bad: false,
            keeps_after_rollback: true,
            then_desires: None,
            has_windows: false,
            has_leases: false,
            dead_are_removed: false,
            clocks_differ: false,
            retry: std::time::Duration::from_secs(60),
            pull: 900,
            drain: 200,
            reboot: 180,
            boot_check: 60,
            mutation: None,
        }
    }

    /// The longest time from a request that is granted to the next one of another host.
    pub(super) fn longest_turn(&self) -> i64 {
        let waits = 90;
        waits + self.drain + self.reboot + self.boot_check + 60
    }

    pub(super) fn is_source_away(&self, now: i64) -> bool {
        self.outages && now.rem_euclid(OUTAGE.0) < OUTAGE.1
    }
}

/// Server of a lock: it knows hosts by their identities, and never takes a slot back by itself.
#[derive(Debug)]
pub(super) struct LockServer {
    slots: usize,
    held: BTreeSet<String>,
    /// The slots where they are Leases.
    leases: Option<LeaseServer>,
    random: Rng,
    outages: bool,
    lost_answers: bool,
}

/// Host that sends a request to the lock's server.
#[derive(Debug)]
pub(super) struct LockClient<'a> {
    pub(super) id: &'a str,
    pub(super) now: i64,
    pub(super) sightings: &'a mut LeaseSightings,
    pub(super) uptime: Duration,
    pub(super) mutation: Option<Mutation>,
}

impl LockServer {
    fn is_away(&self, now: i64) -> bool {
        self.outages && (now + 1800).rem_euclid(OUTAGE.0) < OUTAGE.1
    }

    pub(super) fn request(&mut self, client: LockClient<'_>, request: SlotRequest) -> Result<(), String> {
        let LockClient { id, now, sightings, uptime, mutation } = client;
        if self.is_away(now) {
            return Err("it is away".to_owned());
        }
        match request {
            _ if let Some(leases) = &mut self.leases => {
                leases.request(LeaseClient { node: id, sightings, uptime, mutation }, request)?;
            }
            SlotRequest::Acquire if self.held.contains(id) => {}
            SlotRequest::Acquire if self.held.len() >= self.slots => {
                return Err("all slots are held".to_owned());
            }
            SlotRequest::Acquire => drop(self.held.insert(id.to_owned())),
            SlotRequest::Release => drop(self.held.remove(id)),
        }
        if self.lost_answers && self.random.u8(..4) == 0 {
            return Err("the answer was lost".to_owned());
        }
        Ok(())
    }

    /// Renew the Lease of a host, if the server can be reached.
    pub(super) fn renew(&mut self, id: &str, now: i64) {
        if !self.is_away(now)
            && let Some(leases) = &mut self.leases
        {
            leases.renew(id);
        }
    }

    fn slots_held(&self) -> usize {
        self.leases.as_ref().map_or(self.held.len(), LeaseServer::held)
    }

    pub(super) fn is_held_by(&self, host: usize) -> bool {
        let own = host.to_string();
        if let Some(leases) = &self.leases {
            return leases.holds(&own);
        }
        self.held.contains(&own) || {
            // An identity per attempt begins with that of the host.
            let prefix = format!("{own}/");
            self.held.range(prefix.clone()..).next().is_some_and(|id| id.starts_with(&prefix))
        }
    }
}

/// Result of a run.
#[derive(Debug, Clone, Default)]
#[allow(dead_code, reason = "read by a person in the message of a failed test")]
pub(super) struct FleetSummary {
    pub(super) seconds: i64,
    pub(super) updated: usize,
    pub(super) dead: usize,
    /// Hosts that booted the new config.
    pub(super) tried: usize,
    pub(super) most_down: usize,
    pub(super) slots_held: usize,
}

pub(super) struct Fleet {
    setup: FleetSetup,
    hosts: Vec<Host>,
    lock: LockServer,
    random: Rng,
    /// What happens next, by time and then by order.
    queue: BinaryHeap<Reverse<(i64, u64)>>,
    occurrences: BTreeMap<u64, (usize, Occurrence)>,
    scheduled: u64,
    deaths_left: usize,
    down: usize,
    dead: usize,
}

impl Fleet {
    pub(super) fn new(setup: FleetSetup) -> Self {
        let mut random = Rng::with_seed(setup.seed);
        let hosts = (0..setup.hosts).map(|id| {
            let clock = if setup.clocks_differ { random.i64(-3600..=3600) } else { 0 };
            Host::new(id, clock)
        });
        let hosts = hosts.collect();
        let lock = LockServer {
            slots: setup.slots,
            held: BTreeSet::new(),
            leases: setup.has_leases.then(|| LeaseServer::new(setup.slots)),
            random: random.fork(),
            outages: setup.outages,
            lost_answers: setup.lost_answers,
        };
        let deaths_left = setup.deaths;
        Self {
            setup,
            hosts,
            lock,
            random,
            queue: BinaryHeap::new(),
            occurrences: BTreeMap::new(),
            scheduled: 0,
            deaths_left,
            down: 0,
            dead: 0,
        }
    }

    fn schedule(&mut self, now: i64, host: usize, consequences: Consequences) {
        for (seconds, occurrence) in consequences {
            self.scheduled += 1;
            self.occurrences.insert(self.scheduled, (host, occurrence));
            self.queue.push(Reverse((now + seconds, self.scheduled)));
        }
    }

    /// Desire a new config of the whole fleet, and let everything happen until nothing happens any more.
    pub(super) fn run(mut self) -> Result<FleetSummary, Violation> {
        for host in 0..self.hosts.len() {
            let begun = self.hosts[host].start();
            let desire = self.random.i64(10..300);
            self.schedule(0, host, begun);
            self.schedule(0, host, vec![(desire, Occurrence::Desire(config("new")))]);
            if let Some((time, name)) = self.setup.then_desires {
                self.schedule(0, host, vec![(time + desire, Occurrence::Desire(config(name)))]);
            }
            if self.setup.kills {
                let kills = (0..40).map(|_| (self.random.i64(300..20_000), Occurrence::Kill)).collect();
                self.schedule(0, host, kills);
            }
        }
        let (mut last_change, mut most_down) = (0, 0);
        while let Some(Reverse((now, number))) = self.queue.pop() {
            let Some((index, occurrence)) = self.occurrences.remove(&number) else { continue };
            if now > END {
                break;
            }
            let was_down = self.hosts[index].is_down;
            self.let_die(index, &occurrence);
            let consequences = self.hosts[index].meet(occurrence, now, &self.setup, &mut self.lock)?;
            let is_down = self.hosts[index].is_down;
            self.note_readiness(index);
            if was_down != is_down {
                last_change = now;
                self.down = if is_down { self.down + 1 } else { self.down - 1 };
                most_down = most_down.max(self.down);
                if self.down > self.setup.slots {
                    return Err(Violation::TooManyDown { down: self.down, now });
                }
            }
            self.schedule(now, index, consequences);
        }
        let is_updated = |host: &&Host| !host.is_dead && host.booted != config("old") && !host.is_down;
        Ok(FleetSummary {
            seconds: last_change,
            updated: self.hosts.iter().filter(is_updated).count(),
            dead: self.dead,
            tried: self.hosts.iter().filter(|host| host.has_tried).count(),
            most_down,
            slots_held: self.lock.slots_held(),
        })
    }

    /// Tell the cluster if a Node is Ready.
    fn note_readiness(&mut self, index: usize) {
        let Some(leases) = &mut self.lock.leases else { return };
        let host = &self.hosts[index];
        let name = index.to_string();
        if host.is_off || host.is_dead {
            leases.down.insert(name.clone());
        } else {
            leases.down.remove(&name);
        }
        if host.is_dead && self.setup.dead_are_removed {
            leases.gone.insert(name);
        }
    }

    /// Let a host die that is about to boot: it keeps its slot.
    fn let_die(&mut self, index: usize, occurrence: &Occurrence) {
        if self.deaths_left > 0 && matches!(occurrence, Occurrence::Boot) && self.random.u8(..100) == 0 {
            self.hosts[index].is_dead = true;
            // A Node that was removed is none that the fleet lacks.
            self.hosts[index].is_down &= !self.setup.dead_are_removed;
            self.deaths_left -= 1;
            self.dead += 1;
        }
    }
}

//! Slots of a lock as Leases of a Kubernetes cluster (`coordination.k8s.io/v1`), one per slot of a group.
//!
//! A host holds a slot while the Lease names its Node as the holder, and renews it. Another host may take the slot once it
//! has seen it unchanged for the whole duration of the Lease, and only if the holder's Node is Ready, or gone: a host that is
//! down keeps its slot. Hosts compare no clocks with each other: each measures from the moment at which it saw the present
//! version of the Lease first, as the leader election of Kubernetes does. Unlike there, it measures anew after a time in which it
//! did not see the Lease: the API server may have been away, also for the holder.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::core::values::foreign_text::harmless_line;

/// Duration of a Lease until an update was measured.
const UNMEASURED: Duration = Duration::from_secs(30 * 60);
/// Longest mean time between two requests for a slot. With its jitter, it is shorter than [`renewal_interval`] of the shortest
/// duration, so that a host which waits sees the Leases without a gap.
pub const LONGEST_RETRY: Duration = Duration::from_secs(120);
/// Shortest duration of a Lease: a host that boots faster can still be delayed by a firmware's check.
const SHORTEST: Duration = Duration::from_secs(10 * 60);
/// Longest duration of a Lease. The measured time contains that in which the host was without power, and the error of a clock
/// that was corrected.
const LONGEST: Duration = Duration::from_secs(2 * 3600);
/// Holders that a refusal names.
const NAMED: usize = 5;

/// Lease of a slot, as the API server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotLease {
    /// Name of the Lease.
    pub name: String,
    /// Name of the Node that holds it; `None` if it is free.
    pub holder: Option<String>,
    /// Resource version, which changes with each renewal.
    pub version: String,
    /// Time after the last renewal for which the holder keeps it.
    pub duration: Duration,
}

/// Group of hosts that share slots, and the host that requests one.
#[derive(Debug, Clone, Copy)]
pub struct LeaseGroup<'a> {
    pub name: &'a str,
    /// Number of slots.
    pub slots: u16,
    /// Name of the host's Node.
    pub node: &'a str,
}

/// Next step of a host towards a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseStep {
    /// Renew the Lease that the host holds.
    Renew(SlotLease),
    /// Take a free Lease.
    Take(SlotLease),
    /// Create the Lease of this name, which is missing.
    Create(String),
    /// Take an expired Lease, if the Node of its holder is Ready or gone.
    TakeOver { lease: SlotLease, holder: String },
    /// All slots are held: the holders, in one sentence.
    Refuse(String),
}

impl LeaseGroup<'_> {
    /// Return the next step under these `leases` of the group. Names in `passed_over` are not taken: another host was faster,
    /// or their holder is down.
    #[must_use]
    pub fn next_step(
        &self,
        leases: &[SlotLease],
        sightings: &LeaseSightings,
        uptime: Duration,
        passed_over: &BTreeSet<String>,
    ) -> LeaseStep {
        if let Some(own) = leases.iter().find(|lease| lease.holder.as_deref() == Some(self.node)) {
            return LeaseStep::Renew(own.clone());
        }
        let names: Vec<String> = (0..self.slots).map(|slot| format!("{}-{slot}", self.name)).collect();
        let mut expired = None;
        for name in names.iter().filter(|name| !passed_over.contains(*name)) {
            let Some(lease) = leases.iter().find(|lease| lease.name == *name) else {
                return LeaseStep::Create(name.clone());
            };
            match &lease.holder {
                None => return LeaseStep::Take(lease.clone()),
                Some(holder) if sightings.is_expired(lease, uptime) => {
                    expired = expired.or(Some((lease.clone(), holder.clone())));
                }
                Some(_) => {}
            }
        }
        match expired {
            Some((lease, holder)) => LeaseStep::TakeOver { lease, holder },
            None => LeaseStep::Refuse(refusal(&names, leases)),
        }
    }
}

/// Name the holders of all slots.
fn refusal(names: &[String], leases: &[SlotLease]) -> String {
    let held = |name: &String| leases.iter().find(|lease| lease.name == *name)?.holder.as_deref();
    let mut holders: Vec<_> = names.iter().filter_map(held).map(harmless_line).collect();
    let unnamed = holders.len().saturating_sub(NAMED);
    holders.truncate(NAMED);
    let more = if unnamed == 0 { String::new() } else { format!(" and {unnamed} more") };
    match names.len() {
        1 => format!("its only slot is held by {}", holders.join(", ")),
        slots => format!("all {slots} slots are held, by {}{more}", holders.join(", ")),
    }
}

/// Times at which a host saw the present versions of Leases first, by the name of the Lease. They are of one boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseSightings(BTreeMap<String, LeaseSighting>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LeaseSighting {
    version: String,
    /// Seconds since the kernel started, at the first sight.
    since: u64,
    /// Seconds since the kernel started, at the last sight.
    seen: u64,
}

impl LeaseSightings {
    /// Note the present `leases`, and forget those that are gone.
    pub fn note(&mut self, leases: &[SlotLease], uptime: Duration) {
        let mut earlier = std::mem::take(&mut self.0);
        let now = uptime.as_secs();
        for SlotLease { name, version, duration, .. } in leases {
            // In a longer time without a sight, the holder may not have reached the API server either.
            let gap = renewal_interval(*duration).as_secs();
            let is_continued = |earlier: &LeaseSighting| {
                earlier.version == *version && now.saturating_sub(earlier.seen) <= gap
            };
            let since = earlier.remove(name).filter(is_continued).map_or(now, |earlier| earlier.since);
            self.0.insert(name.clone(), LeaseSighting { version: version.clone(), since, seen: now });
        }
    }

    /// Return true if the Lease was seen unchanged for its whole duration.
    #[must_use]
    pub fn is_expired(&self, lease: &SlotLease, uptime: Duration) -> bool {
        let seen = self.0.get(&lease.name).filter(|seen| seen.version == lease.version);
        seen.is_some_and(|seen| {
            // A second more: the times are whole seconds.
            uptime.as_secs().saturating_sub(seen.since) > lease.duration.as_secs()
        })
    }
}

/// Return the duration of a Lease on a host whose last update took `disruption` seconds from its unlock to its confirmation:
/// it has to outlast the next one, in which the Lease cannot be renewed.
#[must_use]
pub fn lease_duration(disruption: Option<u64>) -> Duration {
    disruption
        .map_or(UNMEASURED, |seconds| Duration::from_secs(seconds.saturating_mul(2)).clamp(SHORTEST, LONGEST))
}

/// Return the time between two renewals of a Lease: two can fail before it expires.
#[must_use]
pub fn renewal_interval(duration: Duration) -> Duration {
    duration / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(name: &str, holder: Option<&str>, version: &str) -> SlotLease {
        let (name, holder, version) = (name.to_owned(), holder.map(str::to_owned), version.to_owned());
        SlotLease { name, holder, version, duration: Duration::from_secs(600) }
    }

    fn step(
        leases: &[SlotLease],
        sightings: &LeaseSightings,
        uptime: u64,
        passed_over: &[&str],
    ) -> LeaseStep {
        let group = LeaseGroup { name: "workers", slots: 2, node: "me" };
        let passed_over = passed_over.iter().map(|name| (*name).to_owned()).collect();
        group.next_step(leases, sightings, Duration::from_secs(uptime), &passed_over)
    }

    #[test]
    fn own_lease_comes_before_a_free_one_and_a_free_one_before_an_expired_one() {
        let mut sightings = LeaseSightings::default();
        let held = lease("workers-0", Some("a"), "1");
        for second in (10..=610).step_by(100) {
            sightings.note(std::slice::from_ref(&held), Duration::from_secs(second));
        }
        assert_eq!(step(&[], &sightings, 10, &[]), LeaseStep::Create("workers-0".into()));
        let held = [held];
        assert_eq!(step(&held, &sightings, 9999, &[]), LeaseStep::Create("workers-1".into()));
        let free = lease("workers-1", None, "2");
        let leases = [held[0].clone(), free.clone()];
        assert_eq!(step(&leases, &sightings, 9999, &[]), LeaseStep::Take(free));
        let own = lease("workers-7", Some("me"), "3");
        let leases = [held[0].clone(), own.clone()];
        assert_eq!(step(&leases, &sightings, 10, &[]), LeaseStep::Renew(own), "of a group that was larger");
        let leases = [held[0].clone(), lease("workers-1", Some("b"), "4")];
        let refused = LeaseStep::Refuse("all 2 slots are held, by a, b".into());
        assert_eq!(step(&leases, &sightings, 610, &[]), refused);
        let over = LeaseStep::TakeOver { lease: leases[0].clone(), holder: "a".into() };
        assert_eq!(step(&leases, &sightings, 611, &[]), over);
        assert_eq!(step(&leases, &sightings, 611, &["workers-0"]), refused, "its holder is down");
    }

    #[test]
    fn lease_expires_only_after_it_was_seen_unchanged_for_its_duration() {
        let mut sightings = LeaseSightings::default();
        let [first, renewed] = ["1", "2"].map(|version| lease("workers-0", Some("a"), version));
        let at = Duration::from_secs;
        assert!(!sightings.is_expired(&first, at(99_999)), "it was never seen");
        for second in (100..=700).step_by(200) {
            sightings.note(std::slice::from_ref(&first), at(second));
        }
        assert!(!sightings.is_expired(&first, at(700)) && sightings.is_expired(&first, at(701)));
        let mut interrupted = sightings.clone();
        interrupted.note(std::slice::from_ref(&first), at(901));
        assert!(
            !interrupted.is_expired(&first, at(1501)),
            "it was not seen for more than a third of its duration"
        );
        assert!(!sightings.is_expired(&renewed, at(701)));
        sightings.note(std::slice::from_ref(&renewed), at(701));
        assert!(!sightings.is_expired(&renewed, at(1301)) && sightings.is_expired(&renewed, at(1302)));
        sightings.note(&[], at(1303));
        assert_eq!(sightings, LeaseSightings::default());
    }

    #[test]
    fn duration_of_a_lease_is_twice_the_measured_disruption() {
        let seconds = |measured| lease_duration(measured).as_secs();
        assert_eq!((seconds(None), seconds(Some(10)), seconds(Some(900))), (1800, 600, 1800));
        assert_eq!(seconds(Some(u64::MAX)), 7200, "a host without power for days holds up no other for days");
    }

    #[test]
    fn refusal_names_some_holders_as_harmless_text() {
        let names: Vec<String> = (0..8).map(|slot| format!("g-{slot}")).collect();
        let leases: Vec<SlotLease> = names.iter().map(|name| lease(name, Some("n\u{1b}[2J"), "1")).collect();
        let refused = refusal(&names, &leases);
        assert!(refused.ends_with("and 3 more") && !refused.contains('\u{1b}'), "{refused}");
    }
}

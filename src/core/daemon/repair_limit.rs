//! Limit of repairs: a path that another program changes again after each repair is left as it is for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::core::values::names::ManagedPath;

/// Most repairs of one path within [`PERIOD`].
const MOST_REPAIRS: usize = 5;
const PERIOD: Duration = Duration::from_secs(3600);

/// Repairs of the last hour. Times are from any fixed point.
#[derive(Debug, Clone, Default)]
pub struct RepairLimit {
    repairs: BTreeMap<ManagedPath, Vec<Duration>>,
}

impl RepairLimit {
    /// Note repairs at `now`.
    pub fn record(&mut self, paths: impl IntoIterator<Item = ManagedPath>, now: Duration) {
        for path in paths {
            self.repairs.entry(path).or_default().push(now);
        }
        self.forget(now);
    }

    /// Return the paths that were repaired too often to be repaired at `now`.
    #[must_use]
    pub fn held_back(&mut self, now: Duration) -> BTreeSet<ManagedPath> {
        self.forget(now);
        self.exhausted().map(|(path, _)| path.clone()).collect()
    }

    /// Return the time at which the first of these paths may be repaired again; `None` if there is none.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        self.exhausted().filter_map(|(_, times)| times.first()).min().map(|first| *first + PERIOD)
    }

    fn exhausted(&self) -> impl Iterator<Item = (&ManagedPath, &Vec<Duration>)> {
        self.repairs.iter().filter(|(_, times)| times.len() >= MOST_REPAIRS)
    }

    /// Forget the repairs that are an hour old at `now`.
    pub fn forget(&mut self, now: Duration) {
        self.repairs.retain(|_, times| {
            times.retain(|time| now.saturating_sub(*time) < PERIOD);
            !times.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn sixth_repair_within_an_hour_is_held_back_until_the_first_is_an_hour_old() {
        let path = || ManagedPath::constant("/etc/a");
        let mut limit = RepairLimit::default();
        for time in [0, 10, 20, 30] {
            limit.record([path(), ManagedPath::constant("/etc/b")], seconds(time));
        }
        assert_eq!((limit.held_back(seconds(35)), limit.due()), (BTreeSet::new(), None));
        limit.record([path()], seconds(40));
        assert_eq!((limit.held_back(seconds(41)), limit.due()), ([path()].into(), Some(seconds(3600))));
        assert_eq!(limit.held_back(seconds(3599)), [path()].into());
        assert_eq!((limit.held_back(seconds(3600)), limit.due()), (BTreeSet::new(), None));
        limit.record([path()], seconds(3605));
        assert_eq!((limit.held_back(seconds(3605)), limit.due()), ([path()].into(), Some(seconds(3610))));
        assert_eq!(limit.held_back(seconds(9000)), BTreeSet::new());
    }
}

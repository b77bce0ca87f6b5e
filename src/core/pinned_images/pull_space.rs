//! Space that pulls may take: as much as leaves the node far from disk pressure.

use std::collections::BTreeMap;

/// Digests of layers, and their compressed sizes in bytes.
pub type LayerSizes = BTreeMap<String, u64>;

/// Smallest reserve in bytes (MCO's value).
const RESERVE: u64 = 16 << 30;
/// Share of the file system that stays free, in percent: below it the kubelet evicts pods and removes images (its
/// default for `imagefs.available`).
const RESERVE_PERCENT: u64 = 15;
/// Size of an unpacked layer in relation to its compressed size (MCO's estimate).
const UNPACKED: u64 = 2;

/// Space of the file system that holds images, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageSpace {
    pub free: u64,
    pub total: u64,
}

impl ImageSpace {
    /// Bytes that pulls leave free.
    #[must_use]
    pub fn reserve(self) -> u64 {
        RESERVE.max(self.total / 100 * RESERVE_PERCENT)
    }

    /// Return true if `needed` bytes fit, and the reserve stays.
    #[must_use]
    pub fn has_room_for(self, needed: u64) -> bool {
        self.free >= self.reserve().saturating_add(needed)
    }
}

/// Bytes that layers take once they are unpacked, as an estimate. Images share layers, which are unpacked once.
#[must_use]
pub fn unpacked_bytes(layers: &LayerSizes) -> u64 {
    layers.values().fold(0_u64, |sum, size| sum.saturating_add(size.saturating_mul(UNPACKED)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIBIBYTE: u64 = 1 << 30;

    #[test]
    fn reserve_is_that_of_mco_or_the_share_at_which_the_kubelet_evicts() {
        let space = |free, total| ImageSpace { free: free * GIBIBYTE, total: total * GIBIBYTE };
        assert!(space(17, 100).has_room_for(GIBIBYTE));
        assert!(!space(17, 100).has_room_for(GIBIBYTE + 1));
        assert!(!space(149, 1000).has_room_for(0));
        assert!(space(151, 1000).has_room_for(GIBIBYTE));
        assert!(!space(u64::MAX / GIBIBYTE, 1000).has_room_for(u64::MAX));
    }

    #[test]
    fn huge_layers_do_not_overflow() {
        let layers = [("a".to_owned(), u64::MAX), ("b".to_owned(), 1)].into();
        assert_eq!(unpacked_bytes(&layers), u64::MAX);
        assert_eq!(unpacked_bytes(&[("a".to_owned(), 3), ("b".to_owned(), 4)].into()), 14);
    }
}

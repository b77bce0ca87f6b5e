//! The part of a fragment that is about health.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use serde::Deserialize;

use crate::core::enablement::UnitName;
use crate::core::state::health::{GoingBack, HealthPolicy};

/// What it does not mention, it does not change. Times are in seconds.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct HealthFragment {
    probation: Option<NonZeroU32>,
    steady: Option<u32>,
    boots: Option<NonZeroU16>,
    go_back: Option<GoingBack>,
    required_units: Option<Vec<UnitName>>,
    check_timeout: Option<NonZeroU32>,
    kubelet_port: Option<u16>,
}

impl HealthFragment {
    pub(crate) fn overlay(self, policy: &mut HealthPolicy) {
        let seconds = |number: u32| Duration::from_secs(number.into());
        policy.probation = self.probation.map_or(policy.probation, |number| seconds(number.get()));
        policy.steady = self.steady.map_or(policy.steady, seconds);
        policy.boots = self.boots.map_or(policy.boots, |number| number.get().into());
        policy.go_back = self.go_back.unwrap_or(policy.go_back);
        if let Some(units) = self.required_units {
            policy.required_units = units;
        }
        policy.check_timeout =
            self.check_timeout.map_or(policy.check_timeout, |number| seconds(number.get()));
        policy.kubelet_port = self.kubelet_port.unwrap_or(policy.kubelet_port);
    }
}

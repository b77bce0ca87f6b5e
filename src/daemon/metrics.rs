//! Prometheus metrics: `mcd_*`, which MCO's alerts query, and `flameholder_*`.
//!
//! Label values are of fixed lists, except config names. A family is cleared before its next series is set,
//! so that each exports one series.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::core::daemon::lifecycle::{DaemonPhase, Lifecycle};
use crate::core::daemon::node::annotations;
use crate::host::Root;
use crate::host::facts::os_release;

type Seconds = Gauge<f64, AtomicU64>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Node {
    node: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Os {
    os: String,
    version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: String,
    /// Problem class; the text of the error is in the Node's annotation.
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Update {
    config: String,
    err: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InPhase {
    phase: PhaseName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PhaseName(&'static str);

impl EncodeLabelValue for PhaseName {
    fn encode(
        &self,
        encoder: &mut prometheus_client::encoding::LabelValueEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        self.0.encode(encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
}

#[derive(Debug)]
pub(super) struct DaemonMetrics {
    registry: Registry,
    state: Family<State, Seconds>,
    update_state: Family<Update, Seconds>,
    drift: Seconds,
    os_errors: Gauge,
    reboots_failed: Counter,
    kubelet: Gauge,
    unsupported_packages: Gauge,
    phase: Family<InPhase, Gauge>,
    since: Seconds,
    failures: Gauge,
    source_error: Gauge,
}

impl DaemonMetrics {
    /// Register the metrics with the labels of the running host.
    pub(super) fn of_this_host(node: &str) -> Self {
        let release = Root::open(Path::new("/")).map(|root| os_release::read(&root)).unwrap_or_default();
        Self::new(node, release.id(), release.version())
    }

    fn new(node: &str, os: &str, version: &str) -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            state: Family::default(),
            update_state: Family::default(),
            drift: Seconds::default(),
            os_errors: Gauge::default(),
            reboots_failed: Counter::default(),
            kubelet: Gauge::default(),
            unsupported_packages: Gauge::default(),
            phase: Family::default(),
            since: Seconds::default(),
            failures: Gauge::default(),
            source_error: Gauge::default(),
        };
        let node = Node { node: node.to_owned() };
        let packages = Family::<Node, Gauge>::default();
        metrics.unsupported_packages = packages.get_or_create_owned(&node);
        metrics.registry.register(
            "mcd_local_unsupported_packages",
            "Layered packages and overrides that are neither extensions nor a kernel of the config",
            packages,
        );
        metrics.register(os, version);
        metrics
    }

    fn register(&mut self, os: &str, version: &str) {
        let registry = &mut self.registry;
        let host = Family::<Os, Gauge>::default();
        host.get_or_create(&Os { os: os.to_uppercase(), version: version.to_owned() }).set(1);
        registry.register("mcd_host_os_and_version", "ID and version of the host's operating system", host);
        registry.register(
            "mcd_state",
            "Start of the node's state, in seconds since the epoch",
            self.state.clone(),
        );
        registry.register(
            "mcd_update_state",
            "End of the last update, in seconds since the epoch, with the class of its error",
            self.update_state.clone(),
        );
        registry.register(
            "mcd_config_drift",
            "Start of the config drift, in seconds since the epoch; 0 without drift",
            self.drift.clone(),
        );
        registry.register(
            "mcd_pivot_errors_total",
            "Failed operating system updates since the last successful one",
            self.os_errors.clone(),
        );
        // The library adds `_total`.
        registry.register("mcd_reboots_failed", "Reboot requests that failed", self.reboots_failed.clone());
        registry.register(
            "mcd_kubelet_state",
            "Consecutive failures of the kubelet's health check",
            self.kubelet.clone(),
        );
        registry.register("flameholder_phase", "1 for the current phase of the daemon", self.phase.clone());
        registry.register(
            "flameholder_phase_start_timestamp_seconds",
            "Start of the current phase, in seconds since the epoch",
            self.since.clone(),
        );
        registry.register("flameholder_failures", "Consecutive failed attempts", self.failures.clone());
        registry.register(
            "flameholder_source_error",
            "1 if the source of the desired config reports an error",
            self.source_error.clone(),
        );
        let build = Family::<Build, Gauge>::default();
        build.get_or_create(&Build { version: env!("CARGO_PKG_VERSION") }).set(1);
        registry.register("flameholder_build_info", "Version of flameholder", build);
    }

    /// Set the number of layered packages and overrides that no config asked for.
    pub(super) fn set_unsupported_packages(&self, number: usize) {
        self.unsupported_packages.set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Update the metrics for a step of the state machine.
    pub(super) fn record_step(&self, before: &Lifecycle, after: &Lifecycle) {
        self.failures.set(i64::from(after.failures));
        if before.phase.name() == after.phase.name() {
            return;
        }
        self.phase.clear();
        self.phase.get_or_create(&InPhase { phase: PhaseName(after.phase.name()) }).set(1);
        let now = now();
        self.since.set(now);
        self.set_state(after, now);
        match (&before.phase, &after.phase) {
            (_, DaemonPhase::Drifted { .. }) => drop(self.drift.set(now)),
            (_, DaemonPhase::Done) => {
                self.drift.set(0.0);
                self.os_errors.set(0);
            }
            (
                DaemonPhase::Preparing { .. } | DaemonPhase::Unlocking { .. },
                DaemonPhase::BackingOff { .. },
            ) => {
                self.os_errors.inc();
            }
            (DaemonPhase::Rebooting { .. }, DaemonPhase::BackingOff { .. }) => {
                self.reboots_failed.inc();
            }
            _ => {}
        }
    }

    fn set_state(&self, after: &Lifecycle, now: f64) {
        let trouble = annotations::degraded_state(after).map(|(state, _)| state);
        let class = match &after.phase {
            DaemonPhase::BackingOff { problem } => problem.class.as_str(),
            DaemonPhase::RollingBack { .. } => "rollback",
            DaemonPhase::Drifted { .. } => "drift",
            DaemonPhase::Blocked { .. } => "blocked",
            _ => "",
        };
        let state = match (&after.phase, trouble) {
            (DaemonPhase::Done, _) => "Done",
            (_, Some(state)) => state,
            (_, None) if after.phase.target().is_some() => "Working",
            (_, None) => return,
        };
        let labels = State { state: state.to_owned(), reason: class.to_owned() };
        self.state.clear();
        self.state.get_or_create(&labels).set(now);
        let config = after.desired.as_ref().map(|desired| desired.config.to_string()).unwrap_or_default();
        if state != "Working" {
            self.update_state.clear();
            self.update_state.get_or_create(&Update { config, err: class.to_owned() }).set(now);
        }
    }

    /// Set or clear the error of the source.
    pub(super) fn set_source_error(&self, is_there: bool) {
        self.source_error.set(i64::from(is_there));
    }

    /// Count the result of a kubelet health check.
    pub(super) fn record_kubelet(&self, is_well: bool) {
        if is_well {
            self.kubelet.set(0);
        } else {
            self.kubelet.inc();
        }
    }

    /// Encode all metrics as OpenMetrics text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing into a string does not fail");
        text
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

//! Metrics with MCD's names and labels. A family is cleared before its next series is set, so that each exports
//! one series.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use super::Labelled;
use super::own::{SecondsGauge, now};
use crate::core::daemon::lifecycle::{ConfigRef, DaemonEvent, DaemonPhase, Lifecycle};
use crate::core::daemon::node::node_state;
use crate::core::values::os_release::OsRelease;
use crate::daemon::jobs::work_result::WorkResult;

#[derive(Debug, Default)]
pub(super) struct McdMetrics {
    state: Labelled<2, SecondsGauge>,
    /// State in `state`.
    published: Mutex<&'static str>,
    update_state: Labelled<2, SecondsGauge>,
    drift: SecondsGauge,
    os_errors: Gauge,
    reboots_failed: Counter,
    missing_config: Labelled<1, Gauge>,
    kubelet: KubeletState,
    unsupported_packages: Gauge,
}

impl McdMetrics {
    pub(super) fn register(registry: &mut Registry, node: &str, release: &OsRelease) -> Self {
        let packages = Labelled::<1, Gauge>::default();
        let metrics = Self {
            unsupported_packages: packages.get_or_create_owned(&[("node", node.to_owned())]),
            ..Self::default()
        };
        let host = Labelled::<2, Gauge>::default();
        let labels = [("os", release.id().to_uppercase()), ("version", release.version().to_owned())];
        host.get_or_create(&labels).set(1);
        registry.register("mcd_host_os_and_version", "ID and version of the host's operating system", host);
        registry.register(
            "mcd_state",
            "Start of the node's state, in seconds since the epoch",
            metrics.state.clone(),
        );
        registry.register(
            "mcd_update_state",
            "End of the last update, in seconds since the epoch, with the class of its error",
            metrics.update_state.clone(),
        );
        registry.register(
            "mcd_config_drift",
            "Start of the config drift, in seconds since the epoch; 0 without drift",
            metrics.drift.clone(),
        );
        registry.register(
            "mcd_pivot_errors_total",
            "Failed operating system updates since the last successful one",
            metrics.os_errors.clone(),
        );
        // The library adds `_total`.
        registry.register(
            "mcd_reboots_failed",
            "Reboot requests that failed",
            metrics.reboots_failed.clone(),
        );
        registry.register(
            "mcd_missing_mc",
            "Failures in a row to fetch the desired config because the cluster does not have it",
            metrics.missing_config.clone(),
        );
        registry.register(
            "mcd_local_unsupported_packages",
            "Layered packages and overrides that are neither extensions nor a kernel of the config",
            packages,
        );
        registry.register_collector(Box::new(metrics.kubelet.clone()));
        metrics
    }

    pub(super) fn record_work(&self, result: &WorkResult) {
        if let Some(facts) = &result.findings.facts {
            self.unsupported_packages.set(i64::try_from(facts.unsupported_packages).unwrap_or(i64::MAX));
        }
        if result.findings.is_os_failure {
            self.os_errors.inc();
        } else if matches!(result.event, DaemonEvent::Prepared(_) | DaemonEvent::PreparedUnderPolicy(_)) {
            self.os_errors.set(0);
        }
    }

    pub(super) fn record_step(&self, before: &Lifecycle, after: &Lifecycle) {
        if before.desired != after.desired {
            self.missing_config.clear();
        }
        let now = now();
        if before.phase != after.phase || before.trust_failure != after.trust_failure {
            self.set_state(after, now);
        }
        if before.phase.name() == after.phase.name() {
            return;
        }
        match (&before.phase, &after.phase) {
            (_, DaemonPhase::Drifted { .. }) => drop(self.drift.set(now)),
            (_, DaemonPhase::Done) => drop(self.drift.set(0.0)),
            (DaemonPhase::Rebooting { .. }, DaemonPhase::BackingOff { .. }) => {
                self.reboots_failed.inc();
            }
            _ => {}
        }
        if after.phase == DaemonPhase::Done {
            self.os_errors.set(0);
        }
    }

    /// Set the state of the Node's annotation: an error lasts until the node is `Done`.
    fn set_state(&self, after: &Lifecycle, now: f64) {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((state, _)) = node_state::node_state(after, &published) else { return };
        *published = state;
        let class = class(&after.phase);
        let labels = [("state", state.to_owned()), ("reason", class.to_owned())];
        self.state.clear();
        self.state.get_or_create(&labels).set(now);
        if state != "Working" {
            let config = after.desired.as_ref().map(|desired| desired.config.to_string());
            let labels = [("config", config.unwrap_or_default()), ("err", class.to_owned())];
            self.update_state.clear();
            self.update_state.get_or_create(&labels).set(now);
        }
    }

    pub(super) fn record_missing_config(&self, config: Option<&ConfigRef>) {
        match config {
            Some(config) => {
                self.missing_config.get_or_create(&[("mc", config.config.to_string())]).inc();
            }
            None => self.missing_config.clear(),
        }
    }

    pub(super) fn record_kubelet(&self, is_well: Option<bool>) {
        self.kubelet.record(is_well);
    }
}

/// Class of the error that the phase reports. The text of the error is in the Node's annotation.
fn class(phase: &DaemonPhase) -> &'static str {
    match phase {
        DaemonPhase::BackingOff { problem } => problem.class.as_str(),
        DaemonPhase::RollingBack { .. } => "rollback",
        DaemonPhase::Drifted { .. } => "drift",
        DaemonPhase::Blocked { .. } => "blocked",
        _ => "",
    }
}

/// `mcd_kubelet_state`: failed checks in a row. Absent, and negative here, while the kubelet is not checked.
#[derive(Debug, Clone)]
struct KubeletState(Arc<AtomicI64>);

impl Default for KubeletState {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(Self::ABSENT)))
    }
}

impl KubeletState {
    const ABSENT: i64 = -1;

    fn record(&self, is_well: Option<bool>) {
        let failures = match is_well {
            None => Self::ABSENT,
            Some(true) => 0,
            Some(false) => self.0.load(Ordering::Relaxed).max(0).saturating_add(1),
        };
        self.0.store(failures, Ordering::Relaxed);
    }
}

impl Collector for KubeletState {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let failures = self.0.load(Ordering::Relaxed);
        if failures == Self::ABSENT {
            return Ok(());
        }
        let help = "Failed health checks of the kubelet in a row";
        let metric = encoder.encode_descriptor("mcd_kubelet_state", help, None, MetricType::Gauge)?;
        ConstGauge::new(failures).encode(metric)
    }
}

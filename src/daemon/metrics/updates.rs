//! Metrics of updates: fetched images, boot checks, results.

use std::sync::atomic::{AtomicBool, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Labelled;
use super::own::{SecondsGauge, now};
use crate::core::daemon::lifecycle::{BootCheckState, DaemonEvent, DaemonPhase, Lifecycle};
use crate::daemon::jobs::work_result::WorkResult;

#[derive(Debug, Default)]
pub(super) struct UpdateMetrics {
    boot_check: Labelled<1, Gauge>,
    /// One series, absent unless a boot check runs.
    deadline: Labelled<0, SecondsGauge>,
    /// True if the boot check ran when the host was last observed.
    is_checked: AtomicBool,
    image_bytes: Counter,
    updates: Labelled<2, Counter>,
    ended: Labelled<2, SecondsGauge>,
}

impl UpdateMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "flameholder_boot_check",
            "Last result of each health check of the boot check in this boot: 1 if it passed",
            metrics.boot_check.clone(),
        );
        registry.register(
            "flameholder_boot_check_deadline_timestamp_seconds",
            "End of the running boot check at the latest, in seconds since the epoch",
            metrics.deadline.clone(),
        );
        registry.register(
            "flameholder_image_fetched_bytes",
            "Bytes of OS images that were fetched, compressed",
            metrics.image_bytes.clone(),
        );
        registry.register(
            "flameholder_updates",
            "Live updates, and staged updates whose boot check ended while the daemon ran",
            metrics.updates.clone(),
        );
        registry.register(
            "flameholder_last_update_timestamp_seconds",
            "End of the last such update, in seconds since the epoch",
            metrics.ended.clone(),
        );
        metrics
    }

    pub(super) fn record_step(&self, before: &Lifecycle, after: &Lifecycle) {
        match (&before.phase, &after.phase) {
            (DaemonPhase::Applying { .. }, DaemonPhase::Verifying) => self.end("live", "success"),
            (DaemonPhase::Applying { .. }, DaemonPhase::BackingOff { .. }) => self.end("live", "failure"),
            _ => {}
        }
    }

    pub(super) fn record_work(&self, WorkResult { event, findings, .. }: &WorkResult) {
        self.image_bytes.inc_by(findings.image_bytes);
        if !findings.boot_check.is_empty() {
            self.boot_check.clear();
        }
        for check in &findings.boot_check {
            self.boot_check.get_or_create(&[("check", check.check.clone())]).set(i64::from(check.ok));
        }
        if let DaemonEvent::Observed(observation) = event {
            self.record_boot_check(&observation.boot_check, findings.boot_check_left);
        }
    }

    fn record_boot_check(&self, state: &BootCheckState, seconds_left: Option<u64>) {
        self.deadline.clear();
        if let Some(left) = seconds_left.and_then(|left| u32::try_from(left).ok()) {
            self.deadline.get_or_create(&[]).set((now() + f64::from(left)).round());
        }
        let is_running = matches!(state, BootCheckState::Unconfirmed { .. });
        if !self.is_checked.swap(is_running, Ordering::Relaxed) {
            return;
        }
        match state {
            BootCheckState::Unconfirmed { .. } => {}
            BootCheckState::Confirmed => self.end("staged", "success"),
            BootCheckState::RollingBack { .. } | BootCheckState::Unhealthy { .. } => {
                self.end("staged", "failure");
            }
        }
    }

    fn end(&self, kind: &str, result: &str) {
        let labels = [("kind", kind.to_owned()), ("result", result.to_owned())];
        self.updates.get_or_create(&labels).inc();
        self.ended.get_or_create(&labels).set(now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::daemon::lifecycle::HostObservation;
    use crate::daemon::jobs::work_result::JobFindings;
    use crate::daemon::metrics::TextFormat;

    fn observe(metrics: &UpdateMetrics, boot_check: BootCheckState, boot_check_left: Option<u64>) {
        let event = DaemonEvent::Observed(HostObservation { boot_check, ..HostObservation::default() });
        let findings = JobFindings { boot_check_left, ..JobFindings::default() };
        metrics.record_work(&WorkResult { findings, ..WorkResult::of(event) });
    }

    fn series(registry: &Registry, name: &str) -> Vec<String> {
        let text = TextFormat::Classic.encode(registry);
        text.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
    }

    #[test]
    fn boot_check_has_a_deadline_while_it_runs_and_counts_as_an_update_when_it_ends() {
        let mut registry = Registry::default();
        let metrics = UpdateMetrics::register(&mut registry);
        let running = || BootCheckState::Unconfirmed { failed_checks: None };
        let deadline = "flameholder_boot_check_deadline_timestamp_seconds";
        let updates = "flameholder_updates_total{";

        observe(&metrics, BootCheckState::Confirmed, None);
        assert_eq!(series(&registry, updates), [""; 0], "no boot check was observed");
        observe(&metrics, running(), Some(600));
        observe(&metrics, running(), Some(300));
        let [line] = &series(&registry, deadline)[..] else { panic!("one series") };
        let time: f64 = line.split_once(' ').unwrap().1.parse().unwrap();
        assert!((now() + 290.0..now() + 310.0).contains(&time), "{line}");
        observe(&metrics, BootCheckState::Confirmed, None);
        assert_eq!(series(&registry, deadline), [""; 0]);
        assert_eq!(series(&registry, updates), [format!("{updates}kind=\"staged\",result=\"success\"}} 1")]);

        observe(&metrics, running(), None);
        observe(&metrics, BootCheckState::RollingBack { reason: "unhealthy".to_owned() }, None);
        observe(&metrics, BootCheckState::RollingBack { reason: "unhealthy".to_owned() }, None);
        let mut found = series(&registry, updates);
        found.sort();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], format!("{updates}kind=\"staged\",result=\"failure\"}} 1"));
    }
}

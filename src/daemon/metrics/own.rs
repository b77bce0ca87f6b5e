//! Metrics with names of flameholder's own: phases, attempts, configs, generations and drift.

use std::env::consts::ARCH;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Labelled;
use crate::core::daemon::lifecycle::{ConfigRef, DaemonPhase, Lifecycle};
use crate::core::daemon::message_ids;
use crate::core::pinned_images::pin_state::PinState;
use crate::core::values::image::boot_image::BootImage;
use crate::daemon::jobs::generation_figures::GenerationFigures;
use crate::daemon::jobs::work_result::{ComparisonFigures, JobFindings};
use crate::https::TLS_LIBRARY;
use crate::transaction::plan::host_origin::HostOrigin;

/// Gauge in seconds, with fractions.
pub(super) type SecondsGauge = Gauge<f64, AtomicU64>;

/// Now, in seconds since 1970.
pub(super) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[derive(Debug, Default)]
pub(super) struct OwnMetrics {
    phase: Labelled<1, Gauge>,
    since: SecondsGauge,
    /// Start of the phase by the clock that is never set.
    began: Mutex<Option<Instant>>,
    time_in_phase: Labelled<1, Counter<f64, AtomicU64>>,
    failures: Gauge,
    attempts: Labelled<2, Counter>,
    source_up: Gauge,
    config: Labelled<2, Gauge>,
    generation: Labelled<4, Gauge>,
    blocked: Labelled<1, Gauge>,
    drift_paths: Labelled<1, Gauge>,
    repairs: Counter,
    boot_image: Labelled<2, Gauge>,
    irreconcilable: Gauge,
    pinned_images: Labelled<1, Gauge>,
    verified: SecondsGauge,
}

impl OwnMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        metrics.source_up.set(1);
        let build = Labelled::<3, Gauge>::default();
        let labels = [("version", env!("CARGO_PKG_VERSION")), ("tls", TLS_LIBRARY), ("architecture", ARCH)];
        build.get_or_create(&labels.map(|(name, value)| (name, value.to_owned()))).set(1);
        registry.register("flameholder_build_info", "Version of flameholder", build);
        metrics.register_phases(registry);
        metrics.register_state(registry);
        metrics
    }

    fn register_phases(&self, registry: &mut Registry) {
        registry.register(
            "flameholder_phase",
            "1 for the present phase of the daemon, 0 for each other phase",
            self.phase.clone(),
        );
        registry.register(
            "flameholder_phase_start_timestamp_seconds",
            "Start of the present phase, in seconds since the epoch",
            self.since.clone(),
        );
        registry.register(
            "flameholder_phase_seconds",
            "Time spent in phases that have ended",
            self.time_in_phase.clone(),
        );
        registry.register(
            "flameholder_consecutive_failures",
            "Failed attempts in a row to reach the desired config",
            self.failures.clone(),
        );
        registry.register(
            "flameholder_attempts",
            "Attempts to reach the desired config that failed, or that applied it or began the reboot into it",
            self.attempts.clone(),
        );
        registry.register(
            "flameholder_source_up",
            "1 if the source of the desired config can be read",
            self.source_up.clone(),
        );
    }

    fn register_state(&self, registry: &mut Registry) {
        registry.register("flameholder_config_info", "Current and desired config", self.config.clone());
        registry.register(
            "flameholder_generation_info",
            "Generations of the staged deployment, of the booted one and of those for rollback",
            self.generation.clone(),
        );
        registry.register("flameholder_blocked", "1 for the blocked target", self.blocked.clone());
        registry.register(
            "flameholder_drift_paths",
            "Paths with drift at the last verification, by drift policy",
            self.drift_paths.clone(),
        );
        registry.register("flameholder_repairs", "Paths whose drift was repaired", self.repairs.clone());
        registry.register(
            "flameholder_boot_image_info",
            "Image that the host was installed from",
            self.boot_image.clone(),
        );
        registry.register(
            "flameholder_irreconcilable_changes",
            "Changes of the config since the first boot that only an installation applies",
            self.irreconcilable.clone(),
        );
        registry.register(
            "flameholder_pinned_images",
            "Images of the node's pinned image sets, by whether they are on the node",
            self.pinned_images.clone(),
        );
        registry.register(
            "flameholder_last_verify_timestamp_seconds",
            "Last verification, in seconds since the epoch",
            self.verified.clone(),
        );
    }

    pub(super) fn record_step(&self, before: &Lifecycle, after: &Lifecycle) {
        self.failures.set(i64::from(after.failures));
        self.set_configs(after);
        self.set_pins(after.pins.as_ref());
        if before.phase.name() != after.phase.name() {
            self.enter(&before.phase, &after.phase);
        }
        let labels = match (&before.phase, &after.phase) {
            (
                DaemonPhase::Fetching { .. }
                | DaemonPhase::Preparing { .. }
                | DaemonPhase::AwaitingGrant { .. }
                | DaemonPhase::Applying { .. }
                | DaemonPhase::Unlocking { .. }
                | DaemonPhase::Rebooting { .. },
                DaemonPhase::BackingOff { problem },
            ) => ["failure", problem.class.as_str()],
            (DaemonPhase::Applying { .. }, DaemonPhase::Verifying)
            | (DaemonPhase::Rebooting { .. }, DaemonPhase::ShuttingDown { .. }) => ["success", ""],
            _ => return,
        };
        let [result, class] = labels.map(str::to_owned);
        self.attempts.get_or_create(&[("result", result), ("class", class)]).inc();
    }

    fn enter(&self, before: &DaemonPhase, after: &DaemonPhase) {
        // The first is no phase.
        for (name, _) in message_ids::ALL.iter().skip(1) {
            let is_present = *name == after.name();
            self.phase.get_or_create(&[("phase", (*name).to_owned())]).set(i64::from(is_present));
        }
        self.since.set(now());
        let began = self.began.lock().map_or(None, |mut began| began.replace(Instant::now()));
        if let Some(began) = began {
            let time = self.time_in_phase.get_or_create(&[("phase", before.name().to_owned())]);
            time.inc_by(began.elapsed().as_secs_f64());
        }
    }

    fn set_pins(&self, pins: Option<&PinState>) {
        self.pinned_images.clear();
        let Some(pins) = pins else { return };
        for (state, number) in
            [("present", pins.present), ("missing", pins.images.saturating_sub(pins.present))]
        {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            self.pinned_images.get_or_create(&[("state", state.to_owned())]).set(number);
        }
    }

    fn set_configs(&self, after: &Lifecycle) {
        let name = |config: Option<&ConfigRef>| config.map(|config| config.config.to_string());
        self.config.clear();
        for (which, config) in [("desired", after.desired.as_ref()), ("current", after.current.as_ref())] {
            if let Some(config) = name(config) {
                self.config.get_or_create(&[("which", which.to_owned()), ("config", config)]).set(1);
            }
        }
        self.blocked.clear();
        if let Some(config) = name(after.blocked.as_ref().map(|blocked| &blocked.desired)) {
            self.blocked.get_or_create(&[("config", config)]).set(1);
        }
    }

    pub(super) fn record_work(&self, findings: &JobFindings) {
        if let Some(staged) = &findings.staged {
            self.set_generation(staged);
        }
        if let Some(figures) = &findings.comparison {
            self.record_comparison(figures);
        }
        let Some(facts) = &findings.facts else { return };
        self.generation.clear();
        facts.generations.iter().for_each(|figures| self.set_generation(figures));
        self.set_origin(&facts.origin);
    }

    fn set_origin(&self, origin: &HostOrigin) {
        let BootImage { version, digest, .. } = origin.boot_image.clone().unwrap_or_default();
        let labels = [("version", version), ("digest", digest)];
        self.boot_image.clear();
        self.boot_image.get_or_create(&labels.map(|(name, value)| (name, value.unwrap_or_default()))).set(1);
        self.irreconcilable.set(i64::try_from(origin.irreconcilable_changes.len()).unwrap_or(i64::MAX));
    }

    fn set_generation(&self, figures: &GenerationFigures) {
        let labels = [
            ("generation", figures.generation.to_string()),
            ("config", figures.config.to_string()),
            ("image_digest", figures.image_digest.clone().unwrap_or_default()),
            ("state", figures.state.as_str().to_owned()),
        ];
        self.generation.get_or_create(&labels).set(1);
    }

    fn record_comparison(&self, figures: &ComparisonFigures) {
        self.verified.set(now());
        self.repairs.inc_by(u64::try_from(figures.repaired.len()).unwrap_or(u64::MAX));
        for (policy, number) in &figures.drift_paths {
            let number = i64::try_from(*number).unwrap_or(i64::MAX);
            self.drift_paths.get_or_create(&[("policy", policy.as_str().to_owned())]).set(number);
        }
    }

    pub(super) fn set_source_error(&self, is_there: bool) {
        self.source_up.set(i64::from(!is_there));
    }
}

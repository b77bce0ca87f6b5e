//! Prometheus metrics: `mcd_*`, which MCO's alerts query, and `flameholder_*`.
//!
//! Label values are of fixed lists, except the names of configs, generations and health checks of this host.

mod exposition;
mod host;
mod mcd;
mod own;
mod updates;

use std::path::Path;

pub(super) use exposition::TextFormat;
use mcd::McdMetrics;
use own::OwnMetrics;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use updates::UpdateMetrics;

use crate::cluster::RequestCounts;
use crate::core::daemon::lifecycle::{ConfigRef, Lifecycle};
use crate::daemon::jobs::work_result::WorkResult;
use crate::host::Root;
use crate::host::facts::os_release;

/// Family whose series have these labels, in this order.
type Labelled<const N: usize, M> = Family<[(&'static str, String); N], M>;

#[derive(Debug)]
pub(super) struct DaemonMetrics {
    registry: Registry,
    mcd: McdMetrics,
    own: OwnMetrics,
    updates: UpdateMetrics,
}

impl DaemonMetrics {
    /// Register the metrics with the labels of the running host, and those of its requests to a cluster.
    pub(super) fn of_this_host(node: &str, requests: Option<RequestCounts>) -> Self {
        let release = Root::open(Path::new("/")).map(|root| os_release::read(&root)).unwrap_or_default();
        let mut registry = Registry::default();
        let mcd = McdMetrics::register(&mut registry, node, &release);
        let own = OwnMetrics::register(&mut registry);
        let updates = UpdateMetrics::register(&mut registry);
        host::register(&mut registry, requests);
        Self { registry, mcd, own, updates }
    }

    /// Update the metrics for a step of the state machine.
    pub(super) fn record_step(&self, before: &Lifecycle, after: &Lifecycle) {
        self.mcd.record_step(before, after);
        self.own.record_step(before, after);
        self.updates.record_step(before, after);
    }

    /// Update the metrics for the result of a job.
    pub(super) fn record_work(&self, result: &WorkResult) {
        self.mcd.record_work(result);
        self.own.record_work(&result.findings);
        self.updates.record_work(result);
    }

    /// Count a config that the source does not have; `None` ends the count.
    pub(super) fn record_missing_config(&self, config: Option<&ConfigRef>) {
        self.mcd.record_missing_config(config);
    }

    /// Set or clear the error of the source.
    pub(super) fn set_source_error(&self, is_there: bool) {
        self.own.set_source_error(is_there);
    }

    /// Count the result of a kubelet health check; `None` while there are no checks.
    pub(super) fn record_kubelet(&self, is_well: Option<bool>) {
        self.mcd.record_kubelet(is_well);
    }

    /// Encode all metrics.
    pub(super) fn text(&self, format: TextFormat) -> String {
        format.encode(&self.registry)
    }
}

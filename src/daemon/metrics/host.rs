//! Metrics that are measured at each scrape: the daemon's process, free space, requests to the API server.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::cluster::RequestCounts;
use crate::host::own_process::ProcessUsage;
use crate::transaction::update::space::free_space;

#[derive(Debug)]
struct HostCollector(Option<RequestCounts>);

pub(super) fn register(registry: &mut Registry, requests: Option<RequestCounts>) {
    registry.register_collector(Box::new(HostCollector(requests)));
}

impl Collector for HostCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let help = "Free space for updates, in bytes";
        let mut free = encoder.encode_descriptor("flameholder_free_bytes", help, None, MetricType::Gauge)?;
        for space in free_space() {
            let value = ConstGauge::new(i64::try_from(space.free).unwrap_or(i64::MAX));
            value.encode(free.encode_family(&[("mount", space.place)])?)?;
        }
        if let Some(counts) = &self.0 {
            let help = "Responses of the API server by status, `<error>` for none";
            let name = "flameholder_api_requests";
            let mut requests = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (code, count) in counts.counted() {
                ConstCounter::new(count).encode(requests.encode_family(&[("code", code)])?)?;
            }
        }
        match ProcessUsage::measure() {
            Some(usage) => encode_usage(&usage, &mut encoder),
            None => Ok(()),
        }
    }
}

/// Encode with the names that client libraries of Prometheus use.
fn encode_usage(usage: &ProcessUsage, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
    let help = "CPU time of the daemon's process, in seconds";
    let metric = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
    ConstCounter::new(usage.cpu_seconds).encode(metric)?;
    let gauges = [
        (
            "process_start_time_seconds",
            "Start of the daemon's process, in seconds since the epoch",
            usage.start_time,
        ),
        (
            "process_resident_memory_bytes",
            "Resident memory of the daemon's process, in bytes",
            usage.resident_bytes,
        ),
        ("process_open_fds", "Open file descriptors of the daemon's process", usage.open_files),
    ];
    for (name, help, value) in gauges {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(metric)?;
    }
    Ok(())
}

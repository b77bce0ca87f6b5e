//! Figures of the API server, from its own metrics and from its process.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use tokio::time::sleep;

/// Attempts to read the metrics after a failed one, and the time between them.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_secs(1);

/// Figures at one moment. Sums since the server started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ServerFigures {
    /// Requests that were answered, and watches that began.
    pub(crate) requests: f64,
    /// Watches that are open.
    pub(crate) watches: f64,
    /// Events that watches have sent.
    pub(crate) watch_events: f64,
    /// Size of these events, in bytes.
    pub(crate) watch_bytes: f64,
}

impl ServerFigures {
    /// Read the figures from the server.
    pub(crate) async fn read(client: &Client) -> Result<Self> {
        let mut attempts = 0;
        loop {
            let request = http::Request::get("/metrics").body(Vec::new())?;
            match client.request_text(request).await {
                Ok(text) => return Ok(Self::parse(&text)),
                // A server under load ends connections that it takes for idle.
                Err(_) if attempts < ATTEMPTS => attempts += 1,
                Err(error) => return Err(error).context("reading the metrics of the API server"),
            }
            sleep(PAUSE).await;
        }
    }

    fn parse(text: &str) -> Self {
        let sum = |name: &str, label: &str| {
            let samples = text.lines().filter(|line| {
                line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
                    && line.contains(label)
            });
            samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
        };
        Self {
            requests: sum("apiserver_request_total", ""),
            watches: sum("apiserver_longrunning_requests", "verb=\"WATCH\""),
            watch_events: sum("apiserver_watch_events_total", ""),
            watch_bytes: sum("apiserver_watch_events_sizes_sum", ""),
        }
    }

    /// Return the increase since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            watches: self.watches,
            watch_events: self.watch_events - before.watch_events,
            watch_bytes: self.watch_bytes - before.watch_bytes,
        }
    }
}

/// Resident memory of a process in MiB.
pub(crate) fn resident_memory(process: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("the kernel tells no VmRSS")?;
    let kibibytes: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kibibytes / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_summed_over_their_labels() {
        let text = "\
# HELP apiserver_request_total text
apiserver_request_total{code=\"200\",verb=\"GET\"} 4
apiserver_request_total{code=\"201\",verb=\"POST\"} 2
apiserver_request_total_other{code=\"201\"} 9
apiserver_longrunning_requests{verb=\"WATCH\"} 3
apiserver_longrunning_requests{verb=\"CONNECT\"} 1
apiserver_watch_events_total{resource=\"nodes\"} 7
apiserver_watch_events_sizes_sum{resource=\"nodes\"} 1.5e+03
";
        let figures = ServerFigures::parse(text);
        let expected = ServerFigures { requests: 6.0, watches: 3.0, watch_events: 7.0, watch_bytes: 1500.0 };
        assert_eq!(figures, expected);
    }
}

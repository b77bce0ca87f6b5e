//! Samples of the kubelet's health, for the metric. They are taken at a fixed interval while the metrics are read:
//! neither the number of scrapers nor their interval changes the count.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::core::values::causes::chain;
use crate::daemon::metrics::DaemonMetrics;
use crate::daemon::timers;
use crate::host::Root;
use crate::host::facts::healthz;
use crate::host::systemd::system_status;
use crate::transaction::state::boot_check_time::boot_check_policy;

/// Interval of the samples, that of the MCD: the threshold of its alert counts them.
const PERIOD: Duration = Duration::from_secs(30);
/// Time after a scrape for which samples are taken. Scrapers come at least every two minutes: Prometheus takes older
/// values for gone.
const READ_WITHIN: Duration = Duration::from_secs(300);

/// Access to the kubelet; both methods block.
pub(super) trait KubeletPort: Clone + Send + 'static {
    /// Return the port of the kubelet's healthz; `None` if the boot does not start the kubelet or the
    /// settings disable the check.
    fn healthz_port(&self) -> Option<u16>;

    /// Return true if the kubelet is healthy.
    fn is_healthy(&self, port: u16) -> bool;
}

/// Kubelet of the running host.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostKubelet;

impl KubeletPort for HostKubelet {
    fn healthz_port(&self) -> Option<u16> {
        let top = Path::new("/");
        let is_enabled = system_status::kubelet_is_enabled(top).unwrap_or_else(|error| {
            log::warn!("the kubelet's health is not sampled: {error}", error = chain(&error));
            false
        });
        let policy = Root::open(top).map(|root| boot_check_policy(&root)).unwrap_or_default();
        (is_enabled && policy.kubelet_port != 0).then_some(policy.kubelet_port)
    }

    fn is_healthy(&self, port: u16) -> bool {
        healthz::check(port).is_ok()
    }
}

/// Events that the sampling depends on.
#[derive(Debug, Default)]
pub(super) struct SampleTriggers {
    /// Notified when the host may have enabled or disabled the kubelet.
    pub(super) host_changed: Notify,
    /// Notified at each scrape of the metrics.
    pub(super) scraped: Notify,
}

/// Sample the kubelet's health forever, while its port is known and the metrics are read. Otherwise there is no timer,
/// and no value: the last one would be taken for the present one.
pub(super) async fn sample(
    metrics: Arc<DaemonMetrics>,
    triggers: Arc<SampleTriggers>,
    kubelet: impl KubeletPort,
) {
    sample_every(PERIOD, READ_WITHIN, metrics, triggers, kubelet).await;
}

async fn sample_every(
    period: Duration,
    read_within: Duration,
    metrics: Arc<DaemonMetrics>,
    triggers: Arc<SampleTriggers>,
    kubelet: impl KubeletPort,
) {
    let mut timer = None;
    let mut port = None;
    let mut scraped: Option<Instant> = None;
    let is_read = |scraped: Option<Instant>| scraped.is_some_and(|time| time.elapsed() <= read_within);
    loop {
        let asked = kubelet.clone();
        tokio::select! {
            () = triggers.host_changed.notified() => {
                port = on_thread(move || asked.healthz_port()).await.flatten();
            }
            () = triggers.scraped.notified() => scraped = Some(Instant::now()),
            () = timers::tick(timer.as_mut()) => {
                if let Some(port) = port.filter(|_| is_read(scraped))
                    && let Some(is_healthy) = on_thread(move || asked.is_healthy(port)).await
                {
                    metrics.record_kubelet(Some(is_healthy));
                }
            }
        }
        match (port.is_some() && is_read(scraped), &timer) {
            (true, None) => timer = Some(timers::steady_from_now(period)),
            (false, Some(_)) => {
                timer = None;
                metrics.record_kubelet(None);
            }
            _ => {}
        }
    }
}

/// Run a blocking query on a thread that ends with it. The runtime's own threads would wake up once more to end.
async fn on_thread<T: Send + 'static>(query: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, answer) = oneshot::channel();
    // The receiver is gone only when the daemon stops.
    let started = std::thread::Builder::new().spawn(move || drop(sender.send(query())));
    if let Err(error) = started {
        log::warn!(
            "the kubelet's health is not sampled: cannot start a thread: {error}",
            error = chain(&error)
        );
    }
    answer.await.ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::daemon::metrics::TextFormat;

    const PORT: u16 = 7;

    /// Kubelet that takes each answer from the test: the port, or the health, which is bad after the last one.
    #[derive(Clone)]
    struct Scripted {
        ports: Arc<Mutex<Receiver<Option<u16>>>>,
        health: Arc<Mutex<Receiver<bool>>>,
    }

    impl KubeletPort for Scripted {
        fn healthz_port(&self) -> Option<u16> {
            self.ports.lock().unwrap().recv().unwrap_or_default()
        }

        fn is_healthy(&self, port: u16) -> bool {
            assert_eq!(port, PORT);
            self.health.lock().unwrap().recv().unwrap_or_default()
        }
    }

    struct Sampled {
        metrics: Arc<DaemonMetrics>,
        triggers: Arc<SampleTriggers>,
        ports: Sender<Option<u16>>,
        /// Without a sender every sample is bad.
        health: Option<Sender<bool>>,
    }

    impl Sampled {
        /// Start to sample a kubelet, while the metrics are read within this time.
        fn start(read_within: Duration) -> Self {
            let metrics = Arc::new(DaemonMetrics::of_this_host("edge-7", None));
            let triggers = Arc::<SampleTriggers>::default();
            let ((ports, given_ports), (health, given_health)) = (channel(), channel());
            let kubelet = Scripted {
                ports: Arc::new(Mutex::new(given_ports)),
                health: Arc::new(Mutex::new(given_health)),
            };
            let period = Duration::from_millis(1);
            tokio::spawn(sample_every(period, read_within, metrics.clone(), triggers.clone(), kubelet));
            ports.send(Some(PORT)).unwrap();
            triggers.host_changed.notify_one();
            Self { metrics, triggers, ports, health: Some(health) }
        }

        /// Value of the metric; `None` if it is absent.
        fn value(&self) -> Option<u64> {
            let text = self.metrics.text(TextFormat::Classic);
            let mut lines = text.lines().filter_map(|line| line.strip_prefix("mcd_kubelet_state "));
            lines.next().map(|value| value.parse().unwrap())
        }

        async fn wait_until(&self, holds: impl Fn(Option<u64>) -> bool) {
            while !holds(self.value()) {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn failed_samples_in_a_row_are_counted_and_a_good_one_ends_the_count() {
        let sampled = Sampled::start(READ_WITHIN);
        sampled.triggers.scraped.notify_one();
        let health = sampled.health.as_ref().unwrap();
        for failures in 1..=3 {
            health.send(false).unwrap();
            sampled.wait_until(|value| value == Some(failures)).await;
        }
        health.send(true).unwrap();
        sampled.wait_until(|value| value == Some(0)).await;
    }

    #[tokio::test]
    async fn kubelet_that_is_disabled_has_no_value() {
        let mut sampled = Sampled::start(READ_WITHIN);
        sampled.triggers.scraped.notify_one();
        sampled.health = None;
        sampled.wait_until(|value| value.is_some()).await;
        sampled.ports.send(None).unwrap();
        sampled.triggers.host_changed.notify_one();
        sampled.wait_until(|value| value.is_none()).await;
    }

    #[tokio::test]
    async fn value_ends_when_the_metrics_are_read_no_more_and_starts_again_with_them() {
        let mut sampled = Sampled::start(Duration::from_millis(20));
        sampled.health = None;
        for _ in 0..2 {
            sampled
                .wait_until(|value| {
                    sampled.triggers.scraped.notify_one();
                    value.is_some()
                })
                .await;
            sampled.wait_until(|value| value.is_none()).await;
        }
    }
}

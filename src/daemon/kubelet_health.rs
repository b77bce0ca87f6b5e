//! Samples of the kubelet's health, for the metric. They are taken at a fixed interval: neither the number of
//! scrapers nor their interval changes the count, and no scraper can make the daemon ask the kubelet.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::core::values::causes::chain;
use crate::daemon::metrics::DaemonMetrics;
use crate::daemon::timers;
use crate::host::Root;
use crate::host::facts::healthz;
use crate::host::systemd::system_status;
use crate::transaction::state::boot_check_time::boot_check_policy;

/// Interval of the samples, that of the MCD: the threshold of its alert counts them.
const PERIOD: Duration = Duration::from_secs(30);

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

/// Sample the kubelet's health forever, while its port is known. The port is determined again after each
/// notification of `changed`. Without a port there is no timer.
pub(super) async fn sample(metrics: Arc<DaemonMetrics>, changed: Arc<Notify>, kubelet: impl KubeletPort) {
    sample_every(PERIOD, metrics, changed, kubelet).await;
}

async fn sample_every(
    period: Duration,
    metrics: Arc<DaemonMetrics>,
    changed: Arc<Notify>,
    kubelet: impl KubeletPort,
) {
    let mut timer = None;
    let mut port = None;
    loop {
        let asked = kubelet.clone();
        tokio::select! {
            () = changed.notified() => {
                port = on_thread(move || asked.healthz_port()).await.flatten();
                match (port, &timer) {
                    (None, _) => {
                        timer = None;
                        metrics.record_kubelet(true);
                    }
                    (Some(_), None) => timer = Some(timers::steady(period)),
                    (Some(_), Some(_)) => {}
                }
            }
            () = timers::tick(timer.as_mut()) => {
                let Some(port) = port else { continue };
                if let Some(is_healthy) = on_thread(move || asked.is_healthy(port)).await {
                    metrics.record_kubelet(is_healthy);
                }
            }
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
        changed: Arc<Notify>,
        ports: Sender<Option<u16>>,
        health: Sender<bool>,
    }

    impl Sampled {
        fn start() -> Self {
            let metrics = Arc::new(DaemonMetrics::of_this_host("edge-7"));
            let changed = Arc::new(Notify::new());
            let ((ports, given_ports), (health, given_health)) = (channel(), channel());
            let kubelet = Scripted {
                ports: Arc::new(Mutex::new(given_ports)),
                health: Arc::new(Mutex::new(given_health)),
            };
            tokio::spawn(sample_every(Duration::from_millis(1), metrics.clone(), changed.clone(), kubelet));
            Self { metrics, changed, ports, health }
        }
    }

    fn reports(metrics: &DaemonMetrics, failures: usize) -> bool {
        metrics.text().contains(&format!("mcd_kubelet_state {failures}\n"))
    }

    async fn wait_until(holds: impl Fn() -> bool) {
        while !holds() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn failed_samples_in_a_row_are_counted_and_a_good_one_ends_the_count() {
        let Sampled { metrics, changed, ports, health } = Sampled::start();
        ports.send(Some(PORT)).unwrap();
        changed.notify_one();
        for failures in 1..=3 {
            health.send(false).unwrap();
            wait_until(|| reports(&metrics, failures)).await;
        }
        health.send(true).unwrap();
        wait_until(|| reports(&metrics, 0)).await;
    }

    #[tokio::test]
    async fn kubelet_that_is_disabled_is_sampled_no_more() {
        let Sampled { metrics, changed, ports, health } = Sampled::start();
        ports.send(Some(PORT)).unwrap();
        changed.notify_one();
        drop(health);
        wait_until(|| !reports(&metrics, 0)).await;
        ports.send(None).unwrap();
        changed.notify_one();
        wait_until(|| reports(&metrics, 0)).await;
    }
}

//! The D-Bus client alone, outside the host, connected to the daemon on it.

use std::future::Future;
use std::time::Duration;

use flameholder::core::config::layering::LayeringChange;
use flameholder::os::rpm_ostree::daemon::{RpmOstreeDaemon, RpmOstreeError};
use flameholder::os::rpm_ostree::transaction::{RpmOstreeEvent, RpmOstreeOutcome};
use flameholder::os::rpm_ostree::{LayerBase, LayerRequest, RpmOstreeDeadlines};
use osimage::Os;
use rpmostreed::Faults;
use testbed::booted::host::Host;

use crate::rpm_ostree::peers::bus::{Bus, address, fail};

/// Deadlines that no test reaches unless it shortens one.
pub(crate) const DEADLINES: RpmOstreeDeadlines = RpmOstreeDeadlines {
    answer: Duration::from_secs(20),
    start: Duration::from_secs(20),
    idle_timeout: Duration::from_secs(20),
    stop: Duration::from_secs(5),
    busy_timeout: Duration::from_secs(20),
    max_poll_interval: Duration::from_millis(50),
};

/// A host with a daemon that can be called from outside it.
pub(crate) struct DaemonHost {
    pub(crate) host: Host,
    pub(crate) image: String,
    pub(crate) runtime: tokio::runtime::Runtime,
    _bus: Bus,
}

impl DaemonHost {
    pub(crate) fn new(faults: &Faults) -> Self {
        Self::with_idle(faults, 60_000)
    }

    /// The same with a daemon that exits after `idle` milliseconds without a client.
    pub(crate) fn with_idle(faults: &Faults, idle: u64) -> Self {
        let host = Host::install(Os::new(1));
        let image = host.image(&Os::new(2));
        let bus = Bus::start_for_tests(&host, idle);
        fail(&host, faults);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { host, image, runtime, _bus: bus }
    }

    pub(crate) async fn daemon(&self, deadlines: RpmOstreeDeadlines) -> RpmOstreeDaemon {
        RpmOstreeDaemon::connect(Some(&address(&self.host)), deadlines).await.unwrap()
    }

    /// A request for the image of version 2.
    pub(crate) fn rebase(&self) -> LayerRequest {
        let base = LayerBase::Image(self.image.parse().unwrap());
        LayerRequest { base, change: LayeringChange::default() }
    }

    /// Sends the request once. Returns the outcome and the events received before it.
    pub(crate) async fn request_with(
        &self,
        deadlines: RpmOstreeDeadlines,
        request: &LayerRequest,
        to_cancel: impl Future<Output = ()>,
    ) -> (Result<RpmOstreeOutcome, RpmOstreeError>, Vec<RpmOstreeEvent>) {
        let daemon = self.daemon(deadlines).await;
        let mut events = Vec::new();
        let outcome = daemon.layer(request, &mut |event| events.push(event), to_cancel).await;
        daemon.disconnect().await;
        (outcome, events)
    }

    /// The same, cancelled at the first event.
    pub(crate) async fn request_until_first_event(
        &self,
        request: &LayerRequest,
    ) -> (Result<RpmOstreeOutcome, RpmOstreeError>, Vec<RpmOstreeEvent>) {
        let (daemon, spoke) = (self.daemon(DEADLINES).await, tokio::sync::Notify::new());
        let mut events = Vec::new();
        let mut event = |event| {
            events.push(event);
            spoke.notify_one();
        };
        let outcome = daemon.layer(request, &mut event, spoke.notified()).await;
        daemon.disconnect().await;
        (outcome, events)
    }

    /// The same without a cancellation.
    pub(crate) async fn request(
        &self,
        request: &LayerRequest,
    ) -> (Result<RpmOstreeOutcome, RpmOstreeError>, Vec<RpmOstreeEvent>) {
        self.request_with(DEADLINES, request, std::future::pending()).await
    }
}

/// A request that changes nothing.
pub(crate) fn unchanged() -> LayerRequest {
    LayerRequest { base: LayerBase::BootedCommit, change: LayeringChange::default() }
}

/// `true` where one of the events is a message with this text.
pub(crate) fn has_message(events: &[RpmOstreeEvent], text: &str) -> bool {
    events.iter().any(|event| matches!(event, RpmOstreeEvent::Message(message) if message.contains(text)))
}

/// `true` where one of the events reports waiting for a transaction with this text.
pub(crate) fn has_waited(events: &[RpmOstreeEvent], text: &str) -> bool {
    events.iter().any(|event| matches!(event, RpmOstreeEvent::Busy(with) if with.contains(text)))
}

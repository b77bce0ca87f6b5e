//! The client alone, outside of the host, against the daemon on it.

use std::{future::Future, time::Duration};

use flameholder::core::config::layering::LayeringChange;
use flameholder::os::rpm_ostree::daemon::{RpmOstreeDaemon, RpmOstreeError};
use flameholder::os::rpm_ostree::transaction::{RpmOstreeEvent, RpmOstreeOutcome};
use flameholder::os::rpm_ostree::{LayerBase, LayerRequest, RpmOstreeDeadlines};
use osimage::Os;
use rpmostreed::Faults;

use crate::rpm_ostree::peers::bus::{Bus, address, fail};
use testbed::booted::host::Host;

/// What these tests wait for.
pub(crate) const DEADLINES: RpmOstreeDeadlines = RpmOstreeDeadlines {
    answer: Duration::from_secs(20),
    start: Duration::from_secs(20),
    idle_timeout: Duration::from_secs(20),
    stop: Duration::from_secs(5),
    busy_timeout: Duration::from_secs(20),
    max_poll_interval: Duration::from_millis(50),
};

/// A host with a daemon, seen from outside.
pub(crate) struct Seen {
    pub(crate) host: Host,
    pub(crate) image: String,
    pub(crate) runtime: tokio::runtime::Runtime,
    _bus: Bus,
}

impl Seen {
    pub(crate) fn new(faults: &Faults) -> Self {
        Self::with_idle(faults, 60_000)
    }

    /// The same with a daemon that leaves after so many milliseconds.
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

    /// The image of version 2.
    pub(crate) fn rebase(&self) -> LayerRequest {
        let base = LayerBase::Image(self.image.parse().unwrap());
        LayerRequest { base, change: LayeringChange::default(), registers_driver: false }
    }

    /// Asks once, and says what came of it and what was said meanwhile.
    pub(crate) async fn ask(
        &self,
        deadlines: RpmOstreeDeadlines,
        request: &LayerRequest,
        to_cancel: impl Future<Output = ()>,
    ) -> (Result<RpmOstreeOutcome, RpmOstreeError>, Vec<RpmOstreeEvent>) {
        let daemon = self.daemon(deadlines).await;
        let mut said = Vec::new();
        let outcome = daemon.layer(request, &mut |news| said.push(news), to_cancel).await;
        daemon.disconnect().await;
        (outcome, said)
    }

    /// The same, until it says something; then it is to stop.
    pub(crate) async fn ask_until_it_speaks(
        &self,
        request: &LayerRequest,
    ) -> (Result<RpmOstreeOutcome, RpmOstreeError>, Vec<RpmOstreeEvent>) {
        let (daemon, spoke) = (self.daemon(DEADLINES).await, tokio::sync::Notify::new());
        let mut said = Vec::new();
        let mut news = |news| {
            said.push(news);
            spoke.notify_one();
        };
        let outcome = daemon.layer(request, &mut news, spoke.notified()).await;
        daemon.disconnect().await;
        (outcome, said)
    }

    /// The same, with all the time that it may take.
    pub(crate) async fn asked(
        &self,
        request: &LayerRequest,
    ) -> (Result<RpmOstreeOutcome, RpmOstreeError>, Vec<RpmOstreeEvent>) {
        self.ask(DEADLINES, request, std::future::pending()).await
    }
}

/// Asks for nothing.
pub(crate) fn nothing() -> LayerRequest {
    LayerRequest { base: LayerBase::BootedCommit, change: LayeringChange::default(), registers_driver: false }
}

/// Whether a message with this text was among it.
pub(crate) fn heard(said: &[RpmOstreeEvent], text: &str) -> bool {
    said.iter().any(|news| matches!(news, RpmOstreeEvent::Message(message) if message.contains(text)))
}

/// Whether it was waited for something with this text.
pub(crate) fn waited(said: &[RpmOstreeEvent], text: &str) -> bool {
    said.iter().any(|news| matches!(news, RpmOstreeEvent::Busy(with) if with.contains(text)))
}

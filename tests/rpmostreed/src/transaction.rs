//! D-Bus object that a transaction serves on its socket.

use std::sync::Arc;

use zbus::interface;
use zbus::object_server::SignalEmitter;
use zbus::zvariant::OwnedValue;

use crate::active::{Active, Said, tell};
use crate::faults::{Faults, boundary};

pub(crate) const INTERFACE: &str = "org.projectatomic.rpmostree1.Transaction";

pub(crate) struct TransactionObject {
    pub(crate) active: Arc<Active>,
}

/// Peers are not authenticated: each may call every method.
#[interface(name = "org.projectatomic.rpmostree1.Transaction")]
impl TransactionObject {
    fn cancel(&self) {
        boundary(&self.active.faults);
        self.active.cancel();
        boundary(&self.active.faults);
    }

    #[zbus(out_args("started"))]
    async fn start(&self, #[zbus(connection)] peer: &zbus::Connection) -> bool {
        let active = &self.active;
        boundary(&active.faults);
        if let Some((success, text)) = active.finished() {
            tell(peer, &Said::Finished(success, text)).await;
            return false;
        }
        let (news, faults) = (active.news.notified(), Faults::load(&active.faults));
        if !active.start() {
            return false;
        }
        // Answer after at least one signal: the real daemon may send any number of signals before its answer.
        if !faults.mute {
            news.await;
        }
        while faults.early_result && active.finished().is_none() {
            active.news.notified().await;
        }
        boundary(&active.faults);
        true
    }

    #[zbus(property)]
    fn title(&self) -> String {
        self.active.title()
    }

    #[zbus(property)]
    fn initiating_client_description(&self) -> String {
        self.active.client.clone()
    }

    #[zbus(signal)]
    async fn finished(emitter: &SignalEmitter<'_>, success: bool, error_message: String) -> zbus::Result<()>;

    #[zbus(signal)]
    async fn message(emitter: &SignalEmitter<'_>, text: String) -> zbus::Result<()>;

    #[zbus(signal)]
    async fn task_begin(emitter: &SignalEmitter<'_>, text: String) -> zbus::Result<()>;

    #[zbus(signal)]
    async fn task_end(emitter: &SignalEmitter<'_>, text: String) -> zbus::Result<()>;

    #[zbus(signal)]
    async fn percent_progress(emitter: &SignalEmitter<'_>, text: String, percentage: u32)
    -> zbus::Result<()>;

    #[zbus(signal)]
    async fn download_progress(
        emitter: &SignalEmitter<'_>,
        time: (u64, u64),
        outstanding: (u32, u32),
        metadata: (u32, u32, u32),
        delta: (u32, u32, u32, u64),
        content: (u32, u32),
        transfer: (u64, u64),
    ) -> zbus::Result<()>;

    #[zbus(signal)]
    async fn signature_progress(
        emitter: &SignalEmitter<'_>,
        signature: Vec<OwnedValue>,
        commit: String,
    ) -> zbus::Result<()>;

    #[zbus(signal)]
    async fn progress_end(emitter: &SignalEmitter<'_>) -> zbus::Result<()>;
}

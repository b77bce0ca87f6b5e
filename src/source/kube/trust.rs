//! Trust material of the cluster: reports each change of the ControllerConfig, with the CA of the API server while that
//! rotates.

use std::sync::Arc;

use futures::StreamExt as _;
use tokio::sync::mpsc::UnboundedSender;

use super::next_of;
use super::retry_timer::RetryTimer;
use crate::cluster::{ClusterClient, ClusterError, ControllerTrust};
use crate::core::daemon::lifecycle::{DaemonProblem, ProblemClass};
use crate::core::trust::document::TrustDocument;
use crate::core::values::backoff::RetryClass;
use crate::core::values::causes::chain;
use crate::core::values::tree::ContentDigest;
use crate::host::memory_file::MemoryFile;
use crate::source::{FetchedConfig, SourceEvent, TrustDelivery};

/// Watches the ControllerConfig until the daemon stops.
pub(super) struct TrustSource {
    cluster: ClusterClient,
    events: UnboundedSender<SourceEvent>,
    watching: RetryTimer,
    completing: RetryTimer,
    /// Newest trust material, while a part of it could not be read.
    incomplete: Option<ControllerTrust>,
    /// Error as it was logged.
    error: Option<String>,
}

impl TrustSource {
    pub(super) fn new(cluster: ClusterClient, events: UnboundedSender<SourceEvent>) -> Self {
        Self {
            cluster,
            events,
            watching: RetryTimer::default(),
            completing: RetryTimer::default(),
            incomplete: None,
            error: None,
        }
    }

    pub(super) async fn run(mut self) {
        let mut watch = None;
        loop {
            if watch.is_none() && self.watching.is_due() {
                match self.cluster.watch_trust() {
                    Ok(stream) => watch = Some(stream.boxed()),
                    Err(error) => self.watch_failed(&error),
                }
            }
            tokio::select! {
                seen = next_of(watch.as_mut()), if self.watching.is_due() => match seen {
                    Some(Ok(trust)) => {
                        self.watching.succeed();
                        self.changed(trust).await;
                    }
                    Some(Err(error)) => {
                        if error.is_about_the_connection() {
                            watch = None;
                        }
                        self.watch_failed(&error);
                    }
                    None => watch = None,
                },
                () = self.watching.wait() => {}
                () = self.completing.wait() => self.complete().await,
            }
        }
    }

    fn watch_failed(&mut self, error: &ClusterError) {
        self.report(error);
        // A cluster without the resource will hardly get it.
        let is_missing = matches!(error, ClusterError::NotFound(_));
        let class = if is_missing { RetryClass::Repair } else { class_of(error) };
        self.watching.fail_until(class, error);
    }

    async fn changed(&mut self, trust: Option<ControllerTrust>) {
        // A cluster without the machine-config-operator has none.
        (self.incomplete, self.completing) = (None, RetryTimer::default());
        if let Some(trust) = trust {
            self.deliver(trust).await;
        }
    }

    /// Read the missing part again.
    async fn complete(&mut self) {
        if let Some(trust) = self.incomplete.take() {
            self.deliver(trust).await;
        }
    }

    /// Report trust material. The CA of an API server that rotates may not be there yet; the rest does not wait for it.
    async fn deliver(&mut self, trust: ControllerTrust) {
        let ControllerTrust { version, fields } = trust;
        let server_ca =
            if version.is_rotating() { self.cluster.server_ca().await.map(Some) } else { Ok(None) };
        let (server_ca, missing) =
            server_ca.map_or_else(|error| (None, Some(error)), |bundle| (bundle, None));
        let document = TrustDocument { fields, server_ca };
        let bytes = serde_json::to_vec(&document).expect("all keys of the document are strings");
        let failure = match MemoryFile::of("trust", &bytes) {
            Ok(file) => {
                self.send(SourceEvent::TrustChanged(TrustDelivery {
                    version: missing.is_none().then(|| version.clone()),
                    digest: ContentDigest::of(&bytes),
                    document: Arc::new(FetchedConfig { document: Some(file), policy: None }),
                }));
                missing
            }
            Err(error) => Some(ClusterError::NoMemory(format!("trust material: {}", chain(&error)))),
        };
        let Some(error) = failure else {
            (self.error, self.completing) = (None, RetryTimer::default());
            return;
        };
        self.report(&error);
        self.completing.fail_until(class_of(&error), &error);
        self.incomplete = Some(ControllerTrust { version, fields: document.fields });
    }

    fn send(&self, event: SourceEvent) {
        // The receiver is gone only when the daemon stops.
        drop(self.events.send(event));
    }

    /// Report the error, and log it once. The next request has a new connection, with the certificates of then.
    fn report(&mut self, error: &ClusterError) {
        let reason = format!("CAs and pull secret of the cluster cannot be read: {error}");
        if self.error.as_ref() != Some(&reason) {
            log::warn!("{reason}");
            self.error = Some(reason.clone());
        }
        if error.is_about_the_connection() {
            self.cluster.reader.forget_client();
        }
        match error {
            error if error.has_no_answer() => {
                let is_untrusted = error.is_about_a_certificate();
                self.send(SourceEvent::ConnectionFailed { is_untrusted });
            }
            // A cluster without the object gives nothing, or not yet; a busy one answers later.
            ClusterError::NotFound(_) | ClusterError::Busy(_) => {}
            _ => self.send(SourceEvent::TrustUnavailable(DaemonProblem {
                class: ProblemClass::Transient,
                reason,
            })),
        }
    }
}

/// Return what another attempt needs: permissions and memory do not come by themselves.
fn class_of(error: &ClusterError) -> RetryClass {
    match error {
        ClusterError::Denied(_) | ClusterError::NoMemory(_) => RetryClass::Repair,
        _ => RetryClass::Time,
    }
}

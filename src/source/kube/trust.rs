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
        let server_ca = if trust.version.is_rotating() {
            match self.cluster.server_ca().await {
                Ok(bundle) => Ok(Some(bundle)),
                Err(error) => {
                    self.report(&error);
                    self.completing.fail_until(class_of(&error), &error);
                    Err(())
                }
            }
        } else {
            Ok(None)
        };
        let is_complete = server_ca.is_ok();
        let ControllerTrust { version, fields } = trust.clone();
        let document = TrustDocument { fields, server_ca: server_ca.unwrap_or_default() };
        let bytes = serde_json::to_vec(&document).expect("all keys of the document are strings");
        let mut file = MemoryFile::create("trust");
        let written = file
            .as_mut()
            .map_err(|error| chain(error))
            .and_then(|file| file.append(&bytes).map_err(|error| chain(&error)));
        let (Ok(file), Ok(())) = (file, written.clone()) else {
            let error =
                ClusterError::NoMemory(format!("trust material: {}", written.err().unwrap_or_default()));
            self.report(&error);
            self.completing.fail_until(RetryClass::Repair, &error);
            self.incomplete = Some(trust);
            return;
        };
        self.incomplete = (!is_complete).then_some(trust);
        if is_complete {
            (self.error, self.completing) = (None, RetryTimer::default());
        }
        let delivery = TrustDelivery {
            version: is_complete.then_some(version),
            digest: ContentDigest::of(&bytes),
            document: Arc::new(FetchedConfig { document: Some(file), policy: None }),
        };
        // The receiver is gone only when the daemon stops.
        drop(self.events.send(SourceEvent::TrustChanged(delivery)));
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
        let event = match error {
            error if error.is_of_the_connection() => {
                SourceEvent::ConnectionFailed { is_untrusted: error.is_about_a_certificate() }
            }
            // A cluster without the object gives nothing, or not yet.
            ClusterError::NotFound(_) => return,
            _ => SourceEvent::TrustUnavailable(DaemonProblem { class: ProblemClass::Transient, reason }),
        };
        // The receiver is gone only when the daemon stops.
        drop(self.events.send(event));
    }
}

/// Return what another attempt needs: permissions do not come by themselves.
fn class_of(error: &ClusterError) -> RetryClass {
    if matches!(error, ClusterError::Denied(_)) { RetryClass::Repair } else { RetryClass::Time }
}

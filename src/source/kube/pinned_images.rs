//! Pinned image sets of this node: reports them at each change of the sets, of the pools and of the node's labels.
//!
//! The pools are watched only while the cluster has a set: their status changes with each node of an update.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch::Receiver;

use super::next_of;
use super::retry_timer::RetryTimer;
use crate::cluster::{ClusterClient, ClusterError, NodePool, pools_of};
use crate::core::pinned_images::image_sets::{PinnedImageSet, PinnedImageSets};
use crate::core::pinned_images::pin_state::PinState;
use crate::core::values::backoff::RetryClass;
use crate::core::values::causes::chain;
use crate::core::values::tree::ContentDigest;
use crate::host::memory_file::MemoryFile;
use crate::source::{FetchedConfig, PinDelivery, SourceEvent};

/// Time between two looks for the resource in a cluster without it.
const ABSENT: Duration = Duration::from_secs(3600);

/// Labels of the Node, once it was read.
pub(super) type NodeLabels = Option<BTreeMap<String, String>>;

type Watched<T> = BoxStream<'static, Result<Vec<T>, ClusterError>>;

/// Event of a watch; `None` at its end.
type SeenObjects<T> = Option<Result<Vec<T>, ClusterError>>;

/// Apply an event of a watch to the known objects. Ends a watch that ended, or whose connection is lost.
fn take<T>(
    seen: SeenObjects<T>,
    watch: &mut Option<Watched<T>>,
    known: &mut Option<Vec<T>>,
) -> Result<(), ClusterError> {
    match seen {
        Some(Ok(seen)) => *known = Some(seen),
        Some(Err(error)) => {
            if error.is_about_the_connection() {
                *watch = None;
            }
            return Err(error);
        }
        None => *watch = None,
    }
    Ok(())
}

/// Watches pinned image sets until the daemon stops.
pub(super) struct PinnedImageSource {
    cluster: ClusterClient,
    events: UnboundedSender<SourceEvent>,
    labels: Receiver<NodeLabels>,
    /// The cluster's sets; `None` until they were read.
    sets: Option<Vec<PinnedImageSet>>,
    /// The cluster's pools; `None` until they were read.
    pools: Option<Vec<NodePool>>,
    /// Digest of the sets that were reported last.
    reported: Option<ContentDigest>,
    /// Error as it was logged.
    error: Option<String>,
}

impl PinnedImageSource {
    pub(super) fn new(
        cluster: ClusterClient,
        events: UnboundedSender<SourceEvent>,
        labels: Receiver<NodeLabels>,
    ) -> Self {
        Self { cluster, events, labels, sets: None, pools: None, reported: None, error: None }
    }

    pub(super) async fn run(mut self) {
        let (mut sets, mut pools): (Option<Watched<_>>, Option<Watched<_>>) = (None, None);
        let mut retry = RetryTimer::default();
        loop {
            if retry.is_due()
                && let Err(error) = self.begin(&mut sets, &mut pools)
            {
                self.failed(&error, &mut retry);
            }
            tokio::select! {
                seen = next_of(sets.as_mut()), if retry.is_due() => {
                    let taken = take(seen, &mut sets, &mut self.sets);
                    self.seen(taken, &mut retry);
                }
                seen = next_of(pools.as_mut()), if retry.is_due() => {
                    let taken = take(seen, &mut pools, &mut self.pools);
                    self.seen(taken, &mut retry);
                }
                changed = self.labels.changed() => if changed.is_err() { return },
                () = retry.wait() => {}
            }
            self.report();
        }
    }

    /// Begin the watches that are needed, and end that of the pools where it no longer is.
    fn begin(
        &mut self,
        sets: &mut Option<Watched<PinnedImageSet>>,
        pools: &mut Option<Watched<NodePool>>,
    ) -> Result<(), ClusterError> {
        if sets.is_none() {
            *sets = Some(self.cluster.watch_pinned_image_sets()?.boxed());
        }
        let needs_pools = self.sets.as_ref().is_some_and(|sets| !sets.is_empty());
        if !needs_pools {
            (*pools, self.pools) = (None, None);
        } else if pools.is_none() {
            *pools = Some(self.cluster.watch_pools()?.boxed());
        }
        Ok(())
    }

    fn seen(&mut self, result: Result<(), ClusterError>, retry: &mut RetryTimer) {
        match result {
            Ok(()) => retry.succeed(),
            Err(error) => self.failed(&error, retry),
        }
    }

    fn failed(&mut self, error: &ClusterError, retry: &mut RetryTimer) {
        match error {
            // No fault, and nothing to wait for: a cluster gets the resource by an update, which reboots its nodes.
            ClusterError::NotFound(_) if self.sets.is_none() => return retry.pause(ABSENT),
            // An API server that starts may not serve the resource yet.
            ClusterError::Denied(_) | ClusterError::NotFound(_) => {
                retry.fail_until(RetryClass::Repair, error);
            }
            _ => retry.fail(error),
        }
        if error.is_about_the_connection() {
            self.cluster.reader.forget_client();
        }
        self.warn_once(format!("pinned image sets of the cluster cannot be read: {error}"));
    }

    fn warn_once(&mut self, reason: String) {
        if self.error.as_ref() != Some(&reason) {
            log::warn!("{reason}");
            self.error = Some(reason);
        }
    }

    /// Report this node's sets, if they are others than before.
    fn report(&mut self) {
        let sets = match self.of_this_node() {
            Ok(Some(sets)) => sets,
            Ok(None) => return,
            Err(error) => return self.warn_once(format!("pinned image sets stay as they are: {error}")),
        };
        let bytes = serde_json::to_vec(&sets).expect("all keys of the document are strings");
        let digest = ContentDigest::of(&bytes);
        if self.reported.as_ref() == Some(&digest) {
            return;
        }
        let document = match MemoryFile::of("pinned-images", &bytes) {
            Ok(document) => document,
            Err(error) => {
                return self.warn_once(format!("no memory for the pinned image sets: {}", chain(&error)));
            }
        };
        self.error = None;
        self.reported = Some(digest);
        let delivery = PinDelivery {
            digest,
            document: Arc::new(FetchedConfig { document: Some(document), policy: None }),
            unpulled: PinState::unpulled(&sets),
        };
        // The receiver is gone only when the daemon stops.
        drop(self.events.send(SourceEvent::PinsChanged(delivery)));
    }

    /// Return the sets of this node's pools; `None` until all is known.
    fn of_this_node(&self) -> Result<Option<PinnedImageSets>, ClusterError> {
        let Some(sets) = &self.sets else { return Ok(None) };
        if sets.is_empty() {
            return Ok(Some(PinnedImageSets::default()));
        }
        let labels = self.labels.borrow();
        let (Some(labels), Some(pools)) = (labels.as_ref(), &self.pools) else { return Ok(None) };
        let pools = pools_of(labels, pools)?;
        let names = pools.pinned_image_sets();
        let sets = sets.iter().filter(|set| names.contains(set.name.as_str())).cloned().collect();
        Ok(Some(PinnedImageSets { sets, is_control_plane: pools.is_control_plane() }))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::sync::{mpsc, watch};

    use super::*;
    use crate::cluster::{ClusterIdentity, RequestCounts};

    /// Return the time after which a source that knows these sets looks for the resource again after a 404.
    fn time_left(sets: Option<Vec<PinnedImageSet>>) -> Duration {
        let identity = ClusterIdentity::of(Path::new("/none"), RequestCounts::default());
        let cluster = ClusterClient {
            node: "node-7".to_owned(),
            namespace: "default".to_owned(),
            reader: identity.clone(),
            writer: identity,
        };
        let (events, labels) = (mpsc::unbounded_channel().0, watch::channel(None).1);
        let mut source = PinnedImageSource { sets, ..PinnedImageSource::new(cluster, events, labels) };
        let mut retry = RetryTimer::default();
        source.failed(&ClusterError::NotFound("pinnedimagesets".to_owned()), &mut retry);
        retry.time_left()
    }

    #[test]
    fn resource_that_was_there_is_looked_for_again_soon() {
        let soon = Duration::from_secs(300);
        assert!(time_left(Some(Vec::new())) < soon, "an API server that starts does not serve it yet");
        assert!(time_left(None) > soon, "a cluster without it");
    }
}

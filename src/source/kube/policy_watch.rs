//! Watch of the MachineConfiguration while an attempt to update has failed: another node disruption policy, or an override,
//! may let it through. An update itself reads the object when it needs it, so that an idle node watches nothing.

use futures::StreamExt as _;
use futures::stream::BoxStream;

use super::next_of;
use super::retry_timer::RetryTimer;
use crate::cluster::{ClusterClient, ClusterError};
use crate::source::FetchedConfig;

/// Version of the MachineConfiguration; `None` where the cluster has none.
type PolicyVersion = Option<String>;

pub(super) struct PolicyWatch {
    cluster: ClusterClient,
    is_needed: bool,
    stream: Option<BoxStream<'static, Result<PolicyVersion, ClusterError>>>,
    retry: RetryTimer,
    /// Version that was fetched or seen last; `None` before either.
    known: Option<PolicyVersion>,
}

impl PolicyWatch {
    pub(super) fn new(cluster: ClusterClient) -> Self {
        Self { cluster, is_needed: false, stream: None, retry: RetryTimer::default(), known: None }
    }

    /// Begin or end the watch.
    pub(super) fn follow(&mut self, is_needed: bool) {
        self.is_needed = is_needed;
        if !is_needed {
            (self.stream, self.retry) = (None, RetryTimer::default());
        }
    }

    /// Note the object that came with a fetched config, if it could be fetched.
    pub(super) fn fetched(&mut self, fetched: Option<&FetchedConfig>) {
        let Some(FetchedConfig { policy, .. }) = fetched else { return };
        let version = |policy: &[u8]| {
            let object: serde_json::Value = serde_json::from_slice(policy).ok()?;
            Some(object.pointer("/metadata/resourceVersion")?.as_str()?.to_owned())
        };
        self.known = Some(policy.as_deref().and_then(version));
    }

    /// Wait until the object is another one than was known. Cancel safe.
    pub(super) async fn changed(&mut self) {
        if !self.is_needed {
            return std::future::pending().await;
        }
        loop {
            if self.stream.is_none() && self.retry.is_due() {
                match self.cluster.watch_policy() {
                    Ok(stream) => self.stream = Some(stream.boxed()),
                    Err(error) => self.retry.fail(&error),
                }
            }
            tokio::select! {
                seen = next_of(self.stream.as_mut()), if self.retry.is_due() => match seen {
                    Some(Ok(version)) => {
                        self.retry.succeed();
                        let before = self.known.replace(version);
                        if before.is_some() && before != self.known {
                            return;
                        }
                    }
                    Some(Err(error)) => {
                        if error.is_about_the_connection() {
                            self.stream = None;
                        }
                        // The next attempt to update reads the object anyway.
                        log::debug!("cannot watch the MachineConfiguration: {error}");
                        self.retry.fail(&error);
                    }
                    None => self.stream = None,
                },
                () = self.retry.wait() => {}
            }
        }
    }
}

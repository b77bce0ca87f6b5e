//! Watch of a single object: one list request, then a watch for changes. The server ends a watch every few
//! minutes; the next one continues from the last resource version, and only if that expired (status 410) the
//! object is listed again.

use std::fmt::Debug;
use std::time::Duration;

use futures::stream::{BoxStream, unfold};
use futures::{Stream, StreamExt as _};
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use crate::cluster::{ClusterError, with_timeout};

/// Duration of a watch request, in seconds; the server ends it then.
const WATCH: u32 = 290;
/// Silence after which a connection is dead: the server would have ended the watch by then.
const SILENCE: Duration = Duration::from_secs(WATCH as u64 + 15);
/// A watch that ends within this time counts as failed, so that the caller backs off.
const BRIEF: Duration = Duration::from_secs(1);

type Events<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

struct Watch<K> {
    api: Api<K>,
    fields: String,
    version: Option<String>,
    events: Option<(Events<K>, Instant)>,
}

/// Watch the object of this name: yields it at each change, and `None` while it does not exist. The stream
/// goes on after an error.
pub(super) fn watch<K>(
    api: Api<K>,
    name: &str,
) -> impl Stream<Item = Result<Option<K>, ClusterError>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let watch = Watch { api, fields: format!("metadata.name={name}"), version: None, events: None };
    unfold(watch, |mut watch| async {
        let seen = watch.next().await;
        Some((seen, watch))
    })
}

impl<K: Clone + DeserializeOwned + Debug + Resource + Send + 'static> Watch<K> {
    async fn next(&mut self) -> Result<Option<K>, ClusterError> {
        loop {
            let Some(version) = self.version.clone() else { return self.list().await };
            if self.events.is_none() {
                let parameters = WatchParams::default().fields(&self.fields).timeout(WATCH);
                match with_timeout(self.api.watch(&parameters, &version)).await {
                    Ok(events) => self.events = Some((events.boxed(), Instant::now())),
                    Err(error) => self.fail(error)?,
                }
            }
            let Some((events, since)) = &mut self.events else { continue };
            let since = *since;
            let Ok(event) = timeout(SILENCE, events.next()).await else {
                self.events = None;
                return Err(ClusterError::TimedOut(SILENCE));
            };
            match event {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    self.version = object.resource_version();
                    return Ok(Some(object));
                }
                Some(Ok(WatchEvent::Deleted(object))) => {
                    self.version = object.resource_version();
                    return Ok(None);
                }
                Some(Ok(WatchEvent::Bookmark(mark))) => self.version = Some(mark.metadata.resource_version),
                Some(Ok(WatchEvent::Error(status))) => self.fail(kube::Error::Api(status).into())?,
                Some(Err(error)) => self.fail(error.into())?,
                None => {
                    self.events = None;
                    if since.elapsed() < BRIEF {
                        return Err(ClusterError::ServerError("watches end immediately".to_owned()));
                    }
                }
            }
        }
    }

    /// Handle a failed watch: an expired resource version leads to a new list, any other error to the
    /// caller's backoff.
    fn fail(&mut self, error: ClusterError) -> Result<(), ClusterError> {
        self.events = None;
        if !matches!(error, ClusterError::Gone(_)) {
            return Err(error);
        }
        self.version = None;
        Ok(())
    }

    async fn list(&mut self) -> Result<Option<K>, ClusterError> {
        let parameters = ListParams::default().fields(&self.fields);
        let list = with_timeout(self.api.list(&parameters)).await?;
        self.version = list.metadata.resource_version;
        if self.version.is_none() {
            return Err(ClusterError::ServerError("a list has no resource version".to_owned()));
        }
        Ok(list.items.into_iter().next())
    }
}

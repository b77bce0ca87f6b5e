//! One object, watched: it is listed once, and from then on only what changes comes. The server ends a watch every few
//! minutes, and it goes on where it was; only where the server does not remember that is it listed anew.

use std::fmt::Debug;
use std::time::Duration;

use futures::stream::{BoxStream, unfold};
use futures::{Stream, StreamExt as _};
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use crate::cluster::{ClusterError, with_timeout};

/// After how long the server ends a watch, in seconds.
const WATCH: u32 = 290;
/// A connection that says nothing for so long is dead: the server would have ended the watch.
const SILENCE: Duration = Duration::from_secs(WATCH as u64 + 15);
/// A watch that ends before this is as good as one that failed.
const BRIEF: Duration = Duration::from_secs(1);

type Events<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

struct Watch<K> {
    api: Api<K>,
    fields: String,
    version: Option<String>,
    events: Option<(Events<K>, Instant)>,
}

/// The object of this name whenever it changes, and `None` while there is none. After an error it goes on, once it is
/// asked again.
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
                        return Err(ClusterError::ServerError("it ends watches at once".to_owned()));
                    }
                }
            }
        }
    }

    /// What is forgotten is listed anew; any other error is the caller's to wait after.
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
            return Err(ClusterError::ServerError("its lists have no version".to_owned()));
        }
        Ok(list.items.into_iter().next())
    }
}

//! Watch of a single object, or of all objects of a kind: a list, by pieces, then a watch for changes. The server ends a
//! watch every few minutes; the next one continues from the last resource version. After an error, and where that version
//! expired (status 410), the objects are listed again. The kept part of an object is made as it comes, so that memory does not
//! grow with the objects of a large cluster.
//!
//! The client library's own watcher gives all its watches one duration, of at most 295 seconds, and its delays after
//! errors know nothing of `Retry-After`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use futures::stream::{BoxStream, unfold};
use futures::{Stream, StreamExt as _};
use kube::api::{Api, ListParams, ObjectList, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::{ClusterError, with_timeout};
use crate::core::values::backoff::first_retry;
use crate::host::facts::boot;

/// Shortest and longest duration of a watch request, in seconds; the server ends it then. Each watch draws its
/// own, as those of client-go do: otherwise all nodes, whose watches began together after a restart of the API
/// server, would begin each next one together too.
const SHORTEST: u32 = 300;
const LONGEST: u32 = 600;
/// Time after the end of a watch at which its connection is dead: the server would have ended the watch.
const GRACE: Duration = Duration::from_secs(15);
/// A watch that ends within this time counts as failed, so that the caller backs off.
const BRIEF: Duration = Duration::from_secs(1);

/// Objects in one answer of a list that may be long.
pub(super) const PIECE: u32 = 500;

type Events<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

/// Objects that a watch is about.
#[derive(Debug, Clone)]
pub(super) enum WatchSelection {
    All,
    /// The object of this name.
    Named(String),
    /// Objects with this label.
    Labelled(&'static str),
}

impl WatchSelection {
    fn fields(&self) -> Option<String> {
        match self {
            Self::Named(name) => Some(format!("metadata.name={name}")),
            Self::All | Self::Labelled(_) => None,
        }
    }

    /// Objects in one answer. API servers answer a list without a limit from their cache, and many agents ask for one object each.
    fn piece(&self) -> Option<u32> {
        match self {
            Self::Named(_) => None,
            Self::All | Self::Labelled(_) => Some(PIECE),
        }
    }

    fn labels(&self) -> Option<String> {
        match self {
            Self::Labelled(label) => Some((*label).to_owned()),
            Self::All | Self::Named(_) => None,
        }
    }
}

struct Watch<K, F> {
    api: Api<K>,
    selection: WatchSelection,
    /// Makes the kept part of an object.
    keep: F,
    version: Option<String>,
    open: Option<OpenWatch<K>>,
}

/// Watch request in progress.
struct OpenWatch<K> {
    events: Events<K>,
    since: Instant,
    /// Time after which the server ends it.
    duration: Duration,
}

/// Pause before the next watch, after one of `duration` that the server ended after `lasted`; by a random number from
/// 0 to 1,000. A server that shuts down ends all watches early and at once: without a pause all nodes would come to
/// the next server within the same second.
fn pause(lasted: Duration, duration: Duration, chance: u32) -> Duration {
    if lasted + GRACE < duration { first_retry(chance) } else { Duration::ZERO }
}

/// Duration of a watch in seconds, from a random number from 0 to 1,000.
fn duration(chance: u32) -> u32 {
    SHORTEST + (LONGEST - SHORTEST) * chance.min(1000) / 1000
}

/// Change of watched objects, each by its name and the kept part of it.
#[derive(Debug)]
pub enum WatchedChange<T> {
    /// All objects, in place of those known before.
    Listed(Vec<(String, T)>),
    /// An object was created or changed.
    Changed(String, T),
    /// An object was deleted, or nothing of it is to be kept any more.
    Deleted(String),
}

impl<T> WatchedChange<T> {
    /// Apply the change to the objects that are known.
    pub(super) fn apply(self, known: &mut BTreeMap<String, T>) {
        match self {
            Self::Listed(objects) => *known = objects.into_iter().collect(),
            Self::Changed(name, object) => drop(known.insert(name, object)),
            Self::Deleted(name) => drop(known.remove(&name)),
        }
    }
}

/// Watch the object of this name: yields it at each change, and `None` while it does not exist. The stream
/// goes on after an error, with the object as it is then.
pub(super) fn watch<K>(
    api: Api<K>,
    name: &str,
) -> impl Stream<Item = Result<Option<K>, ClusterError>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watch_changes(api, WatchSelection::Named(name.to_owned()), Some).map(|change| {
        Ok(match change? {
            WatchedChange::Listed(objects) => objects.into_iter().next().map(|(_, object)| object),
            WatchedChange::Changed(_, object) => Some(object),
            WatchedChange::Deleted(_) => None,
        })
    })
}

/// Watch all objects: yields what `keep` makes of each at each change, in the order of their names. The stream goes on
/// after an error, with all objects as they are then.
pub(super) fn watch_all<K, T>(
    api: Api<K>,
    keep: fn(K) -> T,
) -> impl Stream<Item = Result<Vec<T>, ClusterError>> + Send + use<K, T>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    T: Clone + Send + 'static,
{
    let mut known = BTreeMap::new();
    watch_changes(api, WatchSelection::All, move |object| Some(keep(object))).map(move |change| {
        change?.apply(&mut known);
        Ok(known.values().cloned().collect())
    })
}

/// Watch the selected objects, and keep of each what `keep` makes of it; `None` counts as deleted. The stream goes on
/// after an error, with a list.
pub(super) fn watch_changes<K, T, F>(
    api: Api<K>,
    selection: WatchSelection,
    keep: F,
) -> impl Stream<Item = Result<WatchedChange<T>, ClusterError>> + Send + use<K, T, F>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    T: Send + 'static,
    F: Fn(K) -> Option<T> + Send + Sync + 'static,
{
    let watch = Watch { api, selection, keep, version: None, open: None };
    unfold(watch, |mut watch| async {
        let seen = watch.next().await;
        Some((seen, watch))
    })
}

/// Read all objects of a list, by pieces if it has a limit, and what `keep` makes of each, with the resource version of the list.
pub(super) async fn list_by_pieces<K: Clone, T, P>(
    selected: ListParams,
    list: impl Fn(ListParams) -> P,
    keep: impl Fn(K) -> Option<T>,
) -> Result<(Vec<T>, Option<String>), ClusterError>
where
    P: Future<Output = Result<ObjectList<K>, kube::Error>>,
{
    let mut parameters = selected;
    let mut kept = Vec::new();
    loop {
        let piece = with_timeout(list(parameters.clone())).await?;
        kept.extend(piece.items.into_iter().filter_map(&keep));
        match piece.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok((kept, piece.metadata.resource_version)),
        }
    }
}

impl<K, F> Watch<K, F>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    async fn next<T>(&mut self) -> Result<WatchedChange<T>, ClusterError>
    where
        F: Fn(K) -> Option<T>,
    {
        loop {
            let Some(version) = self.version.clone() else { return self.list().await };
            if self.open.is_none() {
                match self.begin(&version).await {
                    Ok(open) => self.open = Some(open),
                    Err(error) => self.fail(error)?,
                }
            }
            let Some(OpenWatch { events, since, duration }) = &mut self.open else { continue };
            let (since, duration) = (*since, *duration);
            // Longest silence; after that the connection is dead.
            let silence = duration + GRACE;
            let Ok(event) = timeout(silence, events.next()).await else {
                self.begin_anew();
                return Err(ClusterError::TimedOut(silence));
            };
            match event {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    self.version = object.resource_version();
                    let name = object.name_any();
                    return Ok(match (self.keep)(object) {
                        Some(kept) => WatchedChange::Changed(name, kept),
                        None => WatchedChange::Deleted(name),
                    });
                }
                Some(Ok(WatchEvent::Deleted(object))) => {
                    self.version = object.resource_version();
                    return Ok(WatchedChange::Deleted(object.name_any()));
                }
                Some(Ok(WatchEvent::Bookmark(mark))) => self.version = Some(mark.metadata.resource_version),
                Some(Ok(WatchEvent::Error(status))) => self.fail(kube::Error::Api(status).into())?,
                Some(Err(error)) => self.fail(error.into())?,
                None => {
                    self.open = None;
                    if since.elapsed() < BRIEF {
                        self.begin_anew();
                        return Err(ClusterError::ServerError("watches end immediately".to_owned()));
                    }
                    sleep(pause(since.elapsed(), duration, boot::jitter())).await;
                }
            }
        }
    }

    async fn begin(&mut self, version: &str) -> Result<OpenWatch<K>, ClusterError> {
        let seconds = duration(boot::jitter());
        let mut parameters = WatchParams::default().timeout(seconds);
        parameters.field_selector = self.selection.fields();
        parameters.label_selector = self.selection.labels();
        let events = with_timeout(self.api.watch(&parameters, version)).await?.boxed();
        Ok(OpenWatch { events, since: Instant::now(), duration: Duration::from_secs(seconds.into()) })
    }

    /// Begin with a list again. It tells the caller that an error is over: nothing may change for hours.
    fn begin_anew(&mut self) {
        (self.open, self.version) = (None, None);
    }

    /// Handle a failed watch: an expired resource version leads to a new list at once, any other error to the caller's backoff.
    fn fail(&mut self, error: ClusterError) -> Result<(), ClusterError> {
        self.begin_anew();
        if matches!(error, ClusterError::Gone(_)) { Ok(()) } else { Err(error) }
    }

    async fn list<T>(&mut self) -> Result<WatchedChange<T>, ClusterError>
    where
        F: Fn(K) -> Option<T>,
    {
        let selected = ListParams {
            field_selector: self.selection.fields(),
            label_selector: self.selection.labels(),
            limit: self.selection.piece(),
            ..ListParams::default()
        };
        let keep = |object: K| {
            let name = object.name_any();
            (self.keep)(object).map(|kept| (name, kept))
        };
        let api = &self.api;
        let list = |piece: ListParams| async move { api.list(&piece).await };
        let (objects, version) = list_by_pieces(selected, list, keep).await?;
        // All pieces are of one moment: the changes after it follow.
        let no_version = || ClusterError::ServerError("a list has no resource version".to_owned());
        self.version = Some(version.ok_or_else(no_version)?);
        Ok(WatchedChange::Listed(objects))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use kube::{Client, Config};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Answer each request with the next of these statuses and bodies, and return the API of the server's Nodes.
    async fn server_with(answers: Vec<(&'static str, &'static str)>) -> Api<Node> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let mut config = Config::new(format!("http://{server}").parse().unwrap());
        config.default_retry = false;
        Api::all(Client::try_from(config).unwrap())
    }

    #[tokio::test]
    async fn objects_are_listed_after_an_error() {
        let list = r#"{"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
            "items": [{"metadata": {"name": "edge-7", "resourceVersion": "5"}}]}"#;
        let failure =
            r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "etcd", "code": 500}"#;
        let answers = vec![("200 OK", list), ("500 Internal Server Error", failure), ("200 OK", list)];
        let mut seen = Box::pin(watch(server_with(answers).await, "edge-7"));
        assert!(seen.next().await.unwrap().unwrap().is_some());
        let error = seen.next().await.unwrap().unwrap_err();
        assert!(matches!(error, ClusterError::ServerError(_)), "{error}");
        assert!(seen.next().await.unwrap().unwrap().is_some());
    }

    #[test]
    fn durations_spread_between_five_and_ten_minutes() {
        assert_eq!([0, 1, 500, 1000, 5000].map(duration), [300, 300, 450, 600, 600]);
    }

    #[test]
    fn nodes_whose_server_shuts_down_come_to_the_next_one_over_some_seconds() {
        let seconds = Duration::from_secs;
        let after =
            |lasted| [0, 500, 1000].map(|chance| pause(seconds(lasted), seconds(400), chance).as_millis());
        assert_eq!(after(2), [0, 2500, 5000]);
        assert_eq!(after(380), [0, 2500, 5000]);
        assert_eq!([after(390), after(400)], [[0; 3]; 2], "ended in time, spread by its duration");
    }
}

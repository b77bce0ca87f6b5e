//! Stand-in for the cluster's drain controller: answers the drain requests of nodes as a test says.

use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use kube::api::{Patch, PatchParams, WatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use super::{NODE, PREFIX};

/// Behaviour towards requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Answers {
    /// Answer at once.
    #[default]
    Promptly,
    /// Answer at once, and then a second time.
    Twice,
    /// Do not answer while this is set.
    Never,
}

pub struct Controller {
    answers: Arc<Mutex<Answers>>,
    changed: Arc<Notify>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Controller {
    pub fn start(runtime: &Runtime, client: Client) -> Self {
        let controller = Self { answers: Arc::default(), changed: Arc::default(), requests: Arc::default() };
        let (answers, changed, requests) =
            (controller.answers.clone(), controller.changed.clone(), controller.requests.clone());
        runtime.spawn(async move {
            let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(client);
            let parameters = WatchParams::default().fields(&format!("metadata.name={NODE}"));
            loop {
                // Start from the present state; the server ends a watch now and then.
                let mut news = nodes.watch(&parameters, "0").await.unwrap().boxed();
                loop {
                    tokio::select! {
                        event = news.next() => if event.is_none() { break },
                        () = changed.notified() => {}
                    }
                    answer(&nodes, &answers, &requests).await;
                }
            }
        });
        controller
    }

    /// Change the behaviour, for unanswered requests too.
    pub fn answer(&self, answers: Answers) {
        *self.answers.lock().unwrap() = answers;
        self.changed.notify_one();
    }

    /// Drain and uncordon requests so far, in order.
    pub fn drain_requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn answer(
    nodes: &Api<k8s_openapi::api::core::v1::Node>,
    answers: &Mutex<Answers>,
    requests: &Mutex<Vec<String>>,
) {
    let Ok(Some(node)) = nodes.get_opt(NODE).await else { return };
    let annotations = node.metadata.annotations.unwrap_or_default();
    let [desired, applied] =
        ["desiredDrain", "lastAppliedDrain"].map(|key| annotations.get(&format!("{PREFIX}{key}")));
    let Some(desired) = desired else { return };
    let answers = *answers.lock().unwrap();
    if applied == Some(desired) {
        return;
    }
    {
        let mut requests = requests.lock().unwrap();
        if requests.last() != Some(desired) {
            requests.push(desired.clone());
        }
    }
    // The real one cordons before it drains, and ignores a request that it completed last.
    if desired.starts_with("drain-") && node.spec.and_then(|spec| spec.unschedulable) != Some(true) {
        let patch = json!({"spec": {"unschedulable": true}});
        nodes.patch(NODE, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }
    let times = match answers {
        Answers::Never => 0,
        Answers::Promptly => 1,
        Answers::Twice => 2,
    };
    for time in 0..times {
        let is_cordoned = desired.starts_with("drain-");
        let patch = json!({
            "metadata": {"annotations": {
                format!("{PREFIX}lastAppliedDrain"): desired,
                "test/answer": format!("{desired} {time}")}},
            "spec": {"unschedulable": is_cordoned}});
        nodes.patch(NODE, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }
}

//! A stand-in for the cluster's drain controller: it answers what nodes ask for, in the way that it is told to.

use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, WatchParams},
};
use serde_json::json;
use tokio::{runtime::Runtime, sync::Notify};

use super::{NODE, PREFIX};

/// How it answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Answers {
    /// At once.
    #[default]
    Promptly,
    /// At once, and once more.
    Twice,
    /// Not as long as this holds.
    Never,
}

pub struct Controller {
    answers: Arc<Mutex<Answers>>,
    changed: Arc<Notify>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Controller {
    pub fn start(runtime: &Runtime, client: Client) -> Self {
        let controller = Self { answers: Arc::default(), changed: Arc::default(), asked: Arc::default() };
        let (answers, changed, asked) =
            (controller.answers.clone(), controller.changed.clone(), controller.asked.clone());
        runtime.spawn(async move {
            let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(client);
            let parameters = WatchParams::default().fields(&format!("metadata.name={NODE}"));
            loop {
                // From what is there now; the server ends a watch now and then.
                let mut news = nodes.watch(&parameters, "0").await.unwrap().boxed();
                loop {
                    tokio::select! {
                        event = news.next() => if event.is_none() { break },
                        () = changed.notified() => {}
                    }
                    answer(&nodes, &answers, &asked).await;
                }
            }
        });
        controller
    }

    /// From now on it answers so, also what was asked before.
    pub fn answer(&self, answers: Answers) {
        *self.answers.lock().unwrap() = answers;
        self.changed.notify_one();
    }

    /// What it was asked for, in order.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn answer(
    nodes: &Api<k8s_openapi::api::core::v1::Node>,
    answers: &Mutex<Answers>,
    asked: &Mutex<Vec<String>>,
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
        let mut asked = asked.lock().unwrap();
        if asked.last() != Some(desired) {
            asked.push(desired.clone());
        }
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

//! Views that the source publishes again, and the end of the seed.

use super::*;
use crate::core::daemon::node::annotations::{CURRENT_CONFIG, DESIRED_CONFIG};

fn source() -> (KubeSource, UnboundedReceiver<SourceEvent>) {
    let identity = crate::cluster::ClusterIdentity::of(
        std::path::Path::new("/nonexistent"),
        crate::cluster::RequestCounts::default(),
    );
    let (node, namespace) = ("edge-7".to_owned(), "default".to_owned());
    let cluster = ClusterClient { node, namespace, reader: identity.clone(), writer: identity };
    let (sender, events) = tokio::sync::mpsc::unbounded_channel();
    (KubeSource::new(cluster, sender), events)
}

fn node(uid: &str, annotations: &[(&str, &str)]) -> ObservedNode {
    let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    ObservedNode {
        uid: uid.into(),
        version: 1,
        annotations: annotations.collect(),
        labels: NodeAnnotations::new(),
    }
}

/// Let the source have published `lifecycle`.
fn publish(source: &mut KubeSource, lifecycle: Lifecycle, node: ObservedNode) {
    let view = LifecycleView { number: 7, lifecycle, irreconcilable: Arc::default() };
    source.views.push_back(view.clone());
    let publisher = source.publisher.clone();
    let outcome = PublishOutcome { view, node, publisher };
    source.published(Ok(Box::new(outcome)), &mut RetryTimer::default());
}

fn done(config: &str) -> Lifecycle {
    let current = ConfigRef { config: config.into(), image: None, digest: None };
    Lifecycle {
        phase: DaemonPhase::Done,
        desired: Some(current.clone()),
        current: Some(current),
        ..Lifecycle::default()
    }
}

#[test]
fn node_that_is_registered_anew_after_the_first_config_keeps_its_current_one() {
    let (mut source, mut events) = source();
    source.seed = node("", &[(CURRENT_CONFIG, "first"), (DESIRED_CONFIG, "first")]).annotations;
    let mut desired = || {
        let events = std::iter::from_fn(|| events.try_recv().ok());
        let desired = events.filter_map(|event| match event {
            SourceEvent::DesiredChanged(desired) => Some(desired.config.to_string()),
            _ => None,
        });
        desired.collect::<Vec<_>>()
    };
    source.node_changed(Some(node("1", &[])));
    assert_eq!(desired(), ["first"]);
    publish(&mut source, done("first"), node("1", &[(CURRENT_CONFIG, "first"), (DESIRED_CONFIG, "first")]));
    source.node_changed(Some(node("1", &[(CURRENT_CONFIG, "first"), (DESIRED_CONFIG, "next")])));
    assert_eq!(desired(), ["next"]);
    publish(&mut source, done("next"), node("1", &[(CURRENT_CONFIG, "next"), (DESIRED_CONFIG, "next")]));
    source.node_changed(Some(node("2", &[])));
    assert_eq!(desired(), Vec::<String>::new());
}

#[test]
fn conditions_are_published_again_once_the_drain_controller_has_answered() {
    let (mut source, _events) = source();
    let answered = |request| node("1", &[(CURRENT_CONFIG, "a"), (LAST_APPLIED_DRAIN, request)]);
    let again = |source: &KubeSource| source.views.iter().map(|view| view.number).collect::<Vec<u64>>();
    source.node_changed(Some(answered("drain-a")));
    publish(&mut source, done("a"), answered("drain-a"));
    source.node_changed(Some(answered("drain-a")));
    assert!(again(&source).is_empty());
    for _ in 0..2 {
        source.node_changed(Some(answered("uncordon-a")));
        assert_eq!(again(&source), [7], "one view at a time");
    }
    let view = source.views.pop_front().unwrap();
    publish(&mut source, view.lifecycle, answered("uncordon-a"));
    source.node_changed(Some(answered("uncordon-a")));
    assert!(again(&source).is_empty(), "once for each answer");
    // In other phases, an answer is that to the daemon's own request.
    let verifying = Lifecycle { phase: DaemonPhase::Verifying, ..done("a") };
    publish(&mut source, verifying, answered("uncordon-a"));
    source.node_changed(Some(answered("drain-a")));
    assert!(again(&source).is_empty());
}

#[test]
fn unwritten_conditions_are_tried_again_when_the_node_changes() {
    let (mut source, _events) = source();
    let node = node("1", &[]);
    let long_ago = Instant::now().checked_sub(LOOK_AGAIN).unwrap();
    source.published_at = Some((7, long_ago));
    source.node_changed(Some(node.clone()));
    assert!(source.views.is_empty(), "the conditions are written");
    source.publisher.leave_unwritten("the object is missing".into());
    for _ in 0..2 {
        source.node_changed(Some(node.clone()));
        let numbers: Vec<u64> = source.views.iter().map(|view| view.number).collect();
        assert_eq!(numbers, [7], "one view at a time");
    }
    source.views.clear();
    source.published_at = Some((7, Instant::now()));
    source.node_changed(Some(node));
    assert!(source.views.is_empty(), "at most once a minute");
}

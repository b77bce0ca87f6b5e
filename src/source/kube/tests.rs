//! Times of retries of the source.

use super::*;
use crate::cluster::BusyServer;

fn delay_after(failures: u32, error: &ClusterError) -> Duration {
    let mut timer = RetryTimer::default();
    let before = Instant::now();
    for _ in 0..failures {
        timer.fail(error);
    }
    timer.next.unwrap() - before
}

#[test]
fn unwritten_conditions_are_tried_again_when_the_node_changes() {
    let identity = crate::cluster::ClusterIdentity::of(
        std::path::Path::new("/nonexistent"),
        crate::cluster::RequestCounts::default(),
    );
    let (node, namespace) = ("edge-7".to_owned(), "default".to_owned());
    let cluster = ClusterClient { node, namespace, reader: identity.clone(), writer: identity };
    let mut source = KubeSource::new(cluster, tokio::sync::mpsc::unbounded_channel().0);
    let node = ObservedNode {
        uid: "1".into(),
        version: 1,
        annotations: NodeAnnotations::new(),
        labels: NodeAnnotations::new(),
    };
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

#[test]
fn retries_wait_for_the_time_that_the_server_asked_for() {
    let asked = Duration::from_secs(100);
    let busy = ClusterError::Busy(BusyServer { status: 429, retry_after: asked });
    assert!((asked..asked + Duration::from_secs(6)).contains(&delay_after(1, &busy)));
    let failed = ClusterError::ServerError("500".into());
    assert!(delay_after(1, &failed) < Duration::from_secs(6));
    assert!((Duration::from_secs(6)..Duration::from_secs(11)).contains(&delay_after(3, &failed)));
}

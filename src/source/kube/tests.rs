//! Views that the source publishes again.

use super::*;

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

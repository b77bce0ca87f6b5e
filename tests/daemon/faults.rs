//! An API server that is away, slow or broken: nothing is done on stale wishes, and what was missed is caught up with.

use std::time::Duration;

use crate::{
    cluster::{Answers, Cluster, Fault},
    config::whole,
};

/// Each of them comes, and goes, and what is wanted since is caught up with.
fn outlast(faults: &[Fault]) {
    let Some((host, cluster)) = Cluster::with_node_on("one") else { return };
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    for fault in faults {
        cluster.proxy.fail(*fault);
        agent.says("warn: ");
        cluster.want("rendered-none");
        cluster.proxy.fail(Fault::None);
        agent.says("Waiting rendered-none, on rendered-one: the cluster has no machineconfigs");
        cluster.want("rendered-one");
        agent.says("Done rendered-one");
    }
}

#[test]
fn connections_that_break_are_outlasted() {
    outlast(&[Fault::Reset, Fault::Half]);
}

#[test]
fn refusals_are_outlasted() {
    outlast(&[Fault::Status(401), Fault::Status(410), Fault::Status(500)]);
}

#[test]
fn an_update_goes_through_a_slow_api_server() {
    let Some((host, cluster)) = Cluster::with_node_on("one") else { return };
    cluster.render(whole("two").json());
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.proxy.fail(Fault::Late(Duration::from_millis(300)));
    cluster.want("rendered-two");
    agent.says("GoingDown rendered-two");
}

#[test]
fn nothing_is_rebooted_while_nobody_can_say_that_it_is_still_wanted() {
    let Some((host, cluster)) = Cluster::with_node_on("one") else { return };
    cluster.render(whole("two").json());
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.controller.answer(Answers::Never);
    cluster.want("rendered-two");
    agent.says("Draining rendered-two");
    cluster.proxy.fail(Fault::Silence);
    // The workload leaves, and the wish is taken back, while nobody can tell the node.
    cluster.controller.answer(Answers::Promptly);
    cluster.want("rendered-one");
    cluster.proxy.fail(Fault::None);
    agent.says("Done rendered-one");
    assert!(!host.is_staged());
    assert!(agent.logind.calls().is_empty(), "{:?}", agent.logind.calls());
}

//! Host that no config is desired for.

use osimage::Os;
use testbed::booted::config::full_config;
use testbed::booted::host::Host;
use testbed::control_plane::Cluster;

#[test]
fn host_without_record_and_seed_is_degraded_until_its_node_names_a_config() {
    let host = Host::install(Os::new(1));
    let cluster = Cluster::start(&[]);
    cluster.render(full_config("one").json());
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("BackingOff: this host has no record of an applied config");
    cluster.wait_for_write("state=Degraded");
    cluster.wait_for_write("NodeDegraded: True");
    let reason = cluster.annotation("reason").unwrap();
    assert!(reason.contains("`flameholder adopt`") && reason.contains("`flameholder firstboot`"), "{reason}");
    cluster.set_desired_config("rendered-one");
    agent.wait_for_line("ShuttingDown rendered-one");
}

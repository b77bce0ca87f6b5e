//! Deployments of other programs, into which libostree's merge copies the documents of a newer release.

use testbed::booted::config::{assert_config, full_config};
use testbed::booted::release::AgentRelease::{Next, This};

use super::life::UpdateLife;

#[test]
fn foreign_deployment_with_the_mark_of_a_newer_release_serves() {
    let mut life = UpdateLife::begin(Next, true);
    life.take_acts(5);
    let host = life.host;
    let commit = host.booted().id().0;
    host.run_ok(["ostree", "admin", "deploy", "--os=fedora-coreos", &commit]);
    assert!(host.default().at("etc/flameholder/unconfirmed").exists(), "the merge copies the mark");
    host.install_agent(This);
    host.shut_down();
    host.boot_kernel(0);
    let activated = host.run(["flameholder", "activate"]);
    assert!(activated.code == Some(0) && host.workload_starts(), "{activated:?}");
}

#[test]
fn update_staged_by_a_newer_release_is_staged_again_at_once() {
    let life = UpdateLife::begin(Next, true);
    let host = life.host;
    let two = host.config(full_config("two").json());
    host.stage_update(&two, None);
    host.install_agent(This);
    let refused = host.apply(&two, None);
    assert!(refused.code == Some(1) && refused.stderr.contains("away to start over"), "{refused:?}");
    std::fs::remove_file(host.etc("flameholder/generation")).unwrap();
    host.update(&two, None);
    assert_config(&host, "two", "one");
    host.assert_no_drift();
}

//! Updates that nothing disturbs.

use osimage::Os;

use crate::rpm_ostree::bus::Bus;
use testbed::booted::{
    config::{ensure_is, whole},
    host::{Host, ensure_asked},
};

#[test]
fn an_image_is_the_daemons_and_all_else_is_not() {
    let host = Host::install(Os::new(1));
    let (first, image) = (host.config(whole("one").json()), host.image(&Os::new(2)));
    let bus = Bus::start(&host);
    let outcome = host.apply(&first, Some(&image));
    ensure_asked(&outcome);
    let status = host.status();
    assert_eq!(status["pending"]["rpmOstreeTransactions"], 1, "{status} {outcome:?}");
    drop(bus);
    host.reboot();
    ensure_is(&host, "one", "two");
    host.ensure_whole();
    assert!(host.etc("os/version-2.conf").exists(), "the new image runs");
}

//! An image update without any disturbance.

use osimage::Os;
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::{Host, assert_unlocked};

use crate::rpm_ostree::peers::bus::Bus;

#[test]
fn image_is_deployed_by_the_daemon_and_config_by_us() {
    let host = Host::install(Os::new(1));
    let (first, image) = (host.config(full_config("one").json()), host.image(&Os::new(2)));
    let bus = Bus::start(&host);
    let outcome = host.apply(&first, Some(&image));
    assert_unlocked(&outcome);
    let status = host.status();
    assert_eq!(status["pending"]["rpmOstreeTransactions"], 1, "{status} {outcome:?}");
    drop(bus);
    host.reboot();
    assert_config(&host, "one", "two");
    host.assert_no_drift();
    assert!(host.etc("os/version-2.conf").exists(), "the new image runs");
}

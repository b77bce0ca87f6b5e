//! Ended transactions leave no descriptor and no client registration.

use std::fs;
use std::time::Instant;

use flameholder::os::rpm_ostree::transaction::RpmOstreeOutcome;
use rpmostreed::Faults;

use crate::rpm_ostree::client::{DaemonHost, unchanged};

const TRANSACTIONS: usize = 1000;

#[test]
fn a_thousand_transactions_leave_no_descriptor_and_no_registration() {
    let fixture = DaemonHost::with_idle(&Faults::default(), 1000);
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    fixture.runtime.block_on(async {
        let request = unchanged();
        fixture.request(&request).await.0.unwrap();
        let (before, started) = (open(), Instant::now());
        for number in 0..TRANSACTIONS {
            let (outcome, _) = fixture.request(&request).await;
            assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded, "transaction {number}");
        }
        eprintln!("{TRANSACTIONS} transactions in {:?}", started.elapsed());
        assert!(open() <= before + 1, "{} descriptors, {before} before", open());
        // The daemon would stay if a client were still registered.
        let address = crate::rpm_ostree::peers::bus::address(&fixture.host);
        let bus = zbus::connection::Builder::address(address.as_str()).unwrap().build().await.unwrap();
        let bus = zbus::fdo::DBusProxy::new(&bus).await.unwrap();
        let end = Instant::now() + std::time::Duration::from_secs(30);
        while bus.name_has_owner(rpmostreed::NAME.try_into().unwrap()).await.unwrap() {
            assert!(Instant::now() < end, "the daemon does not exit");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    });
}

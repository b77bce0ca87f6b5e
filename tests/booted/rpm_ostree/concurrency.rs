//! The daemon runs one transaction at a time: waiting for those of other clients.

use std::time::Duration;

use flameholder::os::rpm_ostree::RpmOstreeDeadlines;
use flameholder::os::rpm_ostree::daemon::RpmOstreeError;
use flameholder::os::rpm_ostree::failure::RpmOstreeFailure;
use flameholder::os::rpm_ostree::transaction::RpmOstreeOutcome;
use rpmostreed::Faults;

use crate::rpm_ostree::client::{DEADLINES, DaemonHost, has_waited, unchanged};
use crate::rpm_ostree::peers::stranger::{Peer, Stranger};

#[test]
fn busy_error_names_the_transaction_after_the_timeout() {
    let fixture = DaemonHost::new(&Faults::default());
    let deadlines = RpmOstreeDeadlines { busy_timeout: Duration::from_millis(300), ..DEADLINES };
    fixture.runtime.block_on(async {
        // A transaction that was created and never started blocks as well.
        let stranger = Stranger::connect(&fixture).await;
        stranger.change_nothing().await;
        let (outcome, _) = fixture.request_with(deadlines, &unchanged(), std::future::pending()).await;
        let RpmOstreeError::Busy(with) = outcome.unwrap_err() else { panic!("the daemon is busy") };
        let expected =
            format!("Transaction in progress: new-deployment (PkgChange, started by {})", stranger.name());
        assert_eq!(with.to_string(), expected);
    });
}

#[test]
fn equal_requests_are_not_joined() {
    let fixture = DaemonHost::new(&Faults { slow: 2000, ..Faults::default() });
    fixture.runtime.block_on(async {
        let request = fixture.rebase();
        let (first, second) = tokio::join!(fixture.request(&request), fixture.request(&request));
        let told = |events: &[_]| has_waited(events, "Transaction in progress");
        assert!(told(&first.1) != told(&second.1), "exactly one waits for the other: {first:?} {second:?}");
        let late = if told(&first.1) { first.0 } else { second.0 };
        // The second request has a result of its own.
        let RpmOstreeOutcome::Failed(text) = late.unwrap() else { panic!("the second request fails") };
        assert_eq!(RpmOstreeFailure::of(&text.to_string(), request.image()), RpmOstreeFailure::RefsEqual);
    });
}

#[test]
fn sysroot_lock_of_another_program_is_waited_for() {
    let fixture = DaemonHost::new(&Faults::default());
    let lock = fixture.host.sysroot().join("ostree/lock");
    let lock = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(lock).unwrap();
    rustix::fs::fcntl_lock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    fixture.runtime.block_on(async {
        let (daemon, mut lock, mut events) = (fixture.daemon(DEADLINES).await, Some(lock), Vec::new());
        let mut event = |event| {
            events.push(event);
            // Released at the first report of waiting.
            lock = None;
        };
        let outcome = daemon.layer(&unchanged(), &mut event, std::future::pending()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(has_waited(&events, "System transaction in progress"), "{events:?}");
    });
}

#[test]
fn daemon_refuses_while_the_host_reboots() {
    let text = "Reboot initiated, cannot start new transaction";
    let fixture = DaemonHost::new(&Faults { refuse: Some(text.to_owned()), ..Faults::default() });
    let (outcome, _) = fixture.runtime.block_on(fixture.request(&unchanged()));
    let RpmOstreeError::Refused(cause) = outcome.unwrap_err() else { panic!("the daemon refuses") };
    assert_eq!(cause.to_string(), text);
}

#[test]
fn transaction_started_by_another_client_succeeds() {
    let fixture = DaemonHost::new(&Faults { slow: 3000, ..Faults::default() });
    fixture.runtime.block_on(async {
        let socket = crate::rpm_ostree::peers::bus::socket(&fixture.host);
        let meddler = async {
            while !socket.exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let mut peer = Peer::connect(&format!("unix:path={}", socket.display())).await;
            peer.start().await;
            peer.finished().await
        };
        let request = unchanged();
        let ((outcome, _), (success, _)) = tokio::join!(fixture.request(&request), meddler);
        assert!(success && outcome.unwrap() == RpmOstreeOutcome::Succeeded);
    });
}

//! One transaction at a time, and what the client does about the others.

use std::time::Duration;

use flameholder::os::rpm_ostree::RpmOstreeDeadlines;
use flameholder::os::rpm_ostree::daemon::RpmOstreeError;
use flameholder::os::rpm_ostree::failure::RpmOstreeFailure;
use flameholder::os::rpm_ostree::transaction::RpmOstreeOutcome;
use rpmostreed::Faults;

use crate::rpm_ostree::{
    client::{DEADLINES, Seen, nothing, waited},
    peers::stranger::{Peer, Stranger},
};

#[test]
fn whoever_keeps_it_busy_is_named_once_patience_is_over() {
    let seen = Seen::new(&Faults::default());
    let deadlines = RpmOstreeDeadlines { busy_timeout: Duration::from_millis(300), ..DEADLINES };
    seen.runtime.block_on(async {
        // Called for, and never started: that counts as well.
        let stranger = Stranger::connect(&seen).await;
        stranger.change_nothing().await;
        let (outcome, _) = seen.ask(deadlines, &nothing(), std::future::pending()).await;
        let RpmOstreeError::Busy(with) = outcome.unwrap_err() else { panic!("it is busy") };
        let expected =
            format!("Transaction in progress: new-deployment (PkgChange, started by {})", stranger.name());
        assert_eq!(with.to_string(), expected);
    });
}

#[test]
fn equal_calls_are_not_joined() {
    let seen = Seen::new(&Faults { slow: 2000, ..Faults::default() });
    seen.runtime.block_on(async {
        let request = seen.rebase();
        let (first, second) = tokio::join!(seen.asked(&request), seen.asked(&request));
        let told = |said: &[_]| waited(said, "Transaction in progress");
        assert!(told(&first.1) != told(&second.1), "one waits for the other: {first:?} {second:?}");
        let late = if told(&first.1) { first.0 } else { second.0 };
        // The result is its own, not the earlier one's.
        let RpmOstreeOutcome::Failed(text) = late.unwrap() else { panic!("it comes second") };
        assert_eq!(RpmOstreeFailure::of(&text.to_string(), request.image()), RpmOstreeFailure::RefsEqual);
    });
}

#[test]
fn a_lock_of_another_program_is_waited_for() {
    let seen = Seen::new(&Faults::default());
    let lock = seen.host.sysroot().join("ostree/lock");
    let lock = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(lock).unwrap();
    rustix::fs::fcntl_lock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    seen.runtime.block_on(async {
        let (daemon, mut lock, mut said) = (seen.daemon(DEADLINES).await, Some(lock), Vec::new());
        let mut news = |news| {
            said.push(news);
            // Given back once it is waited for.
            lock = None;
        };
        let outcome = daemon.layer(&nothing(), &mut news, std::future::pending()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(waited(&said, "System transaction in progress"), "{said:?}");
    });
}

#[test]
fn a_host_that_goes_down_begins_nothing() {
    let text = "Reboot initiated, cannot start new transaction";
    let seen = Seen::new(&Faults { refuse: Some(text.to_owned()), ..Faults::default() });
    let (outcome, _) = seen.runtime.block_on(seen.asked(&nothing()));
    let RpmOstreeError::Refused(cause) = outcome.unwrap_err() else { panic!("it refuses") };
    assert_eq!(cause.to_string(), text);
}

#[test]
fn a_start_by_somebody_else_is_as_good() {
    let seen = Seen::new(&Faults { slow: 3000, ..Faults::default() });
    seen.runtime.block_on(async {
        let socket = crate::rpm_ostree::peers::bus::socket(&seen.host);
        let meddler = async {
            while !socket.exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let mut peer = Peer::connect(&format!("unix:path={}", socket.display())).await;
            peer.start().await;
            peer.finished().await
        };
        let request = nothing();
        let ((outcome, _), (success, _)) = tokio::join!(seen.asked(&request), meddler);
        assert!(success && outcome.unwrap() == RpmOstreeOutcome::Succeeded);
    });
}

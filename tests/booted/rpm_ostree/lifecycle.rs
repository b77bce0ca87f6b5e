//! Transactions whose client or daemon disconnects, cancels or hangs, and the outcome that the client reports.

use std::time::Duration;

use flameholder::os::rpm_ostree::RpmOstreeDeadlines;
use flameholder::os::rpm_ostree::transaction::{CancelledBy, RpmOstreeOutcome, follow};
use rpmostreed::{Die, Faults};

use crate::rpm_ostree::client::{DEADLINES, DaemonHost, has_waited, unchanged};
use crate::rpm_ostree::peers::stranger::{Peer, Stranger};

/// A transaction that lasts longer than any test.
const SLOW: Faults = Faults {
    fail: None,
    refuse: None,
    slow: 10_000,
    slow_layers: 0,
    die: None,
    die_once: false,
    die_at: None,
    early_result: false,
    linger: 0,
    mute: false,
    deaf: false,
    lie: false,
    script_fails: false,
    cancelled_late: false,
};

fn slow(milliseconds: u64) -> Faults {
    Faults { slow: milliseconds, ..Faults::default() }
}

#[test]
fn unstarted_transaction_ends_with_its_caller() {
    let fixture = DaemonHost::new(&Faults::default());
    fixture.runtime.block_on(async {
        let stranger = Stranger::connect(&fixture).await;
        stranger.change_nothing().await;
        drop(stranger);
        let (outcome, _) = fixture.request(&unchanged()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
    });
}

#[test]
fn running_transaction_outlives_its_caller_and_is_waited_for() {
    let fixture = DaemonHost::new(&slow(3000));
    fixture.runtime.block_on(async {
        let stranger = Stranger::connect(&fixture).await;
        let peer = Peer::connect(&stranger.change_nothing().await).await;
        assert!(peer.start().await);
        drop((peer, stranger));
        let (outcome, events) = fixture.request(&unchanged()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(has_waited(&events, "Transaction in progress: uninstall"), "{events:?}");
        assert!(has_waited(&events, "(PkgChange, started by :1."), "{events:?}");
    });
}

#[test]
fn transaction_is_cancelled_by_its_caller() {
    let fixture = DaemonHost::new(&SLOW);
    fixture.runtime.block_on(async {
        let (outcome, _) = fixture.request_until_first_event(&fixture.rebase()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Cancelled(CancelledBy::Caller));
        // The cancelled transaction does not obstruct the next one.
        crate::rpm_ostree::peers::bus::fail(&fixture.host, &Faults::default());
        assert_eq!(fixture.request(&fixture.rebase()).await.0.unwrap(), RpmOstreeOutcome::Succeeded);
    });
}

#[test]
fn waiting_for_another_transaction_can_be_cancelled() {
    let fixture = DaemonHost::new(&Faults::default());
    fixture.runtime.block_on(async {
        let stranger = Stranger::connect(&fixture).await;
        stranger.change_nothing().await;
        let (outcome, events) = fixture.request_until_first_event(&unchanged()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Cancelled(CancelledBy::Caller), "{events:?}");
    });
}

#[test]
fn transaction_cancelled_too_late_succeeds() {
    let fixture = DaemonHost::new(&Faults { deaf: true, ..slow(1000) });
    fixture.runtime.block_on(async {
        let (outcome, _) = fixture.request_until_first_event(&unchanged()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
    });
}

#[test]
fn silent_transaction_is_cancelled_at_the_deadline() {
    let fixture = DaemonHost::new(&SLOW);
    let deadlines = RpmOstreeDeadlines { idle_timeout: Duration::from_millis(500), ..DEADLINES };
    let (outcome, _) =
        fixture.runtime.block_on(fixture.request_with(deadlines, &unchanged(), std::future::pending()));
    assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Cancelled(CancelledBy::Deadline));
}

#[test]
fn transaction_that_ignores_cancellation_has_unknown_outcome() {
    let fixture = DaemonHost::new(&Faults { mute: true, ..Faults::default() });
    let short = Duration::from_millis(500);
    let deadlines = RpmOstreeDeadlines { idle_timeout: short, stop: short, ..DEADLINES };
    let (outcome, _) =
        fixture.runtime.block_on(fixture.request_with(deadlines, &unchanged(), std::future::pending()));
    let RpmOstreeOutcome::Unknown(text) = outcome.unwrap() else { panic!("the outcome is unknown") };
    assert_eq!(text.to_string(), "the transaction was cancelled but did not stop in time");
}

#[test]
fn lingering_peer_is_waited_for_until_disconnected() {
    let fixture = DaemonHost::new(&Faults { linger: 4000, ..Faults::default() });
    fixture.runtime.block_on(async {
        let stranger = Stranger::connect(&fixture).await;
        let mut peer = Peer::connect(&stranger.change_nothing().await).await;
        assert!(peer.start().await);
        assert!(peer.finished().await.0);
        let (outcome, events) = fixture.request(&unchanged()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(has_waited(&events, "Transaction in progress: uninstall"), "{events:?}");
    });
}

#[test]
fn missed_result_is_repeated_until_the_socket_closes() {
    let fixture = DaemonHost::new(&Faults::default());
    fixture.runtime.block_on(async {
        let stranger = Stranger::connect(&fixture).await;
        let address = stranger.change_nothing().await;
        let mut peer = Peer::connect(&address).await;
        assert!(peer.start().await);
        peer.finished().await;
        let again = |caller: String| {
            let address = address.clone();
            async move { follow(&address, &caller, &DEADLINES, &mut |_| (), std::future::pending()).await }
        };
        assert_eq!(again(stranger.name()).await, RpmOstreeOutcome::Succeeded);
        // Another caller does not receive the result.
        let RpmOstreeOutcome::Unknown(text) = again(":1.4711".to_owned()).await else {
            panic!("it belongs to another caller")
        };
        assert!(text.to_string().contains("now belongs to another transaction, of caller :1."), "{text}");
        drop(peer);
        let socket = crate::rpm_ostree::peers::bus::socket(&fixture.host);
        while socket.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let RpmOstreeOutcome::Unknown(text) = again(stranger.name()).await else {
            panic!("the socket is closed")
        };
        assert!(text.to_string().contains("No such file or directory"), "{text}");
    });
}

#[test]
fn daemon_death_ends_the_wait() {
    for die in [Die::AtCall, Die::BeforeStart, Die::Midway, Die::BeforeFinished] {
        let faults = Faults { die: Some(die), ..Faults::default() };
        let fixture = DaemonHost::new(&faults);
        fixture.runtime.block_on(async {
            let (outcome, _) = fixture.request(&fixture.rebase()).await;
            assert!(matches!(outcome.unwrap(), RpmOstreeOutcome::Unknown(_)), "{die:?}");
            // Its socket file still exists, without a listener.
            let address = format!("unix:path={}", crate::rpm_ostree::peers::bus::socket(&fixture.host).display());
            let stale = follow(&address, ":1.1", &DEADLINES, &mut |_| (), std::future::pending()).await;
            assert!(matches!(stale, RpmOstreeOutcome::Unknown(_)), "{die:?}");
            crate::rpm_ostree::peers::bus::fail(&fixture.host, &Faults::default());
            let (outcome, _) = fixture.request(&fixture.rebase()).await;
            let outcome = outcome.unwrap();
            let is_there =
                matches!(&outcome, RpmOstreeOutcome::Failed(text) if text.to_string().contains("refs are equal"));
            assert!(outcome == RpmOstreeOutcome::Succeeded || is_there, "{die:?}: {outcome:?}");
        });
    }
}

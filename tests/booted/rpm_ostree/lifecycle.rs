//! What becomes of a transaction when somebody leaves, and what the client makes of it.

use std::time::Duration;

use flameholder::os::rpm_ostree::RpmOstreeDeadlines;
use flameholder::os::rpm_ostree::transaction::{CancelledBy, RpmOstreeOutcome, follow};
use rpmostreed::{Die, Faults};

use crate::rpm_ostree::{
    client::{DEADLINES, Seen, nothing, waited},
    peers::stranger::{Peer, Stranger},
};

/// It takes so long that nobody needs to hurry.
const SLOW: Faults = Faults {
    fail: None,
    refuse: None,
    slow: 10_000,
    die: None,
    die_at: None,
    early_result: false,
    linger: 0,
    mute: false,
    deaf: false,
    lie: false,
};

fn slow(milliseconds: u64) -> Faults {
    Faults { slow: milliseconds, ..Faults::default() }
}

#[test]
fn one_that_is_never_started_goes_with_its_caller() {
    let seen = Seen::new(&Faults::default());
    seen.runtime.block_on(async {
        let stranger = Stranger::connect(&seen).await;
        stranger.change_nothing().await;
        drop(stranger);
        let (outcome, _) = seen.asked(&nothing()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
    });
}

#[test]
fn one_that_runs_goes_on_without_its_caller_and_is_waited_for() {
    let seen = Seen::new(&slow(3000));
    seen.runtime.block_on(async {
        let stranger = Stranger::connect(&seen).await;
        let peer = Peer::connect(&stranger.change_nothing().await).await;
        assert!(peer.start().await);
        drop((peer, stranger));
        let (outcome, said) = seen.asked(&nothing()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(waited(&said, "Transaction in progress: uninstall"), "{said:?}");
        assert!(waited(&said, "(PkgChange, started by :1."), "{said:?}");
    });
}

#[test]
fn it_is_cancelled_by_whoever_waits_for_it() {
    let seen = Seen::new(&SLOW);
    seen.runtime.block_on(async {
        let (outcome, _) = seen.ask_until_it_speaks(&nothing()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Cancelled(CancelledBy::Caller));
        // And nothing is left that would be in the way.
        crate::rpm_ostree::peers::bus::fail(&seen.host, &Faults::default());
        assert_eq!(seen.asked(&seen.rebase()).await.0.unwrap(), RpmOstreeOutcome::Succeeded);
    });
}

#[test]
fn waiting_for_others_can_be_ended() {
    let seen = Seen::new(&Faults::default());
    seen.runtime.block_on(async {
        let stranger = Stranger::connect(&seen).await;
        stranger.change_nothing().await;
        let (outcome, said) = seen.ask_until_it_speaks(&nothing()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Cancelled(CancelledBy::Caller), "{said:?}");
    });
}

#[test]
fn what_is_cancelled_too_late_has_succeeded() {
    let seen = Seen::new(&Faults { deaf: true, ..slow(1000) });
    seen.runtime.block_on(async {
        let (outcome, _) = seen.ask_until_it_speaks(&nothing()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
    });
}

#[test]
fn one_that_says_nothing_for_too_long_is_cancelled() {
    let seen = Seen::new(&SLOW);
    let deadlines = RpmOstreeDeadlines { idle_timeout: Duration::from_millis(500), ..DEADLINES };
    let (outcome, _) = seen.runtime.block_on(seen.ask(deadlines, &nothing(), std::future::pending()));
    assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Cancelled(CancelledBy::Deadline));
}

#[test]
fn one_that_does_not_even_end_then_is_left() {
    let seen = Seen::new(&Faults { mute: true, ..Faults::default() });
    let short = Duration::from_millis(500);
    let deadlines = RpmOstreeDeadlines { idle_timeout: short, stop: short, ..DEADLINES };
    let (outcome, _) = seen.runtime.block_on(seen.ask(deadlines, &nothing(), std::future::pending()));
    let RpmOstreeOutcome::Unknown(text) = outcome.unwrap() else { panic!("nobody knows") };
    assert_eq!(text.to_string(), "the transaction was cancelled but did not stop in time");
}

#[test]
fn a_peer_that_stays_is_waited_for_until_it_is_thrown_out() {
    let seen = Seen::new(&Faults { linger: 4000, ..Faults::default() });
    seen.runtime.block_on(async {
        let stranger = Stranger::connect(&seen).await;
        let mut peer = Peer::connect(&stranger.change_nothing().await).await;
        assert!(peer.start().await);
        assert!(peer.finished().await.0);
        let (outcome, said) = seen.asked(&nothing()).await;
        assert_eq!(outcome.unwrap(), RpmOstreeOutcome::Succeeded);
        assert!(waited(&said, "Transaction in progress: uninstall"), "{said:?}");
    });
}

#[test]
fn a_result_that_was_missed_is_told_again_until_the_socket_is_closed() {
    let seen = Seen::new(&Faults::default());
    seen.runtime.block_on(async {
        let stranger = Stranger::connect(&seen).await;
        let address = stranger.change_nothing().await;
        let mut peer = Peer::connect(&address).await;
        assert!(peer.start().await);
        peer.finished().await;
        let again = |caller: String| {
            let address = address.clone();
            async move { follow(&address, &caller, &DEADLINES, &mut |_| (), std::future::pending()).await }
        };
        assert_eq!(again(stranger.name()).await, RpmOstreeOutcome::Succeeded);
        // Whoever did not call for it is not told that it was theirs.
        let RpmOstreeOutcome::Unknown(text) = again(":1.4711".to_owned()).await else { panic!("another's") };
        assert!(text.to_string().contains("now belongs to another transaction, of caller :1."), "{text}");
        drop(peer);
        let socket = crate::rpm_ostree::peers::bus::socket(&seen.host);
        while socket.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let RpmOstreeOutcome::Unknown(text) = again(stranger.name()).await else { panic!("it is gone") };
        assert!(text.to_string().contains("No such file or directory"), "{text}");
    });
}

#[test]
fn a_daemon_that_dies_leaves_nobody_waiting() {
    for die in [Die::AtCall, Die::BeforeStart, Die::Midway, Die::BeforeFinished] {
        let faults = Faults { die: Some(die), ..Faults::default() };
        let seen = Seen::new(&faults);
        seen.runtime.block_on(async {
            let (outcome, _) = seen.asked(&seen.rebase()).await;
            assert!(matches!(outcome.unwrap(), RpmOstreeOutcome::Unknown(_)), "{die:?}");
            // Its socket is still there, and nobody behind it.
            let address = format!("unix:path={}", crate::rpm_ostree::peers::bus::socket(&seen.host).display());
            let stale = follow(&address, ":1.1", &DEADLINES, &mut |_| (), std::future::pending()).await;
            assert!(matches!(stale, RpmOstreeOutcome::Unknown(_)), "{die:?}");
            crate::rpm_ostree::peers::bus::fail(&seen.host, &Faults::default());
            let (outcome, _) = seen.asked(&seen.rebase()).await;
            let outcome = outcome.unwrap();
            let is_there =
                matches!(&outcome, RpmOstreeOutcome::Failed(text) if text.to_string().contains("refs are equal"));
            assert!(outcome == RpmOstreeOutcome::Succeeded || is_there, "{die:?}: {outcome:?}");
        });
    }
}

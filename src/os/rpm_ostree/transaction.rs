//! One rpm-ostreed transaction: connect to its socket, start it, follow it to its end.
//!
//! The socket is a peer-to-peer D-Bus connection. All connected clients receive the same signals, and each
//! may start or cancel the transaction. The signal `Finished` carries the result; it may arrive before or
//! after the reply to `Start`. A connection that closes without `Finished` leaves the result unknown.

use std::future::Future;
use std::pin::pin;

use futures_lite::StreamExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until, timeout};
use zbus::message::{Message, Type};
use zbus::zvariant::{DynamicType, OwnedValue};
use zbus::{Connection, MessageStream};

use super::RpmOstreeDeadlines;
use crate::os::RedactedCause;

const INTERFACE: &str = "org.projectatomic.rpmostree1.Transaction";

/// Number of messages that the connection buffers.
const QUEUED: usize = 4096;

/// End of the error text of a cancelled transaction. Once something is staged, the step that was cancelled precedes it, such
/// as `syscore cleanup: `.
const WAS_CANCELLED: &str = "operation was cancelled";

/// Result of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RpmOstreeOutcome {
    Succeeded,
    /// The transaction failed with this text.
    Failed(RedactedCause),
    Cancelled(CancelledBy),
    /// No result was received: the deployments must be inspected.
    Unknown(RedactedCause),
}

/// Cause of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelledBy {
    /// Cancelled by the caller of [`follow`].
    Caller,
    /// No event within [`RpmOstreeDeadlines::idle_timeout`].
    Deadline,
    /// Cancelled by another client: any local user can.
    OtherClient,
}

/// Progress event of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RpmOstreeEvent {
    /// Not started yet: waiting for another client's transaction, described here.
    Busy(String),
    /// Line of text.
    Message(String),
    TaskBegin(String),
    TaskEnd(String),
    /// Name of a task and its progress in percent.
    PercentProgress(String, u32),
}

/// Start the transaction at the D-Bus address `address` and follow it to its end. The transaction must have
/// been created by `caller`, a unique bus name. When `to_cancel` completes, the transaction is cancelled.
pub async fn follow(
    address: &str,
    caller: &str,
    deadlines: &RpmOstreeDeadlines,
    on_event: &mut (dyn FnMut(RpmOstreeEvent) + '_),
    to_cancel: impl Future<Output = ()>,
) -> RpmOstreeOutcome {
    let connected = timeout(deadlines.answer, connect(address)).await;
    let peer = match connected {
        Ok(Ok(peer)) => peer,
        Ok(Err(error)) => {
            return unknown(&format!("cannot connect to the transaction's socket {address}: {error}"));
        }
        Err(_) => return unknown(&format!("the transaction's socket {address} does not answer")),
    };
    let outcome = run_transaction(&peer, caller, deadlines, on_event, to_cancel).await;
    // Close at once: rpm-ostreed accepts no other transaction before the last peer has disconnected.
    let closed = timeout(deadlines.answer, peer.0.close()).await;
    if !matches!(closed, Ok(Ok(()))) {
        log::debug!("cannot close the transaction's socket");
    }
    outcome
}

/// Peer-to-peer connection to the transaction's socket. Without a bus there is no `Hello` and messages carry
/// no names.
struct Peer(Connection);

impl Peer {
    async fn ask<T: DeserializeOwned + zbus::zvariant::Type>(
        &self,
        interface: &str,
        method: &str,
        body: &(impl Serialize + DynamicType),
    ) -> zbus::Result<T> {
        let reply = self.0.call_method(None::<&str>, "/", Some(interface), method, body).await?;
        reply.body().deserialize()
    }

    async fn start(&self) -> zbus::Result<bool> {
        self.ask(INTERFACE, "Start", &()).await
    }

    async fn cancel(&self) -> zbus::Result<()> {
        self.ask(INTERFACE, "Cancel", &()).await
    }

    async fn initiating_client(&self) -> zbus::Result<String> {
        let property = (INTERFACE, "InitiatingClientDescription");
        let value: OwnedValue = self.ask("org.freedesktop.DBus.Properties", "Get", &property).await?;
        Ok(value.try_into()?)
    }
}

async fn connect(address: &str) -> zbus::Result<Peer> {
    let builder = zbus::connection::Builder::address(address)?.p2p();
    // All messages received while waiting for one reply must fit.
    Ok(Peer(builder.max_queued(QUEUED).build().await?))
}

async fn run_transaction(
    peer: &Peer,
    caller: &str,
    deadlines: &RpmOstreeDeadlines,
    on_event: &mut (dyn FnMut(RpmOstreeEvent) + '_),
    to_cancel: impl Future<Output = ()>,
) -> RpmOstreeOutcome {
    // Before the first call, so that no signal is missed.
    let mut messages = MessageStream::from(&peer.0);
    if let Err(text) = ensure_own_transaction(peer, caller, deadlines).await {
        return unknown(&text);
    }
    let mut starting = pin!(timeout(deadlines.start, peer.start()));
    let mut to_cancel = pin!(to_cancel);
    let (mut has_answered, mut canceller) = (false, None);
    let mut silent_until = Instant::now() + deadlines.idle_timeout;
    loop {
        tokio::select! {
            biased;
            message = messages.next() => {
                match message.map(|message| message.map(|message| parse_signal(&message))) {
                    Some(Ok(PeerSignal::Finished(success, text))) => return finished(success, &text, canceller),
                    Some(Ok(PeerSignal::Event(what))) => {
                        // After a cancellation, events do not extend the deadline.
                        if canceller.is_none() {
                            silent_until = Instant::now() + deadlines.idle_timeout;
                        }
                        on_event(what);
                    }
                    Some(Ok(PeerSignal::Nothing)) => {}
                    Some(Err(error)) => return unknown(&format!("the socket closed without a result: {error}")),
                    None => return unknown("the socket closed without a result"),
                }
            }
            started = &mut starting, if !has_answered => {
                has_answered = true;
                match started {
                    // Another client may have started it, or it may have ended: its result arrives in any
                    // case.
                    Ok(Ok(is_first)) => log::debug!(is_first; "the transaction is started"),
                    Ok(Err(error)) => return unknown(&format!("cannot start the transaction: {error}")),
                    Err(_) => silent_until = Instant::now(),
                }
            }
            () = &mut to_cancel, if canceller.is_none() => {
                canceller = Some(CancelledBy::Caller);
                silent_until = ask_to_stop(peer, deadlines).await;
            }
            () = sleep_until(silent_until) => {
                if canceller.is_some() {
                    return unknown("the transaction was cancelled but did not stop in time");
                }
                canceller = Some(CancelledBy::Deadline);
                silent_until = ask_to_stop(peer, deadlines).await;
            }
        }
    }
}

/// Refuse a transaction of another client: all transactions use the same socket path, one after the other.
async fn ensure_own_transaction(
    peer: &Peer,
    caller: &str,
    deadlines: &RpmOstreeDeadlines,
) -> Result<(), String> {
    match timeout(deadlines.answer, peer.initiating_client()).await {
        Ok(Ok(initiating_client)) if is_of(&initiating_client, caller) => Ok(()),
        Ok(Ok(initiating_client)) => {
            Err(format!("the socket now belongs to another transaction, of {initiating_client}"))
        }
        Ok(Err(error)) => Err(format!("the transaction ended before its start: {error}")),
        Err(_) => Err("the transaction does not answer".to_owned()),
    }
}

/// Cancel the transaction and return the deadline for its end.
async fn ask_to_stop(peer: &Peer, deadlines: &RpmOstreeDeadlines) -> Instant {
    if let Ok(Err(error)) = timeout(deadlines.answer, peer.cancel()).await {
        log::debug!("cannot cancel the transaction: {error}");
    }
    Instant::now() + deadlines.stop
}

fn finished(success: bool, text: &str, canceller: Option<CancelledBy>) -> RpmOstreeOutcome {
    match success {
        true => RpmOstreeOutcome::Succeeded,
        false if let Some(canceller) = canceller => RpmOstreeOutcome::Cancelled(canceller),
        false if text.trim().to_ascii_lowercase().ends_with(WAS_CANCELLED) => {
            RpmOstreeOutcome::Cancelled(CancelledBy::OtherClient)
        }
        false => RpmOstreeOutcome::Failed(RedactedCause::new(text)),
    }
}

/// Meaning of a received message.
enum PeerSignal {
    Finished(bool, String),
    Event(RpmOstreeEvent),
    Nothing,
}

/// Parse a signal. A malformed signal is ignored.
fn parse_signal(message: &Message) -> PeerSignal {
    let header = message.header();
    let is_signal = header.message_type() == Type::Signal;
    if !is_signal || header.interface().is_none_or(|interface| interface.as_str() != INTERFACE) {
        return PeerSignal::Nothing;
    }
    let body = message.body();
    let text = || body.deserialize::<String>().ok();
    let event = match header.member().map_or("", |member| member.as_str()) {
        "Finished" => {
            let ended = body.deserialize::<(bool, String)>();
            return ended.map_or(PeerSignal::Nothing, |(success, text)| PeerSignal::Finished(success, text));
        }
        "Message" => text().map(RpmOstreeEvent::Message),
        "TaskBegin" => text().map(RpmOstreeEvent::TaskBegin),
        "TaskEnd" => text().map(RpmOstreeEvent::TaskEnd),
        "PercentProgress" => body
            .deserialize::<(String, u32)>()
            .ok()
            .map(|(text, percent)| RpmOstreeEvent::PercentProgress(text, percent)),
        _ => None,
    };
    event.map_or(PeerSignal::Nothing, PeerSignal::Event)
}

/// Compare a client description with a unique bus name. Registered clients are described as
/// `client(id:flameholder dbus:1.7 unit:x.service uid:0)`, others as `caller :1.7`.
fn is_of(description: &str, caller: &str) -> bool {
    let number = caller.trim_start_matches(':');
    let words = description.split([' ', '(', ')']);
    words
        .map(|word| word.strip_prefix("dbus:").unwrap_or(word).trim_start_matches(':'))
        .any(|word| word == number)
}

fn unknown(text: &str) -> RpmOstreeOutcome {
    RpmOstreeOutcome::Unknown(RedactedCause::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_is_recognized_by_its_caller() {
        for (description, expected) in [
            ("client(id:flameholder dbus:1.7 unit:a.service uid:0)", true),
            ("client(id:cli dbus:1.77 uid:0)", false),
            ("caller :1.7", true),
            ("caller :1.70", false),
            ("", false),
        ] {
            assert_eq!(is_of(description, ":1.7"), expected, "{description}");
        }
    }

    #[test]
    fn text_that_ends_with_the_cancellation_means_cancelled() {
        let check = "Sanity-checking final rootfs: bwrap(/usr/bin/true): Operation was cancelled";
        for text in ["Operation was cancelled", check, "syscore cleanup: Operation was cancelled"] {
            let expected = RpmOstreeOutcome::Cancelled(CancelledBy::OtherClient);
            assert_eq!(finished(false, text, None), expected, "{text}");
        }
        let (caller, text) = (CancelledBy::Caller, "Staging deployment: Timed out");
        assert_eq!(finished(false, text, Some(caller)), RpmOstreeOutcome::Cancelled(caller));
        let text = "pull: Operation was cancelled by the registry";
        assert_eq!(finished(false, text, None), RpmOstreeOutcome::Failed(RedactedCause::new(text)));
        assert_eq!(
            finished(true, "", Some(CancelledBy::Caller)),
            RpmOstreeOutcome::Succeeded,
            "the cancellation came too late"
        );
    }
}

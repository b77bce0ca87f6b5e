//! One transaction of rpm-ostreed, from its socket to its end.
//!
//! The socket is a D-Bus connection between two peers. Whoever connects hears the same signals, may start the transaction
//! and may cancel it, and its one result is the signal `Finished`. It is sent before the answer to `Start` or after it. A
//! connection that ends without it says nothing about what was done.

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

/// How many messages are kept until they are looked at.
const QUEUED: usize = 4096;

/// The whole text of a transaction that was cancelled.
const WAS_CANCELLED: &str = "operation was cancelled";

/// What came of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RpmOstreeOutcome {
    /// It did what it was asked.
    Succeeded,
    /// It did not, and said why.
    Failed(RedactedCause),
    /// Somebody ended it.
    Cancelled(CancelledBy),
    /// Nobody says what it did: the deployments have to be looked at.
    Unknown(RedactedCause),
}

/// Who ended a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelledBy {
    /// Whoever waited for it.
    Caller,
    /// It had said nothing for too long.
    Deadline,
    /// Another program: any local user can.
    OtherClient,
}

/// What a transaction says while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RpmOstreeEvent {
    /// It has not begun: the daemon does something else, which is waited for.
    Busy(String),
    /// A line of text.
    Message(String),
    /// A task begins.
    TaskBegin(String),
    /// A task ends.
    TaskEnd(String),
    /// So much of a task is done.
    PercentProgress(String, u32),
}

/// Starts the transaction at `address`, spelt as D-Bus spells addresses, and follows it to its end. It has to be one that
/// `caller`, a unique name on the bus, has called for. Once `to_cancel` returns, it is asked to stop.
pub async fn follow(
    address: &str,
    caller: &str,
    deadlines: &RpmOstreeDeadlines,
    news: &mut (dyn FnMut(RpmOstreeEvent) + '_),
    to_cancel: impl Future<Output = ()>,
) -> RpmOstreeOutcome {
    let connected = timeout(deadlines.answer, connect(address)).await;
    let peer = match connected {
        Ok(Ok(peer)) => peer,
        Ok(Err(error)) => return unknown(&format!("its socket {address} cannot be connected to: {error}")),
        Err(_) => return unknown(&format!("its socket {address} does not answer")),
    };
    let outcome = run_transaction(&peer, caller, deadlines, news, to_cancel).await;
    // At once: until the last peer has left, nobody else gets a transaction.
    let closed = timeout(deadlines.answer, peer.0.close()).await;
    if !matches!(closed, Ok(Ok(()))) {
        log::debug!("the socket of the transaction was not closed in order");
    }
    outcome
}

/// The transaction's end of the socket. There is no bus: no `Hello`, and no names in messages.
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

    async fn whose(&self) -> zbus::Result<String> {
        let property = (INTERFACE, "InitiatingClientDescription");
        let value: OwnedValue = self.ask("org.freedesktop.DBus.Properties", "Get", &property).await?;
        Ok(value.try_into()?)
    }
}

async fn connect(address: &str) -> zbus::Result<Peer> {
    let builder = zbus::connection::Builder::address(address)?.p2p();
    // While one answer is waited for, whatever else it says has to fit.
    Ok(Peer(builder.max_queued(QUEUED).build().await?))
}

async fn run_transaction(
    peer: &Peer,
    caller: &str,
    deadlines: &RpmOstreeDeadlines,
    news: &mut (dyn FnMut(RpmOstreeEvent) + '_),
    to_cancel: impl Future<Output = ()>,
) -> RpmOstreeOutcome {
    // Before anything is asked: what it says from now on is kept.
    let mut messages = MessageStream::from(&peer.0);
    if let Err(text) = ensure_own_transaction(peer, caller, deadlines).await {
        return unknown(&text);
    }
    let mut starting = pin!(timeout(deadlines.start, peer.start()));
    let mut to_cancel = pin!(to_cancel);
    let (mut has_answered, mut canceller) = (false, None);
    let mut silent_until = Instant::now() + deadlines.silence;
    loop {
        tokio::select! {
            biased;
            message = messages.next() => {
                match message.map(|message| message.map(|message| parse_signal(&message))) {
                    Some(Ok(Heard::Finished(success, text))) => return finished(success, &text, canceller),
                    Some(Ok(Heard::News(what))) => {
                        // Once it was asked to stop, nothing that it says gives it more time.
                        if canceller.is_none() {
                            silent_until = Instant::now() + deadlines.silence;
                        }
                        news(what);
                    }
                    Some(Ok(Heard::Nothing)) => {}
                    Some(Err(error)) => return unknown(&format!("it ended without a result: {error}")),
                    None => return unknown("it ended without a result"),
                }
            }
            started = &mut starting, if !has_answered => {
                has_answered = true;
                match started {
                    // Somebody else may have started it, or it has ended: its result comes all the same.
                    Ok(Ok(is_first)) => log::debug!(is_first; "the transaction is started"),
                    Ok(Err(error)) => return unknown(&format!("it could not be started: {error}")),
                    Err(_) => silent_until = Instant::now(),
                }
            }
            () = &mut to_cancel, if canceller.is_none() => {
                canceller = Some(CancelledBy::Caller);
                silent_until = ask_to_stop(peer, deadlines).await;
            }
            () = sleep_until(silent_until) => {
                if canceller.is_some() {
                    return unknown("it was asked to stop, and goes on");
                }
                canceller = Some(CancelledBy::Deadline);
                silent_until = ask_to_stop(peer, deadlines).await;
            }
        }
    }
}

/// The socket's name is always the same, so it may be another transaction's by now.
async fn ensure_own_transaction(
    peer: &Peer,
    caller: &str,
    deadlines: &RpmOstreeDeadlines,
) -> Result<(), String> {
    match timeout(deadlines.answer, peer.whose()).await {
        Ok(Ok(whose)) if is_of(&whose, caller) => Ok(()),
        Ok(Ok(whose)) => Err(format!("its socket belongs to the transaction of {whose}")),
        Ok(Err(error)) => Err(format!("it went away before its start: {error}")),
        Err(_) => Err("it does not say whose it is".to_owned()),
    }
}

/// Says until when it may still end.
async fn ask_to_stop(peer: &Peer, deadlines: &RpmOstreeDeadlines) -> Instant {
    if let Ok(Err(error)) = timeout(deadlines.answer, peer.cancel()).await {
        log::debug!("it could not be asked to stop: {error}");
    }
    Instant::now() + deadlines.stop
}

fn finished(success: bool, text: &str, canceller: Option<CancelledBy>) -> RpmOstreeOutcome {
    match success {
        true => RpmOstreeOutcome::Succeeded,
        false if text.trim().eq_ignore_ascii_case(WAS_CANCELLED) => {
            RpmOstreeOutcome::Cancelled(canceller.unwrap_or(CancelledBy::OtherClient))
        }
        false => RpmOstreeOutcome::Failed(RedactedCause::new(text)),
    }
}

/// What a message means here.
enum Heard {
    Finished(bool, String),
    News(RpmOstreeEvent),
    Nothing,
}

/// A signal whose contents are not as specified says nothing.
fn parse_signal(message: &Message) -> Heard {
    let header = message.header();
    let is_signal = header.message_type() == Type::Signal;
    if !is_signal || header.interface().is_none_or(|interface| interface.as_str() != INTERFACE) {
        return Heard::Nothing;
    }
    let body = message.body();
    let text = || body.deserialize::<String>().ok();
    let heard = match header.member().map_or("", |member| member.as_str()) {
        "Finished" => {
            let ended = body.deserialize::<(bool, String)>();
            return ended.map_or(Heard::Nothing, |(success, text)| Heard::Finished(success, text));
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
    heard.map_or(Heard::Nothing, Heard::News)
}

/// `client(id:flameholder dbus:1.7 unit:x.service uid:0)`, or `caller :1.7` for one that is not registered.
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
    fn a_transaction_is_known_by_who_called_for_it() {
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
    fn only_its_whole_text_says_that_it_was_cancelled() {
        assert_eq!(
            finished(false, "Operation was cancelled", None),
            RpmOstreeOutcome::Cancelled(CancelledBy::OtherClient)
        );
        let text = "pull: Operation was cancelled by the registry";
        assert_eq!(finished(false, text, None), RpmOstreeOutcome::Failed(RedactedCause::new(text)));
        assert_eq!(
            finished(true, "", Some(CancelledBy::Caller)),
            RpmOstreeOutcome::Succeeded,
            "it was too late"
        );
    }
}

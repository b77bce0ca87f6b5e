//! What an error of a transaction means for the daemon.

use crate::core::daemon::lifecycle::{Class, Problem};
use crate::core::values::retry::Cure;
use crate::transaction::TransactionError;

/// The problem that an error is.
pub(super) fn of(error: &TransactionError) -> Problem {
    let class = match (error.cure(), error) {
        (Cure::Time, _) => Class::Transient,
        // What is held could be applied; somebody has to say that it may.
        (Cure::Configuration, error) if !matches!(error, TransactionError::Held(_)) => Class::Configuration,
        (Cure::Configuration | Cure::Repair, _) => Class::Host,
    };
    Problem { class, reason: one_line(&error.chain()) }
}

/// What goes into annotations and journal fields has no lines.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

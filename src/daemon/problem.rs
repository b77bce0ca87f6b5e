//! What an error of a transaction means for the daemon.

use crate::core::daemon::lifecycle::{DaemonProblem, ProblemClass};
use crate::core::values::backoff::RetryClass;
use crate::transaction::TransactionError;

/// The problem that an error is.
pub(super) fn of(error: &TransactionError) -> DaemonProblem {
    let class = match (error.cure(), error) {
        (RetryClass::Time, _) => ProblemClass::Transient,
        // What is held could be applied; somebody has to say that it may.
        (RetryClass::Configuration, error) if !matches!(error, TransactionError::Held(_)) => {
            ProblemClass::Configuration
        }
        (RetryClass::Configuration | RetryClass::Repair, _) => ProblemClass::Host,
    };
    DaemonProblem { class, reason: one_line(&error.chain()) }
}

/// What goes into annotations and journal fields has no lines.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

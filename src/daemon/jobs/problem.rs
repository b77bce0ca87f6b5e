//! Classification of transaction errors for the daemon: retry by time, by repair or by another config.

use crate::core::daemon::lifecycle::{DaemonProblem, ProblemClass};
use crate::core::values::backoff::RetryClass;
use crate::os::OsError;
use crate::transaction::TransactionError;
use crate::transaction::plan::error::PlanError;
use crate::transaction::update::error::UpdateError;

/// Classify an error.
pub(in crate::daemon) fn problem_of(error: &TransactionError) -> DaemonProblem {
    let class = match (error.retry_class(), error) {
        (RetryClass::Time, _) => ProblemClass::Transient,
        // A blocked target is not a bad config: `flameholder retry` releases it.
        (RetryClass::Configuration, error)
            if !matches!(error, TransactionError::Update(UpdateError::Blocked(_))) =>
        {
            ProblemClass::Configuration
        }
        (
            _,
            TransactionError::Update(UpdateError::Drifted(_) | UpdateError::LocalChanges(_))
            | TransactionError::Plan(PlanError::MergeConflicts(_)),
        ) => ProblemClass::Drift,
        (RetryClass::Configuration | RetryClass::Repair, _) => ProblemClass::Host,
    };
    DaemonProblem { class, reason: one_line(&error.chain()) }
}

/// Returns true if the operating system could not be fetched, staged or unlocked, which MCD calls a pivot error.
/// An operation of another program that has to end first is none.
pub(in crate::daemon) fn is_os_failure(error: &TransactionError) -> bool {
    match error {
        TransactionError::Os(error) => !error.is_busy() && !matches!(error, OsError::Cancelled),
        TransactionError::Update(error) => matches!(error, UpdateError::NoSpace(_)),
        _ => false,
    }
}

/// Replace line feeds: annotations and journal fields hold one line.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

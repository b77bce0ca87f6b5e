//! Errors of the container runtime.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::Code;

use crate::core::values::causes::chain;
use crate::core::values::foreign_text::harmless_line;

/// Failed request to the container runtime.
#[derive(Debug, thiserror::Error)]
pub enum CriError {
    /// No connection, or one that ended.
    #[error("CRI-O cannot be reached at {}: {reason}; see `systemctl status crio`", socket.display())]
    Unreachable { socket: PathBuf, reason: String },
    /// No answer within this time.
    #[error("CRI-O did not answer within {} seconds; see `systemctl status crio`", .0.as_secs())]
    TimedOut(Duration),
    /// The runtime does not know the call.
    #[error("CRI-O does not support the call: {0}")]
    Unsupported(String),
    /// The disk is full.
    #[error("{0}")]
    NoSpace(String),
    /// The answer lacks a required member.
    #[error("CRI-O's answer is incomplete: {0}")]
    Unanswered(String),
    /// Any other failure, by the runtime's own words.
    #[error("{0}")]
    Refused(String),
}

impl CriError {
    pub(super) fn unreachable(socket: &Path, error: &dyn std::error::Error) -> Self {
        Self::Unreachable { socket: socket.to_owned(), reason: chain(error) }
    }

    /// Classify the status of a call.
    pub(super) fn of(socket: &Path, status: &tonic::Status) -> Self {
        let text = harmless_line(status.message()).into_owned();
        match status.code() {
            Code::Unavailable => Self::Unreachable { socket: socket.to_owned(), reason: text },
            Code::Unimplemented => Self::Unsupported(text),
            _ if text.contains("no space left on device") => Self::NoSpace(text),
            // The runtime's own errors have no better code.
            Code::Unknown => Self::Refused(text),
            code => Self::Refused(format!("{code}: {text}")),
        }
    }
}

//! Errors of the agent's documents on a host: missing, unreadable, or of another deployment.

use crate::core::config::settings::SettingsError;
use crate::core::values::backoff::RetryClass;
use crate::transaction::state::blocked::BlockedLoadError;
use crate::transaction::state::current::CurrentStateError;
use crate::transaction::state::objects::StoreLoadError;
use crate::transaction::state::pending::PendingLoadError;

/// Error of a document of the agent, or of its absence. Nothing on the host has changed.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Current(#[from] CurrentStateError),
    #[error(transparent)]
    Store(#[from] StoreLoadError),
    #[error(transparent)]
    Pending(#[from] PendingLoadError),
    #[error(transparent)]
    BlockedUnreadable(#[from] BlockedLoadError),
    #[error(
        "no configuration is applied at {0}: there is no generation record; run `flameholder apply` first"
    )]
    NoGeneration(String),
    /// The record in the deployment's `/etc` names another deployment: libostree's merge copied it there.
    #[error(
        "deployment {0} is not a generation: its generation record names another deployment; run `flameholder apply` to make it one"
    )]
    ForeignDeployment(String),
    #[error("the sysroot {0} has no deployment; install an operating system into it first")]
    NoDeployment(String),
    /// An interrupted change has to be recovered first; this command may not change anything.
    #[error("a change to {0} was interrupted, and is neither complete nor undone; run `flameholder recover`")]
    Interrupted(String),
}

impl StateError {
    pub(crate) fn retry_class(&self) -> RetryClass {
        match self {
            Self::Settings(_) => RetryClass::Configuration,
            Self::Current(_)
            | Self::Store(_)
            | Self::Pending(_)
            | Self::BlockedUnreadable(_)
            | Self::NoGeneration(_)
            | Self::ForeignDeployment(_)
            | Self::NoDeployment(_)
            | Self::Interrupted(_) => RetryClass::Repair,
        }
    }
}

//! Error of a transaction, one variant per room.

use crate::core::config::settings::SettingsError;
use crate::core::plan::service_actions::NotLive;
use crate::core::values::backoff::RetryClass;
use crate::core::values::causes::chain;
use crate::core::values::refusal::RefusalList;
use crate::host::HostError;
use crate::host::facts::tree_facts::FactsError;
use crate::host::mount_namespace::NamespaceError;
use crate::host::systemd::reboot_port::RebootError;
use crate::os::OsError;
use crate::transaction::boot::error::BootError;
use crate::transaction::engine::apply::ApplyError;
use crate::transaction::engine::recover::RecoveryError;
use crate::transaction::grant::error::GrantError;
use crate::transaction::handover::HandoverError;
use crate::transaction::pinned_images::PinError;
use crate::transaction::plan::error::PlanError;
use crate::transaction::state::blocked::BlockedLoadError;
use crate::transaction::state::current::CurrentStateError;
use crate::transaction::state::error::StateError;
use crate::transaction::state::objects::StoreLoadError;
use crate::transaction::state::pending::PendingLoadError;
use crate::transaction::trust::error::TrustMaterialError;
use crate::transaction::update::error::UpdateError;
use crate::transaction::update::space::SpaceError;

/// Error of a plan or a transaction. Unless a variant says otherwise, nothing on the host has changed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum TransactionError {
    Host(#[from] HostError),
    Os(#[from] OsError),
    Reboot(#[from] RebootError),
    Apply(#[from] ApplyError),
    Recovery(#[from] RecoveryError),
    State(#[from] StateError),
    Plan(#[from] PlanError),
    Update(#[from] UpdateError),
    Boot(#[from] BootError),
    Handover(#[from] HandoverError),
    Trust(#[from] TrustMaterialError),
    Pins(#[from] PinError),
    Grant(#[from] GrantError),
}

impl TransactionError {
    /// Return true if another program holds a lock or runs an operation, so that a later retry may succeed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Os(error) => error.is_busy(),
            Self::Host(error) => error.is_busy(),
            Self::Apply(error) => error.is_busy(),
            Self::Handover(error) => error.is_busy(),
            _ => false,
        }
    }

    /// Return the condition for a retry to succeed: time, a repair of the host, or another config.
    #[must_use]
    pub fn retry_class(&self) -> RetryClass {
        match self {
            Self::Host(error) if error.is_busy() => RetryClass::Time,
            Self::Apply(error) if error.is_busy() => RetryClass::Time,
            Self::Os(error) if error.is_transient() => RetryClass::Time,
            Self::Handover(error) if error.is_busy() => RetryClass::Time,
            Self::State(error) => error.retry_class(),
            Self::Plan(error) => error.retry_class(),
            Self::Update(error) => error.retry_class(),
            Self::Boot(error) => error.retry_class(),
            Self::Grant(error) => error.retry_class(),
            Self::Host(_)
            | Self::Os(_)
            | Self::Reboot(_)
            | Self::Apply(_)
            | Self::Recovery(_)
            | Self::Handover(_)
            | Self::Trust(_)
            | Self::Pins(_) => RetryClass::Repair,
        }
    }

    /// Return the error and its causes on one line, outermost first.
    #[must_use]
    pub fn chain(&self) -> String {
        // The message already lists all refusals, so its source adds nothing.
        if matches!(self, Self::Plan(PlanError::Refused(_))) { self.to_string() } else { chain(self) }
    }
}

/// Let `?` convert the errors of a room's parts at once.
macro_rules! from_parts {
    ($($part:ty => $room:ident),* $(,)?) => {
        $(impl From<$part> for TransactionError {
            fn from(error: $part) -> Self {
                Self::$room(error.into())
            }
        })*
    };
}

from_parts! {
    RefusalList => Plan,
    NotLive => Plan,
    SettingsError => State,
    CurrentStateError => State,
    StoreLoadError => State,
    PendingLoadError => State,
    BlockedLoadError => State,
    SpaceError => Update,
    NamespaceError => Update,
}

impl From<FactsError> for TransactionError {
    fn from(error: FactsError) -> Self {
        match error {
            FactsError::Host(error) => Self::Host(error),
            FactsError::Refused(refusals) => refusals.into(),
        }
    }
}

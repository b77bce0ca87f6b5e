//! Why a transaction did not happen.

use crate::core::refusal::Refusals;
use crate::core::settings::SettingsError;
use crate::host::HostError;
use crate::host::facts::FactsError;
use crate::os::OsError;

use super::current::CurrentError;
use super::live::LiveError;
use super::settle::SettleError;
use super::store::StoreFailure;

/// Every way in which a plan or a transaction ends early. Unless a variant says otherwise, the
/// host is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError {
    /// The desired configuration is malformed or does not fit the target.
    #[error("the configuration is refused: {0}")]
    Refused(#[from] Refusals),
    /// The target cannot become what is desired.
    #[error("the configuration cannot be applied here:{}", listed(.0))]
    Hindered(Vec<String>),
    /// The host failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// What was applied last cannot be read.
    #[error(transparent)]
    Current(#[from] CurrentError),
    /// The store of what generations have outside `/etc` failed.
    #[error(transparent)]
    Store(#[from] StoreFailure),
    /// The change failed.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// An interrupted change is in the way.
    #[error(transparent)]
    Settle(#[from] SettleError),
    /// An interrupted change is open, and this command changes nothing.
    #[error(
        "a change to {0} was interrupted, and what is there is neither as before nor as it was to be; run `hostwright recover`"
    )]
    Interrupted(String),
    /// The operating system's side failed.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The agent's own settings cannot be understood.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Nothing was applied here yet.
    #[error("nothing was applied at {0}: it has no generation record; run `hostwright apply` first")]
    NoGeneration(String),
    /// The record names another deployment than the one it was found in.
    #[error(
        "deployment {0} was not made by hostwright: the record in it names another one; run `hostwright apply` to make a generation of it"
    )]
    Foreign(String),
    /// There is no deployment to build on.
    #[error("the sysroot {0} has no deployment; install an operating system into it first")]
    NoDeployment(String),
    /// There is no deployment to go back to.
    #[error("the stateroot {0} has only one deployment, so there is none to roll back to")]
    NoRollback(String),
}

impl From<FactsError> for TransactionError {
    fn from(error: FactsError) -> Self {
        match error {
            FactsError::Host(error) => Self::Host(error),
            FactsError::Refused(refusals) => Self::Refused(refusals),
        }
    }
}

fn listed(reasons: &[String]) -> String {
    reasons.iter().map(|reason| format!("\n  {reason}")).collect()
}

//! Commands with which an operator changes a host: apply, rollback, recover, retry, adopt, release.

pub(crate) mod adopt;
pub(crate) mod apply;
mod change_report;
pub(crate) mod recover;
pub(crate) mod release;
pub(crate) mod retry;
pub(crate) mod rollback;
pub(crate) mod running_host;
pub(crate) mod unstage;

pub(crate) use change_report::ChangeArgs;

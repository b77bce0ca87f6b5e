//! Leftovers of a request to rpm-ostreed whose result this agent did not see.

use crate::host::LockedHost;
use crate::os::protocol::SysrootAccess;
use crate::os::{DeploymentId, Sysroot};
use crate::transaction::state::rpm_ostree_request;
use crate::transaction::update::stage;
use crate::transaction::{SysrootOpener, TransactionError};

/// Discard the deployment that an interrupted request left staged, and the images that no deployment has, which may be
/// unchecked. Opens no session if there is no such request. Returns the discarded deployment.
pub(crate) fn take_back(
    host: &LockedHost<'_>,
    open: SysrootOpener<'_>,
) -> Result<Option<DeploymentId>, TransactionError> {
    if !rpm_ostree_request::is_open(host)? {
        return Ok(None);
    }
    let mut os = open(SysrootAccess::Stage)?;
    let staged = stage::staged_deployment(&mut *os)?;
    let staged = staged.filter(|staged| rpm_ostree_request::is_staged_by_request(host, staged));
    if let Some(staged) = &staged {
        os.unstage(&staged.id)?;
    }
    remove_unchecked_images(&mut *os)?;
    rpm_ostree_request::remove_request(host)?;
    Ok(staged.map(|staged| staged.id))
}

/// Remove the images that no deployment has: rpm-ostreed may have imported them and not checked them.
pub(crate) fn remove_unchecked_images(os: &mut dyn Sysroot) -> Result<(), TransactionError> {
    log::info!("removing the images that an interrupted request to rpm-ostreed may have left unchecked");
    Ok(os.clean_up()?)
}

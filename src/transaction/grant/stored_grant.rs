//! Grant of a disruption on disk: read, write, remove.

use crate::core::state::reboot_grant::{GrantDocumentError, REBOOT_GRANT, RebootGrant};
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::host::{HostDisk, HostError, Root};
use crate::transaction::engine::atomic_file;

/// Temporary name while a new version is written.
const NEW_GRANT: &str = "/var/lib/flameholder/reboot-grant.new";

/// Error of reading the grant.
#[derive(Debug, thiserror::Error)]
pub enum GrantLoadError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Grant(#[from] GrantDocumentError),
}

/// Load the grant; `None` if there is none.
pub fn load(disk: &dyn HostDisk) -> Result<Option<RebootGrant>, GrantLoadError> {
    let bytes = disk.read(&ManagedPath::constant(REBOOT_GRANT), limits::DOCUMENT_BYTES)?;
    Ok(bytes.map(|bytes| RebootGrant::parse(&bytes)).transpose()?)
}

/// Load the grant, or set it aside if it is damaged or of a newer release: the lock's server knows the slot.
pub(crate) fn load_or_set_aside(root: &Root) -> Result<Option<RebootGrant>, HostError> {
    match load(root) {
        Ok(grant) => Ok(grant),
        Err(GrantLoadError::Host(error)) => Err(error),
        Err(GrantLoadError::Grant(error)) => {
            let path = ManagedPath::constant(REBOOT_GRANT);
            atomic_file::set_aside(root, &path)?;
            log::warn!(
                "{}; it is set aside as {}, and a slot of a lock that is in it is not released by this host",
                chain(&error),
                atomic_file::aside(&path)
            );
            Ok(None)
        }
    }
}

/// Store the grant, durably.
pub(crate) fn store(root: &Root, grant: &RebootGrant) -> Result<(), HostError> {
    let [path, new] = [REBOOT_GRANT, NEW_GRANT].map(ManagedPath::constant);
    atomic_file::write(root, &path, &new, &grant.render())
}

/// Remove the grant, durably.
pub(crate) fn remove(root: &Root) -> Result<(), HostError> {
    let path = ManagedPath::constant(REBOOT_GRANT);
    atomic_file::remove_if_present(root, &path)?;
    root.sync(&[path.parent()])
}

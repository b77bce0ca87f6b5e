//! The held target on a disk.

use crate::core::state::blocked::{BlockedError, BlockedTarget, HELD, SCHEMA};
use crate::core::state::record::GenerationRecord;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::host::{HostDisk, HostError, Root};

use super::login_message;
use crate::transaction::TransactionError;
use crate::transaction::engine::atomic_file;
use crate::transaction::engine::atomic_file::forget;

/// Where it is written before it has its name.
const NEW_HELD: &str = "/var/lib/flameholder/held.new";

/// Why a held target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// It cannot be understood.
    #[error(transparent)]
    Held(#[from] BlockedError),
}

/// Reads it; `None` where nothing is held.
pub fn load(disk: &dyn HostDisk) -> Result<Option<BlockedTarget>, LoadError> {
    let bytes = disk.read(&ManagedPath::constant(HELD), limits::DOCUMENT_BYTES)?;
    Ok(bytes.map(|bytes| BlockedTarget::parse(&bytes)).transpose()?)
}

/// Holds a target, durably. One that is held already keeps the reason for which its generation was left.
fn write(root: &Root, held: BlockedTarget) -> Result<(), LoadError> {
    let before = load(root).unwrap_or_default();
    if before.as_ref().is_some_and(|before| before.generation == held.generation) {
        return Ok(());
    }
    let held = held.after(before.as_ref());
    let (path, new) = (ManagedPath::constant(HELD), ManagedPath::constant(NEW_HELD));
    atomic_file::write(root, &path, &new, &held.render())?;
    login_message::refresh(root);
    Ok(())
}

/// Holds nothing any more, durably.
pub fn release(root: &Root) -> Result<(), HostError> {
    forget(root, &ManagedPath::constant(HELD))?;
    root.sync(&[ManagedPath::constant(HELD).parent()])?;
    login_message::refresh(root);
    Ok(())
}

pub(crate) fn hold(root: &Root, record: &GenerationRecord, reason: &str) -> Result<(), TransactionError> {
    let held = BlockedTarget {
        schema: SCHEMA,
        config: record.config.clone(),
        config_hash: record.config_hash.clone(),
        image_digest: record.deployment.as_ref().and_then(|bound| bound.image_digest.clone()),
        generation: record.generation.clone(),
        reason: reason.to_owned(),
        attempts: 0,
    };
    Ok(write(root, held)?)
}

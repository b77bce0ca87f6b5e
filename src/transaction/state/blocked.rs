//! Blocked target on disk: read, block, release.

use super::login_message;
use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::state::blocked::{
    BLOCKED, BlockReason, BlockedError, BlockedTarget, SCHEMA, TargetIdentity,
};
use crate::core::state::record::GenerationRecord;
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::host::{HostDisk, HostError, LockedRoot, Root};
use crate::transaction::TransactionError;
use crate::transaction::engine::atomic_file;
use crate::transaction::engine::atomic_file::remove_if_present;
use crate::transaction::history;
use crate::transaction::state::current::{CurrentState, DecodedConfig};

/// Temporary name while a new version is written.
const NEW_BLOCKED: &str = "/var/lib/flameholder/blocked.new";

/// Error of reading the blocked target.
#[derive(Debug, thiserror::Error)]
pub enum BlockedLoadError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Blocked(#[from] BlockedError),
}

/// Load the blocked target; `None` if there is none.
pub fn load(disk: &dyn HostDisk) -> Result<Option<BlockedTarget>, BlockedLoadError> {
    let bytes = disk.read(&ManagedPath::constant(BLOCKED), limits::DOCUMENT_BYTES)?;
    Ok(bytes.map(|bytes| BlockedTarget::parse(&bytes)).transpose()?)
}

/// Load the blocked target, or set it aside if it is damaged or of a newer release.
pub(crate) fn load_or_set_aside(root: &LockedRoot<'_>) -> Result<Option<BlockedTarget>, HostError> {
    match load(root.as_root()) {
        Ok(blocked) => Ok(blocked),
        Err(BlockedLoadError::Host(error)) => Err(error),
        Err(BlockedLoadError::Blocked(error)) => {
            let path = ManagedPath::constant(BLOCKED);
            log::warn!("{}; it is set aside as {}", chain(&error), atomic_file::aside(&path));
            atomic_file::set_aside(root.as_root(), &path)?;
            Ok(None)
        }
    }
}

/// Block a target, durably. A target of the same generation keeps its first reason.
fn write(root: &Root, blocked: BlockedTarget) -> Result<(), BlockedLoadError> {
    let before = load(root).unwrap_or_default();
    if before
        .as_ref()
        .is_some_and(|before| before.generation.is_some() && before.generation == blocked.generation)
    {
        return Ok(());
    }
    let blocked = blocked.counting_after(before.as_ref());
    let (path, new) = (ManagedPath::constant(BLOCKED), ManagedPath::constant(NEW_BLOCKED));
    atomic_file::write(root, &path, &new, &blocked.render())?;
    let note = HistoryNote {
        config: Some(blocked.config),
        generation: blocked.generation,
        ..HistoryNote::default().because(&blocked.reason)
    };
    history::note(root, HistoryEvent::Blocked, note);
    login_message::refresh(root);
    Ok(())
}

/// Remove the blocked target, durably.
pub fn release(root: &Root) -> Result<(), HostError> {
    let blocked = load(root).unwrap_or_default();
    remove_if_present(root, &ManagedPath::constant(BLOCKED))?;
    root.sync(&[ManagedPath::constant(BLOCKED).parent()])?;
    if let Some(BlockedTarget { config, generation, .. }) = blocked {
        let note = HistoryNote { config: Some(config), generation, ..HistoryNote::default() };
        history::note(root, HistoryEvent::Unblocked, note);
    }
    login_message::refresh(root);
    Ok(())
}

/// Release the blocked target if it is another config than the one that the host has, which is the desired one as well.
/// Return true if it was released. An operator who desires the former config again has answered the rollback.
pub(crate) fn release_former(root: &LockedRoot<'_>) -> Result<bool, TransactionError> {
    let Some(blocked) = load_or_set_aside(root)? else { return Ok(false) };
    let current = CurrentState::load_record(root.as_root())?;
    let is_former = current.is_some_and(|current| TargetIdentity::of(&current) != blocked.identity());
    if is_former {
        release(root.as_root())?;
    }
    Ok(is_former)
}

pub(crate) fn block(
    root: &Root,
    record: &GenerationRecord,
    reason: BlockReason<'_>,
) -> Result<(), TransactionError> {
    let blocked = BlockedTarget {
        schema: SCHEMA,
        config: record.config.clone(),
        config_hash: record.config_hash.clone(),
        layered_image: record.layered_image.clone(),
        image_digest: record.deployment.as_ref().and_then(|deployed| deployed.image_digest.clone()),
        generation: Some(record.generation.clone()),
        reason: reason.sentence.to_owned(),
        failed_checks: reason.failed_checks(),
        attempts: 0,
    };
    Ok(write(root, blocked)?)
}

/// Block a config whose image was rejected.
pub(crate) fn block_rejected(
    root: &Root,
    config: &DecodedConfig,
    image_digest: Option<String>,
    reason: &str,
) -> Result<(), TransactionError> {
    let blocked = BlockedTarget {
        schema: SCHEMA,
        config: config.object.name.clone(),
        config_hash: config.config_hash(),
        layered_image: config.layered_image.clone(),
        image_digest,
        generation: None,
        reason: reason.to_owned(),
        failed_checks: Vec::new(),
        attempts: 0,
    };
    Ok(write(root, blocked)?)
}

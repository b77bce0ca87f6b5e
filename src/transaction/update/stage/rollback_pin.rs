//! Pin of the deployment that an unlocked or unconfirmed generation is rolled back to: `rpm-ostree cleanup -r`, `ostree
//! admin undeploy` and an update by another program leave it alone. It is the rollback entry, so no third kernel is kept,
//! unless it is unconfirmed itself: then the deployment before it stays pinned as well.

use crate::core::state::pending::PendingGeneration;
use crate::core::state::pending::rollback_pin::{PINNED, RollbackPin, SCHEMA};
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::host::{HostDisk as _, HostError, LockedHost};
use crate::os::{OsError, Sysroot};
use crate::transaction::TransactionError;
use crate::transaction::engine::atomic_file;
use crate::transaction::engine::atomic_file::remove_if_present;
use crate::transaction::state::pending;
use crate::transaction::state::unconfirmed_mark::{MarkState, mark_state};

/// Temporary name while the note is written.
const NEW_PINNED: &str = "/var/lib/flameholder/pinned.new";

/// Pin the deployment that `pending` is rolled back to, unless an operator pinned it already.
pub(crate) fn pin_base(
    os: &mut dyn Sysroot,
    host: &LockedHost<'_>,
    pending: &PendingGeneration,
) -> Result<(), TransactionError> {
    let base = &pending.staged.base;
    // There is no rollback from a generation that completes a first boot.
    if pending.staged.completes_first_boot {
        return release_pins(os, host);
    }
    let earlier = match load(host)? {
        Some(pin) if pin.deployments().any(|pinned| pinned == base) => return Ok(os.set_pinned(base, true)?),
        // The rollback of the booted generation failed, so it may still be due once the new generation is rolled back.
        Some(pin) if mark_state(host, base) == MarkState::Unconfirmed => pin.deployments().cloned().collect(),
        _ => {
            release_pins(os, host)?;
            Vec::new()
        }
    };
    let is_free = os.deployments()?.iter().any(|deployment| deployment.id == *base && !deployment.pinned);
    if is_free {
        let pin = RollbackPin { schema: SCHEMA, deployment: base.clone(), earlier };
        let [path, new] = [PINNED, NEW_PINNED].map(ManagedPath::constant);
        atomic_file::write(host.as_root(), &path, &new, &pin.render())?;
        os.set_pinned(base, true)?;
    }
    Ok(())
}

/// Return true if this agent pinned a deployment, and there may be no generation left to roll back to it: none is pending, and
/// the booted one is not unconfirmed either, as it is if only its pending record is gone.
pub(crate) fn may_be_unneeded(host: &LockedHost<'_>) -> Result<bool, TransactionError> {
    let booted = &host.running.booted.deployment;
    Ok(host.exists(&ManagedPath::constant(PINNED))?
        && pending::load(host.as_root())?.is_none()
        && mark_state(host, booted) != MarkState::Unconfirmed)
}

/// Take the pins off, where they may be unneeded, unless the next reboot may need one: while a pinned deployment was
/// booted from the boot menu, the default entry is still the generation that is rolled back to it.
pub(crate) fn release_unneeded(os: &mut dyn Sysroot, host: &LockedHost<'_>) -> Result<(), TransactionError> {
    if !may_be_unneeded(host)? {
        return Ok(());
    }
    let booted = &host.running.booted.deployment;
    let is_default =
        os.deployments()?.iter().find(|entry| !entry.staged).is_some_and(|entry| entry.id == *booted);
    match load(host)? {
        Some(pin) if pin.deployments().any(|pinned| pinned == booted) && !is_default => Ok(()),
        _ => release_pins(os, host),
    }
}

/// Take the pins off that this agent set, if there are any. The note goes last.
fn release_pins(os: &mut dyn Sysroot, host: &LockedHost<'_>) -> Result<(), TransactionError> {
    let Some(pin) = load(host)? else { return Ok(()) };
    for deployment in pin.deployments() {
        match os.set_pinned(deployment, false) {
            // Another program removed it in spite of the pin.
            Ok(()) | Err(OsError::NoSuchDeployment { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let path = ManagedPath::constant(PINNED);
    remove_if_present(host.as_root(), &path)?;
    Ok(host.sync(&[path.parent()])?)
}

/// Load the note. One that cannot be read is set aside; its deployments then stay pinned until an operator unpins them.
fn load(host: &LockedHost<'_>) -> Result<Option<RollbackPin>, HostError> {
    let path = ManagedPath::constant(PINNED);
    let Some(bytes) = host.read(&path, limits::DOCUMENT_BYTES)? else { return Ok(None) };
    let pin = RollbackPin::parse(&bytes);
    if pin.is_none() {
        log::warn!("{path} cannot be read; it is set aside as {}", atomic_file::aside(&path));
        atomic_file::set_aside(host.as_root(), &path)?;
    }
    Ok(pin)
}

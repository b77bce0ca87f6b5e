//! Early in a boot: what runs is found out, and made whole before anything else starts. Needs no
//! network, no D-Bus and no libostree.

use crate::transaction::state::blocked::block;
use crate::transaction::state::boot_check_time;
use crate::transaction::state::interrupted;
use std::path::Path;
use std::time::Duration;

use crate::core::plan::steps::PlanStep;
use crate::core::state::booted_state;
use crate::core::state::booted_state::{BootedState, PendingOutcome};
use crate::core::state::journal::JournalScope;
use crate::core::state::pending::{PendingEntry, PendingGeneration};
use crate::core::state::record::GenerationRecord;
use crate::core::values::names::ManagedPath;
use crate::host::Root;
use crate::host::facts::boot;
use crate::host::facts::booted;
use crate::host::facts::booted::{BootedDeployment, SYSROOT};
use crate::host::fs::lock::HostLock;
use crate::host::mount_namespace::MountNamespace;
use crate::host::systemd::service_port::NoServices;
use crate::os::DeploymentId;
use crate::os::protocol::SysrootAccess;

use super::activate;
use super::activate::ActivationOutcome;
use super::carry_forward;
use crate::transaction::engine::apply;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::engine::labels;
use crate::transaction::engine::labels::SelinuxLabels;
use crate::transaction::engine::recover;
use crate::transaction::engine::recover::RecoveryError;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::pending;
use crate::transaction::update::extensions;
use crate::transaction::update::finalize;
use crate::transaction::{SysrootOpener, TransactionError};

/// What a boot found, and what has to come next.
#[derive(Debug)]
pub enum EarlyBootOutcome {
    /// The generation is whole, and what lies outside `/etc` matches it.
    Activated {
        /// What runs.
        standing: BootedState,
        /// What was made to match.
        activated: ActivationOutcome,
        /// Paths that were carried over from the deployment that ran before.
        carried: usize,
    },
    /// Nothing here was ever configured by this agent.
    Unmanaged,
    /// The deployment had booted without its configuration. It has it now, and has to be rebooted
    /// before anything else starts: what runs already has read the old files.
    ConfigWritten {
        /// The generation.
        generation: String,
    },
    /// What runs is to be left: the deployment that it replaced has to boot instead.
    RollBack {
        /// The pending generation.
        pending: Box<PendingGeneration>,
        /// Why.
        reason: String,
    },
}

/// Makes the running system whole, or says what that takes. `namespace` is for what lies in other
/// deployments, which are mounted read-only.
pub fn activate_at_boot(
    booted: &BootedDeployment,
    namespace: &MountNamespace,
) -> Result<EarlyBootOutcome, TransactionError> {
    let root = Root::open(Path::new("/"))?;
    let _lock = HostLock::take(&root)?;
    let boot_id = boot::boot_id();
    recover_any_deployment(&root, booted, namespace, &boot_id)?;
    extensions::remove(&root)?;
    let record = CurrentState::load_record(&root)?;
    let found = match pending::load(&root) {
        // What runs is whole without it, and whoever is to settle it fails with it.
        Err(error) if booted_state::standing(booted.seen(record.as_ref(), None)) == BootedState::Complete => {
            log::warn!("what was to boot is not known: {error}");
            None
        }
        found => found?,
    };
    let seen = booted.seen(record.as_ref(), found.as_ref());
    let standing = booted_state::standing(seen);
    let most_boots = boot_check_time::max_boots(&root, found.as_ref());
    match (booted_state::pending_outcome(seen, &boot_id, most_boots), found) {
        (PendingOutcome::WriteConfig, Some(pending)) => write_missing_config(&root, &pending, &boot_id),
        (PendingOutcome::RollBack(reason), Some(pending)) => {
            Ok(EarlyBootOutcome::RollBack { pending: Box::new(pending), reason })
        }
        (fate, found) => {
            if let (PendingOutcome::Booted, Some(pending)) = (fate, found)
                && !pending.booted_in.contains(&boot_id)
            {
                // Counted first: whatever ends this boot, it was one.
                pending::append_entry(&root, &PendingEntry::Booted { boot_id: boot_id.clone() })?;
            }
            let Some(record) = record else { return Ok(EarlyBootOutcome::Unmanaged) };
            let carried = carry_forward(&root, booted, standing, &record, &boot_id)?;
            let activated = activate::activate_locked(&root, &boot_id)?;
            Ok(EarlyBootOutcome::Activated { standing, activated, carried })
        }
    }
}

/// Settles what an interrupted change left, be it in the `/etc` of another deployment: one that a
/// power cut ended, before somebody chose this one at the boot menu.
fn recover_any_deployment(
    root: &Root,
    booted: &BootedDeployment,
    namespace: &MountNamespace,
    boot_id: &str,
) -> Result<(), TransactionError> {
    let elsewhere = match interrupted::recover_first(root, boot_id) {
        Err(TransactionError::Recovery(error @ RecoveryError::OtherDeployment { .. })) => error,
        settled => return settled,
    };
    namespace.make_writable(Path::new(SYSROOT))?;
    for id in other_deployments(booted)? {
        let other = booted::open_deployment(Path::new(SYSROOT), &id)?;
        let found = CurrentState::load_record(&other)?.map(|record| record.generation);
        match recover::recover(&other, &NoServices, found.as_deref(), boot_id) {
            Err(RecoveryError::OtherDeployment { .. }) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                log::warn!("a change to deployment {id} had been interrupted, and is settled there");
                return Ok(());
            }
        }
    }
    Err(elsewhere.into())
}

/// The other deployments of the stateroot, whether a boot entry names them or not.
fn other_deployments(booted: &BootedDeployment) -> Result<Vec<DeploymentId>, TransactionError> {
    let stateroot = &booted.deployment.stateroot;
    let directory = Root::open(&Path::new(SYSROOT).join(format!("ostree/deploy/{stateroot}")))?;
    let names = directory.list(&ManagedPath::constant("/deploy"))?;
    let ids = names.iter().filter_map(|name| DeploymentId::from_directory(stateroot, name));
    Ok(ids.filter(|id| *id != booted.deployment).collect())
}

/// Binds the pending generation where it runs, in a journaled transaction.
fn write_missing_config(
    root: &Root,
    pending: &PendingGeneration,
    boot_id: &str,
) -> Result<EarlyBootOutcome, TransactionError> {
    // Counted first: whatever ends this boot, there is no third one like it.
    pending::append_entry(root, &PendingEntry::BootedWithoutConfig { boot_id: boot_id.to_owned() })?;
    let current = CurrentState::load(root)?;
    let finalize::EtcSteps { steps, labels } = finalize::etc_steps(root, &current, pending)?;
    let before = current.record.as_ref().map(|record| record.generation.as_str());
    apply_steps(root, [before, Some(pending.generation())], boot_id, &steps, &labels)?;
    Ok(EarlyBootOutcome::ConfigWritten { generation: pending.generation().to_owned() })
}

/// As long as systemd waits for a device, and some.
const ENTRIES_LIMIT: Duration = Duration::from_secs(120);

/// Leaves the generation that runs: the deployment that it replaced boots from now on, and the target is held. It can
/// be interrupted anywhere: what is pending says until the end that this is to be done.
pub fn roll_back(
    os: SysrootOpener<'_>,
    pending: &PendingGeneration,
    reason: &str,
) -> Result<(), TransactionError> {
    if !booted::has_entries_within(ENTRIES_LIMIT) {
        return Err(TransactionError::NoBootEntries(ENTRIES_LIMIT.as_secs()));
    }
    let mut os = os(SysrootAccess::Stage)?;
    let root = Root::open(Path::new("/"))?;
    let _lock = HostLock::take(&root)?;
    if pending.rejected.is_none() {
        let (boot_id, reason) = (boot::boot_id(), reason.to_owned());
        pending::append_entry(&root, &PendingEntry::Rejected { boot_id, reason })?;
    }
    block(&root, &pending.intent.record, reason)?;
    os.set_default(&pending.intent.base)?;
    Ok(pending::remove(&root)?)
}

/// Where a deployment runs that was left before, what others wrote into the `/etc` of the one that
/// ran last is carried into its own. One that never ran was merged from that `/etc` already.
fn carry_forward(
    root: &Root,
    booted: &BootedDeployment,
    standing: BootedState,
    record: &GenerationRecord,
    boot_id: &str,
) -> Result<usize, TransactionError> {
    let current = CurrentState::load(root)?;
    let Some(ran) = current.active.as_ref().and_then(|active| active.ran.clone()) else { return Ok(0) };
    let is_left = ran.deployment != booted.deployment && record.sequence <= ran.latest;
    if standing != BootedState::Complete || !is_left {
        return Ok(0);
    }
    let last = match booted::open_deployment(Path::new(SYSROOT), &ran.deployment) {
        Ok(last) => last,
        Err(error) => {
            log::warn!("nothing is carried over from deployment {}: {error}", ran.deployment);
            return Ok(0);
        }
    };
    let left = CurrentState::load_record(&last)?.filter(|left| left.sequence > record.sequence);
    if let Some(left) = left {
        block(root, &left, "an older deployment was chosen at the boot menu")?;
    }
    let steps = carry_forward::carry_forward_steps(root, &last, current.host())?;
    let labels = labels::labels_of_steps(root, &steps, &current.remembered().labels)?;
    apply_steps(root, [Some(&record.generation); 2], boot_id, &steps, &labels)?;
    Ok(steps.len())
}

/// Changes what runs from one generation to another, before any service does.
fn apply_steps(
    root: &Root,
    [current, target]: [Option<&str>; 2],
    boot_id: &str,
    steps: &[PlanStep],
    labels: &SelinuxLabels,
) -> Result<(), TransactionError> {
    let change = JournaledChange {
        current,
        target,
        boot_id,
        scope: JournalScope::Deployment,
        steps,
        labels,
        actions: &[],
    };
    Ok(apply::apply(root, &NoServices, change)?)
}

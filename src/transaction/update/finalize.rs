//! Finalization at shutdown: libostree merges `/etc` into the staged deployment, from a copy of the running
//! `/etc` in which the managed paths already have the new generation's content. The new `/etc` is complete,
//! merged and durable before the boot entries are written, and the running `/etc` stays untouched. On any
//! earlier failure, the old deployment boots, unchanged.

mod shipped_links;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::stage;
use crate::core::etc_merge::SpecialFiles;
use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::plan::steps::PlanStep;
use crate::core::state::pending::{FailureKind, PendingEntry, PendingGeneration, UpdateFailure};
use crate::core::state::record::GenerationRecord;
use crate::core::values::causes::chain;
use crate::core::values::identifiers::GenerationId;
use crate::core::values::paths::RECORD;
use crate::host::facts::booted::SYSROOT;
use crate::host::facts::tree_facts::{LocalMerging, TreeScope};
use crate::host::fs::etc_copy;
use crate::host::mount_namespace::MountNamespace;
use crate::host::{FileOperation, HostError, LockedHost, LockedRoot, Root, RunningHost};
use crate::os::protocol::SysrootAccess;
use crate::os::{Deployment, DeploymentId, finalize_staged};
use crate::transaction::engine::labels::{GenerationLabels, SelinuxLabels};
use crate::transaction::engine::{apply, labels};
use crate::transaction::history;
use crate::transaction::plan::error::PlanError;
use crate::transaction::plan::tree_plan::{TreeChange, plan_tree_update};
use crate::transaction::plan::{adopted_copy, etc_merge};
use crate::transaction::state::agent_files::AgentFiles;
use crate::transaction::state::current::{CurrentState, DecodedConfig};
use crate::transaction::state::settings::merge_policies;
use crate::transaction::state::unconfirmed_mark::workload_gate;
use crate::transaction::state::{interrupted, pending, record, unconfirmed_mark};
use crate::transaction::update::error::UpdateError;
use crate::transaction::{SysrootOpener, TransactionError};

/// Directory for the copy of `/etc`, on a tmpfs of its own, so that no full disk can fail it.
const COPY: &str = "/run/flameholder/etc";
/// Directory for the copy of a rehearsal.
const REHEARSAL: &str = "/run/flameholder/rehearsal";

/// Result of finalization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinalizeOutcome {
    /// The pending generation is finalized and boots next.
    Generation(GenerationId),
    /// A foreign or locked deployment, or none, was staged; libostree's finalization ran without changes.
    PassedThrough,
}

/// Finalize the staged deployment. If it is the pending generation, its configuration is written first;
/// foreign deployments are finalized unchanged.
pub fn finalize(
    namespace: &MountNamespace,
    host: &RunningHost,
    open: SysrootOpener<'_>,
) -> Result<FinalizeOutcome, TransactionError> {
    let root = &host.root;
    let pending = pending::load(root).unwrap_or_else(|error| {
        // Not ours to finalize then, and no reason to keep a foreign deployment from being finalized.
        log::warn!("{}", chain(&error));
        None
    });
    let Some(pending) = pending else {
        // If the deployments cannot be listed, libostree finalizes: without a pending record, none of ours
        // is expected.
        let staged = open(SysrootAccess::Read)
            .and_then(|mut os| stage::staged_deployment(&mut *os))
            .unwrap_or_default();
        return pass_through(host, staged.as_ref());
    };
    let mut kind = FailureKind::ConfigNotWritten;
    let outcome =
        open(SysrootAccess::Read).and_then(|mut os| stage::staged_deployment(&mut *os)).and_then(|staged| {
            match &staged {
                Some(staged) if !staged.locked && stage::is_pending(staged, &pending) => {
                    finalize_pending(namespace, host, &pending, staged, &mut kind)?;
                    Ok(FinalizeOutcome::Generation(pending.generation().to_owned()))
                }
                staged => pass_through(host, staged.as_ref()),
            }
        });
    if let Err(error) = &outcome {
        let failure = UpdateFailure { boot_id: host.system.boot_id.clone(), kind, reason: error.chain() };
        let note = HistoryNote::of(&pending.staged.record).because(&failure.reason);
        history::note(root, HistoryEvent::FinalizeFailed, note);
        if let Err(error) = pending::append_entry(root, &PendingEntry::Failed(failure)) {
            log::error!("cannot record the failure in the pending record: {error}", error = chain(&error));
        }
    }
    outcome
}

/// Run libostree's finalization without changes. Fails for an unlocked deployment of ours without a pending
/// record: it must not boot without its configuration.
fn pass_through(
    host: &RunningHost,
    staged: Option<&Deployment>,
) -> Result<FinalizeOutcome, TransactionError> {
    let is_own = |staged: &&Deployment| stage::is_staged_in(staged, &host.system.boot_id);
    if let Some(staged) = staged.filter(|staged| !staged.locked && is_own(staged)) {
        return Err(UpdateError::PendingRecordMissing(staged.id.to_string()).into());
    }
    // libostree would merge half a change into the new deployment.
    let recovered = host.lock().map_err(TransactionError::from);
    if let Err(error) = recovered.and_then(|host| interrupted::recover_at_shutdown(&host)) {
        log::warn!("an interrupted change may be merged into the next deployment: {}", error.chain());
    }
    finalize_staged::finalize_staged()?;
    Ok(FinalizeOutcome::PassedThrough)
}

fn finalize_pending(
    namespace: &MountNamespace,
    host: &RunningHost,
    pending: &PendingGeneration,
    staged: &Deployment,
    kind: &mut FailureKind,
) -> Result<(), TransactionError> {
    let host = host.lock()?;
    let booted = &host.running.booted;
    // A process that the shutdown ended may have left half a change: the copy would contain it.
    interrupted::recover_at_shutdown(&host)?;
    let (copy, running) = (Path::new(COPY), booted.directory().join("etc"));
    std::fs::create_dir_all(copy)
        .map_err(|error| HostError::io(FileOperation::MakeDirectory, copy, &error))?;
    namespace.mount_memory(copy)?;
    let directory = Path::new(SYSROOT).join(staged.id.path());
    let copies = Copies::make(copy, &booted.directory(), &directory)?;
    write_generation(&host, &copies.next(&directory)?, pending)?;
    namespace.bind_mount(&copies.local, &running)?;
    if copies.is_base_changed {
        namespace.bind_mount(&copies.base, &booted.directory().join("usr/etc"))?;
    }
    *kind = FailureKind::NotFinalized;
    finalize_staged::finalize_staged()?;
    ensure_written(&directory, pending)?;
    // With this entry, a later boot of the old deployment counts as chosen in the boot menu or by the
    // bootloader, not as a failed finalization.
    if let Err(error) =
        pending::append_entry(host.as_root(), &PendingEntry::Finalized { boot_id: host.boot_id().to_owned() })
    {
        log::warn!("cannot record the finalization in the pending record: {error}", error = chain(&error));
    }
    history::note(&host, HistoryEvent::Finalized, HistoryNote::of(&pending.staged.record));
    Ok(())
}

/// Rehearse finalization on a copy of the running `/etc`, so that errors and refusals of the merge appear
/// before the node is drained.
pub(crate) fn rehearse(
    host: &LockedHost<'_>,
    booted: &DeploymentId,
    pending: &PendingGeneration,
    special_files: SpecialFiles,
) -> Result<(), TransactionError> {
    let running = Path::new(SYSROOT).join(booted.path());
    let copy = private_directory()
        .map_err(|error| HostError::io(FileOperation::MakeDirectory, Path::new(REHEARSAL), &error))?;
    let directory = Path::new(SYSROOT).join(pending.staged.deployment.id().path());
    let copies = Copies::make(copy.path(), &running, &directory)?;
    write_generation(host, &copies.next(&directory)?, pending)?;
    let merge = Root::with_etc_and_var(&running, &copies.local, Path::new("/var"))?;
    let predicted = etc_merge::predict(&merge, Some(&Root::open(&directory)?), special_files)?;
    etc_merge::ensure_accepted(&predicted)
}

/// Copies that libostree merges from, mounted over the booted deployment's `/etc` and `/usr/etc`.
struct Copies {
    local: PathBuf,
    base: PathBuf,
    /// True if `base` differs from the booted deployment's `/usr/etc`.
    is_base_changed: bool,
}

impl Copies {
    /// Copy `/etc` and `/usr/etc` of the deployment at `running` below `top`, and add the enablement links
    /// that the deployment at `new` ships.
    fn make(top: &Path, running: &Path, new: &Path) -> Result<Self, HostError> {
        let (local, base) = (top.join("local"), top.join("base"));
        let failed = |path: &Path, error| HostError::io(FileOperation::MakeDirectory, path, &error);
        for (from, to) in [("etc", &local), ("usr/etc", &base)] {
            std::fs::create_dir(to).map_err(|error| failed(to, error))?;
            etc_copy::copy(&running.join(from), to)?;
        }
        let added = shipped_links::add_shipped_links(
            &new.join("usr/etc"),
            &running.join("usr/etc"),
            &local,
            &[&base, &local],
        );
        let is_base_changed = added.map_err(|error| failed(&local, error))?;
        Ok(Self { local, base, is_base_changed })
    }

    /// Open the new deployment with the local copy as its `/etc`.
    fn next(&self, new: &Path) -> Result<Root, HostError> {
        Root::with_etc_and_var(new, &self.local, Path::new("/var"))
    }
}

/// Temporary directory that is removed when dropped.
struct Private(PathBuf);

impl Private {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            log::warn!("cannot remove {}: {error}", self.0.display(), error = chain(&error));
        }
    }
}

fn private_directory() -> std::io::Result<Private> {
    let path = Path::new(REHEARSAL);
    // Leftovers of a killed process.
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    Ok(Private(path.to_owned()))
}

/// Change the managed paths in the `/etc` of `next` to the pending generation, and write its record.
fn write_generation(
    running: &LockedHost<'_>,
    next: &Root,
    pending: &PendingGeneration,
) -> Result<(), TransactionError> {
    let current = CurrentState::load(next)?;
    let change = etc_steps(running, next, &current, pending)?;
    Ok(apply::write_to_unused(next, &change.steps, &change.labels)?)
}

/// Steps that change an `/etc` to a generation.
pub(crate) struct EtcSteps {
    pub(crate) steps: Vec<PlanStep>,
    pub(crate) labels: SelinuxLabels,
}

/// Plan how the `/etc` of `next`, with the state `current`, becomes that of the pending generation. The settings of the
/// `running` host decide which local changes it keeps.
pub(crate) fn etc_steps(
    running: &LockedRoot<'_>,
    next: &Root,
    current: &CurrentState,
    pending: &PendingGeneration,
) -> Result<EtcSteps, TransactionError> {
    let desired: DecodedConfig = stage::pending_config(pending)?;
    let staged = &pending.staged.record;
    let begins = pending.staged.completes_first_boot && current.record.is_none();
    let before = if begins { Some(&desired.host) } else { current.host() };
    let merging = if begins { None } else { merge_policies(running, next, &desired.host)? };
    let change = TreeChange {
        current,
        before,
        desired: &desired.host,
        profile: staged.profile,
        scope: TreeScope::Etc,
        merging: LocalMerging::by(merging.as_ref(), running),
    };
    let mut plan = plan_tree_update(next, change)?;
    // Staging has refused them, unless they were made since, or the update overrules them.
    for path in plan.overrule_conflicts(|_| true) {
        log::warn!(
            "the local changes of {path} contradict the config of the new generation, and are replaced"
        );
    }
    PlanError::ensure_paths_free(&plan)?;
    let tree = plan.tree.clone().unwrap_or_default();
    let composed = record::compose_record(
        current,
        &desired,
        &plan,
        // The staged manifest, which takes the place of the one composed here, has the others.
        GenerationLabels { record: staged.labels.clone(), ..GenerationLabels::default() },
        Some(pending.staged.deployment.clone()),
        running.boot_id(),
    );
    let record = GenerationRecord {
        generation: staged.generation.clone(),
        sequence: staged.sequence,
        manifest: staged.manifest,
        unsupported: staged.unsupported.clone(),
        deferred: staged.deferred.clone(),
        ..composed
    };
    let mut files = AgentFiles::after(next, Vec::new());
    record::etc_change_steps(&mut files, tree.steps, &desired, &record, |files| {
        unconfirmed_mark::add_mark(files, pending)?;
        files.extend(adopted_copy::next_unit_steps(next)?);
        workload_gate::add_gates(files, next)?;
        Ok(record::first_presets(files, next, &desired)?)
    })?;
    let labels = labels::labels_of_steps(next, &files.steps, &staged.labels)?;
    Ok(EtcSteps { steps: files.steps, labels })
}

/// Fail unless the new deployment has the generation's record: `ostree admin finalize-staged` succeeds even
/// if no deployment is staged.
fn ensure_written(directory: &Path, pending: &PendingGeneration) -> Result<(), TransactionError> {
    // An unreadable record counts as missing.
    let record = Root::open(directory).ok().and_then(|root| CurrentState::load_record(&root).ok()?);
    if record.is_some_and(|record| record.generation == *pending.generation()) {
        return Ok(());
    }
    let path = directory.join(RECORD.trim_start_matches('/'));
    Err(UpdateError::NotFinalized { generation: pending.generation().to_owned(), path }.into())
}

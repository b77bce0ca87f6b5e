//! Status of a tree, of a sysroot or of the running host, and its publication for all users.

use std::error::Error;
use std::path::Path;

use jiff::Timestamp;

use crate::cli::{CliError, image_agent};
use crate::core::history::history_log::HistoryLog;
use crate::core::history::update_phases::last_disruption;
use crate::core::state::blocked::{BLOCKED, BlockedTarget};
use crate::core::state::journal::{JOURNAL, Journal};
use crate::core::state::objects::{ACTIVE, ActiveManifest};
use crate::core::state::pending::rollback_pin::PINNED;
use crate::core::state::pending::{PENDING, PendingGeneration};
use crate::core::state::reboot_grant::{REBOOT_GRANT, RebootGrant};
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::host::facts::booted::{BootedDeployment, SYSROOT};
use crate::host::fs::lock::HostLock;
use crate::host::{Root, RunningHost};
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::report::status::{
    AgentItem, ArgumentsItem, ConditionItem, DeploymentItem, GenerationItem, GrantItem, OriginItem,
    PendingItem, PendingState, RebootPolicyItem, SpaceItem, StatusDocument, TransactionItem,
    UnreadableDocument, WindowItem, mark_rollback,
};
use crate::transaction::TransactionError;
use crate::transaction::engine::atomic_file;
use crate::transaction::grant::RebootPolicy;
use crate::transaction::plan::host_origin::HostOrigin;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::{blocked, boot_check_time, interrupted, pending, status_files};
use crate::transaction::update::space::FreeSpace;
use crate::transaction::update::sysroot::{DeploymentState, deployment_states, is_booted, open_change};
use crate::transaction::update::{space, sysroot};
use crate::transaction::{grant, history};

/// Publish the status of the running host for users who may not read it. Failure is only logged: the change that was made
/// does not depend on it.
pub(crate) fn publish() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let Ok(Some(host)) = RunningHost::open() else { return };
    match of_running(&host) {
        Ok(document) => status_files::STATUS.publish(&host.root, &document.published(Timestamp::now())),
        Err(error) => log::warn!("cannot publish the status: {}", error.chain()),
    }
}

/// Load the status that was published last, with the daemon's last report.
pub(crate) fn published() -> Result<StatusDocument, CliError> {
    let root = Root::open(Path::new("/"))?;
    let document = status_files::STATUS.load(&root).ok_or(CliError::NoStatus)?;
    Ok(document.with_daemon(status_files::DAEMON.load(&root)))
}

pub(crate) fn of_tree(path: &Path) -> Result<StatusDocument, CliError> {
    let root = Root::open(path)?;
    let (transaction, unreadable) = transaction_or_reason(interrupted::open_change(&root))?;
    let record = CurrentState::load_record(&root).map_err(TransactionError::from)?;
    Ok(StatusDocument { transaction, unreadable, ..StatusDocument::of_tree(agent()?, record.as_ref()) })
}

/// Read the running host. libostree's sysroot is `/`; the deployments' files are read below the physical
/// root, `/sysroot`.
pub(crate) fn of_running(host: &RunningHost) -> Result<StatusDocument, CliError> {
    let root = &host.root;
    let mut unreadable = documents_set_aside(root)?;
    let mut readable = |path: &str, error: &dyn Error| {
        unreadable.push(UnreadableDocument { path: path.to_owned(), reason: chain(error) });
    };
    let pending = pending::load(root).map_err(|error| readable(PENDING, &error)).unwrap_or_default();
    let blocked = blocked::load(root).map_err(|error| readable(BLOCKED, &error)).unwrap_or_default();
    let boot_check = status_files::BOOT_CHECK.load(root);
    let daemon = status_files::DAEMON.load(root);
    let daemon_running = HostLock::ensure_no_daemon(root).is_err();
    let skew = host.booted.skew(&host.system.kernel_arguments);
    // Times are a help, and the status is true without them.
    let log = history::load(root).unwrap_or_default();
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, Path::new("/"), SysrootAccess::Read)?;
    let mut document = of_session(&mut session, Path::new(SYSROOT), Some(&host.booted))?;
    // The daemon watches for drift by itself.
    let drift = (!daemon_running).then(|| drifted_paths(&mut session, host)).flatten();
    let is_locked = pending.as_ref().and_then(|pending| name_staged(&mut document.deployments, pending));
    let pending = pending
        .map(|pending| PendingItem::of(&pending, &host.system.boot_id, &host.booted.deployment, is_locked));
    let is_unconfirmed = pending.as_ref().is_some_and(|pending| pending.state == PendingState::Unconfirmed);
    let left = boot_check_time::time_left(host).filter(|_| is_unconfirmed);
    unreadable.append(&mut document.unreadable);
    mark_rollback(&mut document.deployments, blocked.as_ref());
    for generation in document.deployments.iter_mut().filter_map(|item| item.generation.as_mut()) {
        generation.add_times(&log);
    }
    let mut document = StatusDocument {
        pending,
        blocked,
        kernel_arguments_after_reboot: ArgumentsItem::of(&skew),
        boot_check,
        boot_check_seconds_left: left.map(|left| left.as_secs()),
        reboot_policy: grant::policy_of(host).map(|policy| policy_item(&policy, &log)),
        hooks: status_files::HOOKS.load(root).unwrap_or_default().0,
        daemon,
        daemon_running,
        drift,
        unreadable,
        origin: Some(origin_item(HostOrigin::load(root))),
        space: space::free_space().into_iter().map(space_item).collect(),
        ..document
    };
    document.condition = Some(ConditionItem::of(&document, &log));
    Ok(document)
}

/// Count the managed paths whose drift counts; `None` where they cannot be compared, as within a change.
fn drifted_paths(session: &mut WorkerSession, host: &RunningHost) -> Option<u64> {
    let verified = sysroot::verify_running(session, host).ok()?;
    Some(verified.findings.iter().filter(|found| found.counts()).count() as u64)
}

/// Name the generation of the staged deployment, which has no record before it is finalized. Returns true if it is
/// locked; `None` if the deployment of the pending generation is not staged.
fn name_staged(deployments: &mut [DeploymentItem], pending: &PendingGeneration) -> Option<bool> {
    let id = pending.staged.deployment.id();
    let is_it = |item: &&mut DeploymentItem| {
        item.staged && (&item.stateroot, &item.commit, item.serial) == (&id.stateroot, &id.commit, id.serial)
    };
    let item = deployments.iter_mut().find(is_it)?;
    item.generation = Some(GenerationItem::at_finalization(&pending.staged.record));
    Some(item.locked)
}

fn origin_item(origin: HostOrigin) -> OriginItem {
    let HostOrigin { boot_image, irreconcilable_changes, unreadable } = origin;
    let unreadable = unreadable.into_iter().map(|(path, reason)| UnreadableDocument { path, reason });
    OriginItem { boot_image, irreconcilable_changes, unreadable: unreadable.collect() }
}

fn policy_item(policy: &RebootPolicy, log: &HistoryLog) -> RebootPolicyItem {
    let item = RebootPolicyItem {
        window: policy.open.map(WindowItem::from),
        lock: policy.lock.clone(),
        grant: policy.grant.as_ref().map(GrantItem::from),
        warnings: policy.faults.clone(),
    };
    item.warned_of_short_window(last_disruption(&log.entries))
}

fn space_item(FreeSpace { place, free, total }: FreeSpace) -> SpaceItem {
    SpaceItem { path: place.to_owned(), free, total }
}

/// Reason why the bytes of a document cannot be read.
type ReasonReader<'a> = dyn Fn(&[u8]) -> String + 'a;

/// List the documents that were set aside, each with the reason.
fn documents_set_aside(root: &Root) -> Result<Vec<UnreadableDocument>, CliError> {
    let reason = |error: Option<&dyn Error>| error.map_or_else(String::new, chain);
    let readers: [(&str, &ReasonReader<'_>); 5] = [
        (PENDING, &|bytes| reason(PendingGeneration::parse(bytes).err().as_ref().map(|error| error as _))),
        (BLOCKED, &|bytes| reason(BlockedTarget::parse(bytes).err().as_ref().map(|error| error as _))),
        (REBOOT_GRANT, &|bytes| reason(RebootGrant::parse(bytes).err().as_ref().map(|error| error as _))),
        (ACTIVE, &|bytes| reason(ActiveManifest::parse(bytes).err().as_ref().map(|error| error as _))),
        (PINNED, &|_| format!("{PINNED} is damaged, or a newer release wrote it")),
    ];
    let mut documents = Vec::new();
    for (path, reason) in readers {
        let aside = atomic_file::aside(&ManagedPath::constant(path));
        if let Some(bytes) = root.read(&aside, limits::INFLATED_BYTES).map_err(TransactionError::from)? {
            documents.push(UnreadableDocument { path: aside.to_string(), reason: reason(&bytes) });
        }
    }
    Ok(documents)
}

/// Read a sysroot that is not booted.
pub(crate) fn of_sysroot(path: &Path) -> Result<StatusDocument, CliError> {
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, path, SysrootAccess::Read)?;
    of_session(&mut session, path, None)
}

fn of_session(
    session: &mut WorkerSession,
    sysroot: &Path,
    booted: Option<&BootedDeployment>,
) -> Result<StatusDocument, CliError> {
    let mut states = deployment_states(session, sysroot)?;
    if let Some(booted) = booted {
        for DeploymentState { deployment, .. } in &mut states {
            deployment.booted = is_booted(deployment, booted);
        }
    }
    let (transaction, unreadable) = transaction_or_reason(open_change(sysroot, &states))?;
    let deployments = items(states);
    Ok(StatusDocument { transaction, unreadable, ..StatusDocument::of_sysroot(agent()?, deployments) })
}

/// Describe the running executable.
fn agent() -> Result<AgentItem, CliError> {
    let path = image_agent::own_path()
        .map_err(|source| CliError::Input { file: "/proc/self/exe".to_owned(), source })?;
    Ok(AgentItem { version: image_agent::VERSION.to_owned(), path: path.display().to_string() })
}

/// Describe the open change; a journal that cannot be read must not hide the rest of the status.
fn transaction_or_reason(
    opened: Result<Option<(Journal, bool)>, TransactionError>,
) -> Result<(Option<TransactionItem>, Vec<UnreadableDocument>), CliError> {
    match opened {
        Ok(open) => Ok((open.map(transaction_item), Vec::new())),
        Err(TransactionError::Recovery(error)) => {
            Ok((None, vec![UnreadableDocument { path: JOURNAL.to_owned(), reason: chain(&error) }]))
        }
        Err(error) => Err(error.into()),
    }
}

fn transaction_item((open, in_progress): (Journal, bool)) -> TransactionItem {
    TransactionItem::of(open, in_progress)
}

/// Convert the deployments in boot order. One that is locked is not finalized, so the one behind it boots next.
fn items(states: Vec<DeploymentState>) -> Vec<DeploymentItem> {
    let next = states.iter().position(|state| !state.deployment.locked);
    states.into_iter().enumerate().map(|(index, state)| item(state, next == Some(index))).collect()
}

fn item(state: DeploymentState, next: bool) -> DeploymentItem {
    let DeploymentState { deployment, record, record_matches } = state;
    DeploymentItem {
        next,
        booted: deployment.booted,
        staged: deployment.staged,
        locked: deployment.locked,
        rollback: false,
        pinned: deployment.pinned,
        stateroot: deployment.id.stateroot,
        commit: deployment.id.commit,
        serial: deployment.id.serial,
        version: deployment.version,
        image: deployment.image.map(String::from),
        manifest_digest: deployment.manifest_digest,
        kernel_arguments: deployment.kernel_arguments,
        generation: record.map(|record| GenerationItem::of(&record, record_matches)),
    }
}

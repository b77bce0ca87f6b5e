//! `apply` and `rollback` on the running host: stage, unlock, and ask logind for the reboot.

use std::path::PathBuf;

use crate::cli::change::apply::{RebootMode, SwitchArgs, UpdateRequest, restored, unapplied};
use crate::cli::change::change_report::ChangeReport;
use crate::cli::lock_wait::LockWaitArgs;
use crate::cli::output::progress::ProgressDisplay;
use crate::cli::output::terminal::say;
use crate::cli::session::{open_running, running_host};
use crate::cli::{CliError, CommandOutcome};
use crate::core::etc_merge::display_path;
use crate::core::plan::remaining_work::RemainingWork;
use crate::core::state::pending::PendingGeneration;
use crate::core::values::causes::chain;
use crate::core::values::identifiers::ConfigName;
use crate::host::fs::lock::HostLock;
use crate::host::systemd::logind::LogindReboot;
use crate::host::systemd::reboot_port::RebootOutcome::{AlreadyPending, Requested};
use crate::host::systemd::reboot_port::{InhibitorLock, InhibitorPolicy, RebootControl as _, RebootRequest};
use crate::host::{LockedHost, Root, RunningHost, SystemdServices};
use crate::os::Sysroot;
use crate::report::change::{ChangeResult, RebootOutlook};
use crate::transaction::plan::target::{TargetSysroot, UpdatePurpose, UpdateTarget};
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::settings::settings_or_default;
use crate::transaction::state::{pending, status_files};
use crate::transaction::update::live_update::AppliedUpdate;
use crate::transaction::update::rollback;
use crate::transaction::update::running_host::StagedUpdate;
use crate::transaction::update::stage;
use crate::transaction::{TransactionError, grant, update};

/// Explanation of a lock that the command did not ask for.
const POLICY_LOCKS: &str = "this host has a reboot policy (see flameholder.toml(5)): the deployment stays locked until the daemon has a \
    grant for this config; --override-policy unlocks it now\n";

pub(crate) fn apply(
    request: UpdateRequest<'_>,
    switch: SwitchArgs,
    mut report: ChangeReport,
) -> Result<CommandOutcome, CliError> {
    let UpdateRequest { desired, image, profile, os_backend, wait, override_policy } = request;
    let host = running_host()?;
    let needs_grant = !override_policy && grant::is_demanded(&host);
    if needs_grant && switch.reboot != RebootMode::Never {
        return Err(CliError::NeedsGrant);
    }
    let switch = SwitchArgs { locked: switch.locked || needs_grant, ..switch };
    let mut open = os_backend.opener(&settings_or_default(&host.root));
    let (mut session, locked) = wait.stage_on(&host, &mut open)?;
    report.start_clock();
    ensure_source_agrees(&host, &desired.object.name, switch.override_source)?;
    let target = UpdateTarget {
        sysroot: TargetSysroot::Running(&host),
        desired,
        image,
        purpose: UpdatePurpose::Update,
        profile,
        policy: None,
    };
    let mut progress = ProgressDisplay::start("plan");
    let work = update::running_host::prepare(&mut *session, &locked, target, &mut |stage| {
        progress.show(&stage);
    });
    progress.finish(work.is_ok());
    let name = &desired.object.name;
    match work? {
        RemainingWork::Nothing => {
            let record = CurrentState::load_record(&locked).map_err(TransactionError::from)?;
            let generation = record.map(|record| record.generation).unwrap_or_default();
            let is_unconfirmed = pending::load(locked.as_root())
                .is_ok_and(|pending| pending.is_some_and(|pending| *pending.generation() == generation));
            let so_far = if is_unconfirmed { "; its boot check has not passed yet" } else { "" };
            report.resulted(ChangeResult::Unchanged, name, &generation);
            let applied = format!("{name} is applied already (generation {}{so_far})", generation.shown());
            report.end(&format!("nothing to do: {applied}\n"))
        }
        RemainingWork::Live(update) => {
            progress.begin("change files and services");
            let applied = update.apply(&SystemdServices::system(), &locked);
            progress.finish(applied.is_ok());
            let AppliedUpdate { plan, generation } = applied?;
            report.resulted(ChangeResult::Applied, name, &generation);
            let text = format!("applied {}; no reboot is needed\n", report.changed(&plan));
            report.end(&(text + &restored(&plan, true) + &unapplied(&plan, "")))
        }
        RemainingWork::Reboot(staged) => {
            report.document.config = Some(name.clone());
            let is_unlocked = staged.pending.unlocked_in.as_ref() == Some(locked.boot_id());
            if needs_grant && !is_unlocked {
                report.tell(POLICY_LOCKS)?;
            }
            switch_to(session, locked, staged, switch, report)
        }
    }
}

/// Stage the generation before the booted one, and switch to it as the options say.
pub(crate) fn roll_back(
    switch: SwitchArgs,
    wait: LockWaitArgs,
    mut report: ChangeReport,
) -> Result<CommandOutcome, CliError> {
    let host = running_host()?;
    let (mut session, locked) = wait.stage_on(&host, &mut open_running)?;
    report.start_clock();
    let previous = rollback::previous_generation(&mut *session, &host)?;
    ensure_source_agrees(&host, &previous.record.config, switch.override_source)?;
    let mut progress = ProgressDisplay::start("plan");
    let staged = rollback::stage_rollback(&mut *session, &locked, &previous, &mut |stage| {
        progress.show(&stage);
    });
    progress.finish(staged.is_ok());
    let staged = staged?;
    if let Some(plan) = &staged.plan {
        match rollback::unmanaged_differences(&host.booted, &previous, plan) {
            Ok(paths) => report.tell(&unmanaged_differences(&paths))?,
            // The rollback does not depend on this list.
            Err(error) => log::warn!(
                "the unmanaged paths that the rollback keeps cannot be listed: {error}",
                error = chain(&error)
            ),
        }
    }
    report.document.config = Some(previous.record.config);
    switch_to(session, locked, staged, switch, report)
}

/// List unmanaged paths of `/etc` that the rollback does not change. A list of thousands would go unread: the
/// first twenty are named, the others counted.
fn unmanaged_differences(paths: &[PathBuf]) -> String {
    const SHOWN: usize = 20;
    let mut text = String::new();
    for (number, path) in paths.iter().enumerate() {
        match number {
            0 => text.push_str("kept as now, although different in the previous deployment:\n"),
            SHOWN => return format!("{text}  and {} more\n", paths.len() - SHOWN),
            _ => {}
        }
        text += &format!("  {}\n", display_path(path));
    }
    text
}

/// Fail if the daemon follows a source that desires another config than `config`: it would undo the command.
pub(crate) fn ensure_source_agrees(
    host: &RunningHost,
    config: &ConfigName,
    is_overridden: bool,
) -> Result<(), CliError> {
    if is_overridden || HostLock::ensure_no_daemon(&host.root).is_ok() {
        return Ok(());
    }
    let Some(report) = status_files::DAEMON.load(&host.root) else { return Ok(()) };
    match report.desired {
        Some(desired) if desired != *config => {
            let origin = report.source.unwrap_or_else(|| "a source".to_owned());
            Err(CliError::FollowsSource { origin, desired })
        }
        _ => Ok(()),
    }
}

/// Report the staged update, unlock it unless it shall stay locked, and ask for a reboot where the options say so.
fn switch_to(
    mut session: Box<dyn Sysroot>,
    host: LockedHost<'_>,
    update: StagedUpdate,
    switch: SwitchArgs,
    mut report: ChangeReport,
) -> Result<CommandOutcome, CliError> {
    let StagedUpdate { plan, pending } = update;
    let id = pending.staged.deployment.id().to_string();
    report.document.result = ChangeResult::Staged;
    report.document.generation = Some(pending.generation().clone());
    report.document.deployment = Some(id.clone());
    // There is no plan where it was staged before.
    let staged = match &plan {
        Some(plan) => report.changed(plan),
        None => report.subject(),
    };
    let left = plan.as_ref().map(|plan| restored(plan, false) + &unapplied(plan, "")).unwrap_or_default();
    report.tell(&format!("staged {staged}\ndeployment {id}\n{left}"))?;
    if switch.locked {
        let is_unlocked = pending.unlocked_in.as_ref() == Some(host.boot_id());
        report.document.reboot = if is_unlocked { RebootOutlook::Outstanding } else { RebootOutlook::Locked };
        return report.end(if is_unlocked {
            "it was unlocked before, and boots with the next reboot; `flameholder unstage` discards it\n"
        } else {
            "staged and locked: to unlock it, call the same command without --locked\n"
        });
    }
    stage::unlock(&mut *session, &SystemdServices::system(), &host, &pending)?;
    let root = &host.running.root;
    // Others can work on the host while the reboot waits for inhibitor locks.
    drop((session, host));
    if switch.reboot == RebootMode::Never {
        report.document.reboot = RebootOutlook::Outstanding;
        return report.end("reboot to activate: systemctl reboot\n");
    }
    let requested = request_reboot(root, &pending, switch.reboot)?;
    report.document.reboot = RebootOutlook::Requested;
    report.end(&requested)
}

/// Ask logind for the reboot, once, and describe its answer. The staged deployment is unlocked by then, so that a later
/// reboot boots it too.
fn request_reboot(root: &Root, pending: &PendingGeneration, reboot: RebootMode) -> Result<String, CliError> {
    let request = RebootRequest {
        reason: pending.reboot_reason(),
        inhibitor_timeout: settings_or_default(root).reboot.inhibitor_timeout(),
        inhibitors: if reboot == RebootMode::Insist {
            InhibitorPolicy::OverruleAfterDeadline
        } else {
            InhibitorPolicy::Obey
        },
    };
    let mut report = |blocking: &[InhibitorLock]| {
        let who: Vec<String> = blocking.iter().map(ToString::to_string).collect();
        if !who.is_empty() {
            say(&format!("the reboot waits for {}", who.join(", ")));
        }
    };
    let outcome = LogindReboot::system().reboot(&request, &mut report).map_err(TransactionError::from)?;
    Ok(match outcome {
        Requested { over } if over.is_empty() => "the host reboots now\n".to_owned(),
        Requested { over } => {
            let who: Vec<String> = over.iter().map(ToString::to_string).collect();
            format!("the host reboots now, over the inhibitor locks of {}\n", who.join(", "))
        }
        AlreadyPending(shutdown) => format!("{shutdown}; it boots the staged deployment\n"),
    })
}

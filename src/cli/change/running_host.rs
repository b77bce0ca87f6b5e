//! `apply` and `rollback` on the running host: stage, unlock, and ask logind for the reboot.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::change::apply::{RebootMode, unapplied};
use crate::cli::os_backend::OsBackendArgs;
use crate::cli::output::progress::ProgressDisplay;
use crate::cli::output::terminal::{print_text, say};
use crate::cli::session::{open_running, running_host};
use crate::cli::{CliError, CommandOutcome};
use crate::core::config::policy::DisruptionPolicy;
use crate::core::etc_merge::display_path;
use crate::core::plan::remaining_work::RemainingWork;
use crate::core::state::pending::PendingGeneration;
use crate::core::values::causes::chain;
use crate::core::values::identifiers::ConfigName;
use crate::core::values::profile::Profile;
use crate::host::systemd::logind::LogindReboot;
use crate::host::systemd::reboot_port::RebootOutcome::{AlreadyPending, Requested};
use crate::host::systemd::reboot_port::{InhibitorLock, InhibitorPolicy, RebootControl as _, RebootRequest};
use crate::host::{LockedHost, SystemdServices};
use crate::os::Sysroot;
use crate::os::protocol::SysrootAccess;
use crate::transaction::boot::pending_deployment;
use crate::transaction::plan::target::{TargetSysroot, UpdatePurpose, UpdateTarget};
use crate::transaction::state::current::{CurrentState, DecodedConfig};
use crate::transaction::update::live_update::AppliedUpdate;
use crate::transaction::update::rollback;
use crate::transaction::update::running_host::StagedUpdate;
use crate::transaction::{TransactionError, update};

/// Longest wait for the inhibitor locks that block a reboot.
const INHIBITOR_TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) fn apply(
    desired: &DecodedConfig,
    image: Option<&str>,
    profile: Profile,
    reboot: RebootMode,
    os_backend: OsBackendArgs,
) -> Result<CommandOutcome, CliError> {
    let image = image.map(str::parse).transpose()?;
    let host = running_host()?;
    let mut session = os_backend.opener()(SysrootAccess::Stage)?;
    let target = UpdateTarget {
        sysroot: TargetSysroot::Running(&host),
        desired,
        image: image.as_ref(),
        purpose: UpdatePurpose::Update,
        profile,
        policy: &DisruptionPolicy::default(),
    };
    let locked = host.lock()?;
    let mut progress = ProgressDisplay::start();
    let work = update::running_host::prepare(&mut *session, &locked, target, &mut |stage| {
        progress.show(&stage);
    });
    progress.finish();
    let name = &desired.object.name;
    match work? {
        RemainingWork::Nothing => {
            let record = CurrentState::load_record(&locked).map_err(TransactionError::from)?;
            let generation = record.map(|record| record.generation).unwrap_or_default();
            print_text(&format!("nothing to do: {name} is applied already (generation {generation})\n"))?;
            Ok(CommandOutcome::Success)
        }
        RemainingWork::Live(update) => {
            let AppliedUpdate { plan, generation } = update.apply(&SystemdServices::system(), &locked)?;
            let text = format!("applied {name} as generation {generation}; no reboot is needed\n");
            print_text(&(text + &unapplied(&plan)))?;
            Ok(CommandOutcome::Success)
        }
        RemainingWork::Reboot(staged) => reboot_into(session, locked, staged, name, reboot),
    }
}

/// Stage the generation before the booted one, and reboot into it as `reboot` says.
pub(crate) fn roll_back(reboot: RebootMode) -> Result<CommandOutcome, CliError> {
    let host = running_host()?;
    let mut session = open_running(SysrootAccess::Stage)?;
    let previous = rollback::previous_generation(&mut *session, &host)?;
    let locked = host.lock()?;
    let mut progress = ProgressDisplay::start();
    let staged = rollback::stage_rollback(&mut *session, &locked, &previous, &mut |stage| {
        progress.show(&stage);
    });
    progress.finish();
    let staged = staged?;
    if let Some(plan) = &staged.plan {
        match rollback::unmanaged_differences(&host.booted, &previous, plan) {
            Ok(paths) => print_text(&unmanaged_differences(&paths))?,
            // The rollback does not depend on this list.
            Err(error) => log::warn!(
                "the unmanaged paths that the rollback keeps cannot be listed: {error}",
                error = chain(&error)
            ),
        }
    }
    reboot_into(session, locked, staged, &previous.record.config, reboot)
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

/// Report the staged update, unlock it and ask for the reboot, as `reboot` says.
fn reboot_into(
    mut session: Box<dyn Sysroot>,
    host: LockedHost<'_>,
    update: StagedUpdate,
    name: &ConfigName,
    reboot: RebootMode,
) -> Result<CommandOutcome, CliError> {
    let StagedUpdate { plan, pending } = update;
    let left = plan.map(|plan| unapplied(&plan)).unwrap_or_default();
    print_text(&(staged(&pending, name) + &left))?;
    if reboot == RebootMode::Never {
        say("staged and locked: it boots after the same command is called without `--reboot never`");
        return Ok(CommandOutcome::Success);
    }
    pending_deployment::unlock(&mut *session, &SystemdServices::system(), &host, &pending)?;
    // Others can work on the host while the reboot waits for inhibitor locks.
    drop((session, host));
    request_reboot(&pending, reboot)?;
    Ok(CommandOutcome::Success)
}

fn staged(pending: &PendingGeneration, name: &ConfigName) -> String {
    let (generation, id) = (pending.generation(), pending.staged.deployment.id());
    format!("staged {name} as generation {generation}\ndeployment {id}\n")
}

/// Ask logind for the reboot, once. The staged deployment is unlocked by then, so that any later reboot boots
/// it too.
fn request_reboot(pending: &PendingGeneration, reboot: RebootMode) -> Result<(), CliError> {
    let request = RebootRequest {
        reason: pending.reboot_reason(),
        inhibitor_timeout: INHIBITOR_TIMEOUT,
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
    let text = match LogindReboot::system().reboot(&request, &mut report).map_err(TransactionError::from)? {
        Requested { over } if over.is_empty() => "the host reboots now\n".to_owned(),
        Requested { over } => {
            let who: Vec<String> = over.iter().map(ToString::to_string).collect();
            format!("the host reboots now, over the inhibitor locks of {}\n", who.join(", "))
        }
        AlreadyPending(shutdown) => format!("{shutdown}; it boots the staged deployment\n"),
    };
    print_text(&text)
}

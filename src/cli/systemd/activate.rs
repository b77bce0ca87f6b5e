//! `flameholder activate`: early in boot, put the generation's files outside `/etc` in place
//! (`flameholder-activate.service`).

use std::path::Path;

use clap::Args;

use crate::cli::output::terminal::{print_text, say};
use crate::cli::session::{enter_namespace, open_running_with};
use crate::cli::systemd::reboot::reboot_immediately;
use crate::cli::{CliError, CommandOutcome, TargetArgs};
use crate::core::state::boot_check::RollbackDisabled;
use crate::core::state::booted_state::BootedState;
use crate::core::state::pending::PendingGeneration;
use crate::host::{HostError, LockedRoot, Root, RunningHost};
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::transaction::TransactionError;
use crate::transaction::boot::activate::{ActivationOutcome, ActivationStage};
use crate::transaction::boot::automatic_rollback::RollbackResult;
use crate::transaction::boot::early_boot::EarlyBootOutcome;
use crate::transaction::boot::{activate, automatic_rollback, early_boot};
use crate::transaction::state::login_message;

/// Problems that are named one by one.
const REPORTED: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct ActivateArgs {
    #[command(flatten)]
    place: TargetArgs,
    /// Complete the activation of the running host, once all file systems are mounted
    #[arg(long, conflicts_with_all = ["root", "sysroot"])]
    after_mounts: bool,
}

pub(crate) fn run(args: &ActivateArgs) -> Result<CommandOutcome, CliError> {
    let activated = match &args.place.sysroot {
        Some(sysroot) => {
            let mut session = WorkerSession::open(&WorkerProgram::locate()?, sysroot, SysrootAccess::Write)?;
            activate::activate_next(&mut session, sysroot)?
        }
        None => match (&args.place.root, RunningHost::open_early()?) {
            (None, Some(host)) if args.after_mounts => {
                return activate_at_boot(host, ActivationStage::AfterMounts);
            }
            (None, Some(host)) => return activate_at_boot(host, ActivationStage::Early),
            (root, _) => {
                let root = Root::open(root.as_deref().unwrap_or(Path::new("/")))?;
                activate::activate(&LockedRoot::lock(&root)?)?
            }
        },
    };
    print_text(&summary(&activated))?;
    Ok(CommandOutcome::Success)
}

/// Activate the booted generation, and reboot at once if the deployment booted without its configuration or
/// has to be rolled back.
fn activate_at_boot(host: RunningHost, stage: ActivationStage) -> Result<CommandOutcome, CliError> {
    // Located first: `/proc/self/exe` may not resolve in the mount namespace.
    let worker = WorkerProgram::locate();
    let (host, namespace) = enter_namespace(host)?;
    let activated = host
        .lock()
        .map_err(TransactionError::from)
        .and_then(|host| early_boot::activate_at_boot(&host, &namespace, stage));
    let activated = match activated {
        // No other command runs before activation in a boot, so a held lock means a later start: the unit is
        // pulled in again by units that require it, such as a restarted kubelet, and must not keep them from
        // running.
        Err(TransactionError::Host(error @ HostError::Locked { .. })) if stage == ActivationStage::Early => {
            say(&format!("{error}; files were activated earlier in this boot"));
            return Ok(CommandOutcome::Success);
        }
        activated => activated?,
    };
    login_message::refresh(&host.root);
    match activated {
        EarlyBootOutcome::Unmanaged => print_text("flameholder does not manage this host\n")?,
        EarlyBootOutcome::AwaitsMounts(directory) => {
            say(&format!(
                "warn: an interrupted change is undone once the file system of {directory} is mounted"
            ));
        }
        EarlyBootOutcome::LeftAsItIs(reason) => {
            say(&format!("the files outside /etc stay as they are: {reason}"));
        }
        EarlyBootOutcome::Activated { state, activated, carried } => {
            print_text(&(booted_state_line(state, carried) + &summary(&activated)))?;
            report(&activated.problems);
        }
        EarlyBootOutcome::ConfigWritten { generation } => {
            say(&format!(
                "generation {generation} booted without its configuration; the configuration is now written"
            ));
            return reboot_immediately(&format!("generation {generation} booted without its configuration"));
        }
        EarlyBootOutcome::RollBack { pending, reason } => {
            return roll_back(&host, &worker?, &pending, &reason);
        }
    }
    Ok(CommandOutcome::Success)
}

/// Roll back and reboot, or keep a generation without a deployment to roll back to.
fn roll_back(
    host: &RunningHost,
    worker: &WorkerProgram,
    pending: &PendingGeneration,
    reason: &str,
) -> Result<CommandOutcome, CliError> {
    let generation = pending.generation();
    let mut open = |access| open_running_with(worker, access);
    match automatic_rollback::roll_back(&mut open, host, pending, reason.into())? {
        RollbackResult::BootsNext => {
            say(&format!("generation {generation} is rolled back and blocked: {reason}"));
            reboot_immediately(&format!("generation {generation} is rolled back"))
        }
        RollbackResult::DeploymentGone => {
            say(&format!(
                "generation {generation} should be rolled back ({reason}), and stays: {}",
                RollbackDisabled::DeploymentGone
            ));
            let locked = host.lock().map_err(TransactionError::from)?;
            let activated = early_boot::activate_kept(&locked)?;
            print_text(&summary(&activated))?;
            report(&activated.problems);
            Ok(CommandOutcome::Success)
        }
    }
}

/// Report each difference from the generation. It does not keep the workload from starting; `flameholder verify` finds
/// it as well.
fn report(problems: &[String]) {
    for problem in problems.iter().take(REPORTED) {
        say(&format!("warn: not activated: {problem}"));
    }
    let more = problems.len().saturating_sub(REPORTED);
    if more > 0 {
        say(&format!("warn: not activated: {more} more; see `flameholder verify`"));
    }
}

fn booted_state_line(state: BootedState, carried: usize) -> String {
    let foreign = match state {
        BootedState::Complete => "",
        _ => "foreign deployment: not made by flameholder, its /etc was merged from a generation\n",
    };
    let carried = match carried {
        0 => String::new(),
        number => format!("{number} paths are carried forward from the previously booted deployment\n"),
    };
    format!("{foreign}{carried}")
}

fn summary(activated: &ActivationOutcome) -> String {
    let ActivationOutcome { generation, changed, problems, awaited } = activated;
    let awaited: String =
        awaited.iter().map(|point| format!("files below {point} wait for its mount\n")).collect();
    let summary = if *changed {
        format!("activated the files outside /etc of generation {generation}\n")
    } else if !problems.is_empty() {
        format!("the files outside /etc do not all match generation {generation}\n")
    } else {
        format!("nothing to do: the files outside /etc match generation {generation}\n")
    };
    summary + &awaited
}

//! `flameholder recover`: undo or complete an interrupted change from its journal, and report the pending
//! generation.

use clap::Args;

use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, CommandOutcome, TargetArgs, session};
use crate::host::{LockedRoot, Root, RunningHost};
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::transaction::boot::pending_deployment;
use crate::transaction::boot::pending_deployment::PendingRecovery;
use crate::transaction::engine::recover::RecoveryOutcome;
use crate::transaction::state::interrupted;
use crate::transaction::update::sysroot;

#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    pub(crate) place: TargetArgs,
}

pub(crate) fn run(args: &RecoverArgs) -> Result<CommandOutcome, CliError> {
    let recovered = match &args.place.sysroot {
        Some(path) => {
            let mut session = WorkerSession::open(&WorkerProgram::locate()?, path, SysrootAccess::Write)?;
            sysroot::recover(&mut session, path)?
        }
        None => match &args.place.root {
            None => return on_running(&session::running_host()?),
            Some(root) => interrupted::recover(&LockedRoot::lock(&Root::open(root)?)?)?,
        },
    };
    print_text(&summary(&recovered))?;
    Ok(CommandOutcome::Success)
}

fn on_running(host: &RunningHost) -> Result<CommandOutcome, CliError> {
    let locked = host.lock()?;
    let recovered = interrupted::recover(&locked)?;
    let text = match pending_deployment::recover_pending(&locked, &mut session::open_running)? {
        PendingRecovery::Nothing => "nothing is pending\n".to_owned(),
        PendingRecovery::AwaitsReboot(pending) => {
            format!("generation {} is staged\n", pending.generation().shown())
        }
        PendingRecovery::AwaitsFullReboot(pending) => format!(
            "generation {} is finalized and boots with the next full reboot: systemctl reboot\n",
            pending.generation().shown()
        ),
        PendingRecovery::Unconfirmed(pending) => format!(
            "generation {} is booted and unconfirmed; its boot check (`flameholder-confirm-boot.service`) confirms it or rolls it back\n",
            pending.generation().shown()
        ),
        PendingRecovery::RollingBack(pending, reason) => format!(
            "generation {} is rejected: {reason}; the reboot that rolls it back is outstanding: reboot the host\n",
            pending.generation().shown()
        ),
        PendingRecovery::RolledBack(pending, reason) => {
            format!(
                "generation {} is blocked: {reason}; `flameholder retry` releases it\n",
                pending.generation().shown()
            )
        }
        PendingRecovery::Restaged(pending, failure) => format!(
            "generation {} did not boot: {}\nit is staged again; apply the same config to boot it\n",
            pending.generation().shown(),
            failure.reason
        ),
        PendingRecovery::Superseded(pending) => format!(
            "pending generation {} is dropped: the deployment that it was staged on is not booted\n",
            pending.generation().shown()
        ),
        PendingRecovery::Discarded(pending) => {
            format!(
                "pending generation {} is dropped: its staged deployment was discarded by another program\n",
                pending.generation().shown()
            )
        }
    };
    print_text(&(summary(&recovered) + &text))?;
    Ok(CommandOutcome::Success)
}

fn summary(recovered: &RecoveryOutcome) -> String {
    match recovered {
        RecoveryOutcome::Nothing => "no change was interrupted\n".to_owned(),
        RecoveryOutcome::CleanedUp => "temporary files of an interrupted change are removed\n".to_owned(),
        RecoveryOutcome::Undone { target } => {
            let to = target
                .as_ref()
                .map(|target| format!(" to generation {}", target.shown()))
                .unwrap_or_default();
            format!("the interrupted change{to} is undone: every managed file is as before\n")
        }
    }
}

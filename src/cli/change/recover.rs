//! `flameholder recover`: undo or complete an interrupted change from its journal, and report the pending
//! generation.

use clap::Args;

use crate::cli::change::change_report::{ChangeArgs, ChangeReport};
use crate::cli::lock_wait::LockWaitArgs;
use crate::cli::{CliError, CommandOutcome, TargetArgs, session};
use crate::host::{LockedRoot, Root, RunningHost};
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::report::change::{ChangeResult, RebootOutlook};
use crate::transaction::boot::pending_recovery;
use crate::transaction::boot::pending_recovery::PendingRecovery;
use crate::transaction::engine::recover::RecoveryOutcome;
use crate::transaction::state::interrupted;
use crate::transaction::update::sysroot;

#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    pub(crate) place: TargetArgs,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

pub(crate) fn run(args: &RecoverArgs) -> Result<CommandOutcome, CliError> {
    let report = ChangeReport::begin("recover", args.change);
    let recovered = match &args.place.sysroot {
        Some(path) => {
            let worker = WorkerProgram::locate()?;
            let open = || WorkerSession::open(&worker, path, SysrootAccess::Write);
            let mut session = args.change.wait.wait_for(open)?;
            sysroot::recover(&mut session, path)?
        }
        None => match &args.place.root {
            None => return on_running(&session::running_host()?, args.change.wait, report),
            Some(root) => {
                let root = Root::open(root)?;
                interrupted::recover(&args.change.wait.wait_for(|| LockedRoot::lock(&root))?)?
            }
        },
    };
    finish(report, &recovered, "")
}

/// Print what became of an interrupted change, and behind it `lines`.
fn finish(
    mut report: ChangeReport,
    recovered: &RecoveryOutcome,
    lines: &str,
) -> Result<CommandOutcome, CliError> {
    if *recovered != RecoveryOutcome::Nothing {
        report.document.result = ChangeResult::Recovered;
    }
    report.tell(&summary(recovered))?;
    report.end(lines)
}

fn on_running(
    host: &RunningHost,
    wait: LockWaitArgs,
    mut report: ChangeReport,
) -> Result<CommandOutcome, CliError> {
    let locked = wait.wait_for(|| host.lock())?;
    let recovered = interrupted::recover(&locked)?;
    let found = pending_recovery::recover_pending(&locked, &mut session::open_running)?;
    let (result, reboot) = match &found {
        PendingRecovery::AwaitsReboot(_)
        | PendingRecovery::AwaitsFullReboot(_)
        | PendingRecovery::RollingBack(..) => (ChangeResult::Unchanged, RebootOutlook::Outstanding),
        PendingRecovery::Restaged(..) => (ChangeResult::Recovered, RebootOutlook::Locked),
        PendingRecovery::Superseded(_) | PendingRecovery::Discarded(_) | PendingRecovery::RolledBack(..) => {
            (ChangeResult::Recovered, RebootOutlook::None)
        }
        PendingRecovery::Nothing | PendingRecovery::Unconfirmed(_) => {
            (ChangeResult::Unchanged, RebootOutlook::None)
        }
    };
    if let Some(pending) = found.generation() {
        report.resulted(result, &pending.staged.record.config, pending.generation());
    }
    report.document.reboot = reboot;
    finish(report, &recovered, &pending_text(&found))
}

fn pending_text(found: &PendingRecovery) -> String {
    let id = found.generation().map(|pending| pending.generation().shown().to_string()).unwrap_or_default();
    match found {
        PendingRecovery::Nothing => "nothing is pending\n".to_owned(),
        PendingRecovery::AwaitsReboot(_) => {
            format!("generation {id} is staged; once it is unlocked, the next reboot activates it\n")
        }
        PendingRecovery::AwaitsFullReboot(_) => {
            format!("generation {id} is finalized and boots with the next full reboot: systemctl reboot\n")
        }
        PendingRecovery::Unconfirmed(_) => format!(
            "generation {id} is booted and unconfirmed; its boot check (`flameholder-confirm-boot.service`) confirms it or rolls it back\n"
        ),
        PendingRecovery::RollingBack(_, reason) => format!(
            "generation {id} is rejected: {reason}; the reboot that rolls it back is outstanding: reboot the host\n"
        ),
        PendingRecovery::RolledBack(_, reason) => {
            format!("generation {id} is blocked: {reason}; `flameholder retry` releases it\n")
        }
        PendingRecovery::Restaged(_, failure) => format!(
            "generation {id} did not boot: {}\nit is staged again, and locked: the daemon unlocks it, or `flameholder apply` with the same config\n",
            failure.reason
        ),
        PendingRecovery::Superseded(_) => format!(
            "pending generation {id} is dropped: the deployment that it was staged on is not booted\n"
        ),
        PendingRecovery::Discarded(_) => format!(
            "pending generation {id} is dropped: its staged deployment was discarded by another program\n"
        ),
    }
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

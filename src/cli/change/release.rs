//! `flameholder release`: give a node back to the machine-config-daemon without a reboot.

use clap::Args;

use crate::cli::change::change_report::ChangeReport;
use crate::cli::lock_wait::LockWaitArgs;
use crate::cli::{CliError, CommandOutcome, OutputArgs, session};
use crate::host::SystemdServices;
use crate::os::protocol::SysrootAccess;
use crate::report::change::ChangeResult;
use crate::transaction::handover::installation;
use crate::transaction::handover::release::{ReleaseOutcome, release};

#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    wait: LockWaitArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(crate) fn run(args: &ReleaseArgs) -> Result<CommandOutcome, CliError> {
    let mut report = ChangeReport::begin("release", args.output.format);
    let host = session::running_host()?;
    let mut session = args.wait.wait_for(|| session::open_running(SysrootAccess::Stage))?;
    let host = args.wait.wait_for(|| host.lock())?;
    let released = release(&mut *session, &host)?;
    drop(session);
    // Also without a generation: an earlier call may have been interrupted before this step.
    installation::remove(&SystemdServices::system(), &host)?;
    let Some(ReleaseOutcome { config, kept }) = released else {
        return report.end("flameholder does not manage this host\n");
    };
    let mut text = format!("{config} is managed by the machine-config-daemon again; the host is unchanged\n");
    for (path, original) in kept {
        text.push_str(&format!("the content that {path} had before it was managed is kept in {original}\n"));
    }
    report.document.result = ChangeResult::Released;
    report.document.config = Some(config);
    report.end(&text)
}

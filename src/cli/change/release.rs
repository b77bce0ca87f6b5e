//! `flameholder release`: give a node back to the machine-config-daemon without a reboot.

use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, CommandOutcome, session};
use crate::host::SystemdServices;
use crate::os::protocol::SysrootAccess;
use crate::transaction::handover::installation;
use crate::transaction::handover::release::{ReleaseOutcome, release};

pub(crate) fn run() -> Result<CommandOutcome, CliError> {
    let host = session::running_host()?;
    let mut session = session::open_running(SysrootAccess::Stage)?;
    let host = host.lock()?;
    let released = release(&mut *session, &host)?;
    drop(session);
    // Also without a generation: an earlier call may have been interrupted before this step.
    installation::remove(&SystemdServices::system(), &host)?;
    let Some(ReleaseOutcome { config, kept }) = released else {
        print_text("flameholder does not manage this host\n")?;
        return Ok(CommandOutcome::Success);
    };
    let mut text = format!("{config} is managed by the machine-config-daemon again; the host is unchanged\n");
    for (path, original) in kept {
        text.push_str(&format!("the content that {path} had before it was managed is kept in {original}\n"));
    }
    print_text(&text)?;
    Ok(CommandOutcome::Success)
}

//! `flameholder release`: give a node back to the machine-config-daemon without a reboot.

use crate::cli::change::change_report::{ChangeArgs, ChangeReport};
use crate::cli::output::terminal::warn;
use crate::cli::{CliError, CommandOutcome, session};
use crate::host::SystemdServices;
use crate::report::change::ChangeResult;
use crate::transaction::handover::installation;
use crate::transaction::handover::release::{ReleaseOutcome, release};

pub(crate) fn run(args: &ChangeArgs) -> Result<CommandOutcome, CliError> {
    let mut report = ChangeReport::begin("release", *args);
    let host = session::running_host()?;
    let (mut session, host) = args.wait.stage_on(&host, &mut session::open_running)?;
    let released = release(&mut *session, &host)?;
    // Also without a generation: an earlier call may have been interrupted before this step.
    let needed = installation::remove(&mut *session, &SystemdServices::system(), &host)?;
    drop(session);
    if let Some(deployment) = needed {
        warn(&format!(
            "the agent's executables stay: the deployment {deployment} needs them; once it is gone, call `flameholder release` again"
        ));
    }
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

//! `flameholder confirm-boot`: run the boot check, then confirm the generation or roll it back
//! (`flameholder-confirm-boot.service`).

use std::path::Path;

use crate::cli::output::terminal::{print_text, say};
use crate::cli::systemd::reboot::reboot_immediately;
use crate::cli::{CliError, CommandOutcome, session};
use crate::core::state::boot_check::failed_checks;
use crate::host::RunningHost;
use crate::host::interrupt_signals::before_termination;
use crate::host::systemd::system_status;
use crate::transaction::boot::confirm_boot;
use crate::transaction::boot::confirm_boot::BootCheckOutcome;

pub(crate) fn run() -> Result<CommandOutcome, CliError> {
    before_termination(record_shutdown);
    let host = session::running_host()?;
    // The boot check does not depend on standard output.
    let mut waits = |what: &str| drop(print_text(&format!("boot check is waiting: {what}\n")));
    match confirm_boot::check_boot(&host, &mut session::open_running, &mut waits)? {
        BootCheckOutcome::Unmanaged => print_text("flameholder does not manage this host\n")?,
        BootCheckOutcome::AlreadyConfirmed(report) => print_text(&match failed_checks(&report.findings) {
            None => "all health checks passed\n".to_owned(),
            Some(failed) => format!("health checks failed: {failed}\n"),
        })?,
        BootCheckOutcome::Confirmed(generation) => {
            print_text(&format!("generation {generation} passed its boot check and is confirmed\n"))?;
        }
        BootCheckOutcome::RolledBack { generation, reason } => {
            say(&format!(
                "generation {generation} failed its boot check, is rolled back and blocked: {reason}"
            ));
            return reboot_immediately(&format!("generation {generation} failed its boot check"));
        }
        BootCheckOutcome::KeptUnhealthy { generation, reason, because } => {
            say(&format!(
                "generation {generation} failed its boot check ({reason}) and is not rolled back: {because}"
            ));
            return Ok(CommandOutcome::Differences);
        }
    }
    Ok(CommandOutcome::Success)
}

/// Record that a shutdown ends this boot check. A manual stop of the unit is none.
fn record_shutdown() {
    let Ok(Some(host)) = RunningHost::open() else { return };
    let is_stopping = system_status::look(Path::new("/"), &[])
        .is_ok_and(|status| status.is_none_or(|status| status.system == "stopping"));
    if let (true, Err(error)) = (is_stopping, confirm_boot::record_shutdown(&host)) {
        log::warn!("cannot record the shutdown: {}", error.chain());
    }
}

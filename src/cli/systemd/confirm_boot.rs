//! `flameholder confirm-boot`: what `flameholder-confirm-boot.service` runs in each boot.

use crate::cli::output::terminal::{print_text, say};
use crate::cli::session;
use crate::cli::systemd::reboot::reboot_at_once;
use crate::cli::{CliError, Verdict};
use crate::core::state::boot_check::complaint;
use crate::transaction::boot::confirm_boot;
use crate::transaction::boot::confirm_boot::Judgement;

pub(crate) fn run() -> Result<Verdict, CliError> {
    let booted = session::booted()?;
    // Nobody is left to tell when standard output is gone, and the judgement goes on.
    let mut waits = |what: &str| drop(print_text(&format!("waiting; {what}\n")));
    match confirm_boot::judge(&booted, &mut session::session, &mut waits)? {
        Judgement::Unmanaged => print_text("nothing here was applied by flameholder\n")?,
        Judgement::Examined(report) => print_text(&match complaint(&report.findings) {
            None => "the host is healthy\n".to_owned(),
            Some(complaint) => format!("the host is not healthy: {complaint}\n"),
        })?,
        Judgement::Settled(record) => {
            print_text(&format!("generation {} runs, is healthy, and is settled\n", record.generation))?;
        }
        Judgement::Left { generation, reason } => {
            say(&format!("generation {generation} is left, and held: {reason}"));
            return reboot_at_once(&format!("generation {generation} is not healthy"));
        }
        Judgement::Kept { generation, reason, because } => {
            say(&format!("generation {generation} stays, although {reason}: {because}"));
            return Ok(Verdict::Differences);
        }
    }
    Ok(Verdict::Fine)
}

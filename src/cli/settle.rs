//! `flameholder settle`: what `flameholder-verify.service` runs in each boot.

use crate::cli::reboot::reboot_at_once;
use crate::cli::terminal::{print_text, say};
use crate::cli::{CliError, Verdict, running};
use crate::core::state::boot_check::complaint;
use crate::transaction::boot::confirm;
use crate::transaction::boot::confirm::Judgement;

pub(super) fn run() -> Result<Verdict, CliError> {
    let booted = running::booted()?;
    // Nobody is left to tell when standard output is gone, and the judgement goes on.
    let mut waits = |what: &str| drop(print_text(&format!("waiting; {what}\n")));
    match confirm::judge(&booted, &mut running::session, &mut waits)? {
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

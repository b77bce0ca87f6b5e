//! `flameholder release`

use crate::cli::output::terminal::print_text;
use crate::cli::session;
use crate::cli::{CliError, Verdict};
use crate::host::SystemdServices;
use crate::os::protocol::Access;
use crate::transaction::handover::installation;
use crate::transaction::handover::release::{Released, release};

pub(crate) fn run() -> Result<Verdict, CliError> {
    let booted = session::booted()?;
    let mut session = session::session(Access::Stage)?;
    let released = release(&mut *session, &booted)?;
    drop(session);
    // Also where an earlier call got no further than this.
    installation::remove(&SystemdServices::system())?;
    let Some(Released { config, kept }) = released else {
        print_text("nothing here is flameholder's\n")?;
        return Ok(Verdict::Fine);
    };
    let mut text = format!("{config} is the machine-config-daemon's again, as it runs\n");
    for (path, original) in kept {
        text.push_str(&format!("what was at {path} before it was managed stays in {original}\n"));
    }
    print_text(&text)?;
    Ok(Verdict::Fine)
}

//! `hostwright release`

use super::terminal::print_text;
use super::{CliError, Verdict, running};
use crate::host::Systemd;
use crate::os::protocol::Access;
use crate::transaction::handover::{installation, release::release};

pub(super) fn run() -> Result<Verdict, CliError> {
    let booted = running::booted()?;
    let mut session = running::session(Access::Stage)?;
    let released = release(&mut *session, &booted)?;
    drop(session);
    // Also where an earlier call got no further than this.
    installation::remove(&Systemd::system())?;
    let text = match released {
        Some(config) => format!("{config} is the machine-config-daemon's again, as it runs\n"),
        None => "nothing here is hostwright's\n".to_owned(),
    };
    print_text(&text)?;
    Ok(Verdict::Fine)
}

//! `hostwright activate`

use std::path::Path;

use clap::Args;

use super::terminal::print_text;
use super::{CliError, Place, Verdict};
use crate::host::Root;
use crate::os::protocol::Access;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::transaction::activate::{self, Activated};

#[derive(Debug, Args)]
pub(super) struct ActivateArgs {
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(args: &ActivateArgs) -> Result<Verdict, CliError> {
    let activated = match &args.place.sysroot {
        Some(sysroot) => {
            let mut session = WorkerSession::open(&WorkerProgram::locate()?, sysroot, Access::Write)?;
            activate::activate_next(&mut session, sysroot)?
        }
        None => activate::activate(&Root::open(args.place.root.as_deref().unwrap_or(Path::new("/")))?)?,
    };
    print_text(&summary(&activated))?;
    Ok(Verdict::Fine)
}

fn summary(activated: &Activated) -> String {
    let Activated { generation, changed } = activated;
    if *changed {
        format!("what lies outside /etc is now as generation {generation} has it\n")
    } else {
        format!("what lies outside /etc is as generation {generation} has it: nothing to do\n")
    }
}

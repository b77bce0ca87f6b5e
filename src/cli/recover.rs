//! `hostwright recover`

use std::path::Path;

use clap::Args;

use super::terminal::print_text;
use super::{CliError, Place, Verdict};
use crate::host::Root;
use crate::os::protocol::Access;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::transaction::settle::Settled;
use crate::transaction::{sysroot, tree};

#[derive(Debug, Args)]
pub(super) struct RecoverArgs {
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(args: &RecoverArgs) -> Result<Verdict, CliError> {
    let settled = match &args.place.sysroot {
        Some(path) => {
            let mut session = WorkerSession::open(&WorkerProgram::locate()?, path, Access::Write)?;
            sysroot::settle(&mut session, path)?
        }
        None => tree::recover(&Root::open(args.place.root.as_deref().unwrap_or(Path::new("/")))?)?,
    };
    print_text(&summary(&settled))?;
    Ok(Verdict::Fine)
}

fn summary(settled: &Settled) -> String {
    match settled {
        Settled::Nothing => "no change was interrupted\n".to_owned(),
        Settled::Cleared => "what an interrupted run had left behind is cleared away\n".to_owned(),
        Settled::TakenBack { target } => {
            let to = target.as_ref().map(|target| format!(" to generation {target}")).unwrap_or_default();
            format!("the interrupted change{to} is taken back: everything is as it was before it\n")
        }
    }
}

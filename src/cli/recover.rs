//! `hostwright recover`

use std::path::PathBuf;

use clap::Args;

use super::terminal::print_text;
use super::{CliError, Verdict};
use crate::host::Root;
use crate::transaction::settle::Settled;
use crate::transaction::tree;

#[derive(Debug, Args)]
pub(super) struct RecoverArgs {
    /// The tree to settle
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

pub(super) fn run(args: &RecoverArgs) -> Result<Verdict, CliError> {
    let settled = tree::recover(&Root::open(&args.root)?)?;
    print_text(&match settled {
        Settled::Nothing => "no change was interrupted\n".to_owned(),
        Settled::Cleared => "what an interrupted run had left behind is cleared away\n".to_owned(),
        Settled::TakenBack { target: Some(target) } => {
            format!(
                "the interrupted change to generation {target} is taken back: everything is as it was before it\n"
            )
        }
        Settled::TakenBack { target: None } => {
            "an interrupted change is taken back: everything is as it was before it\n".to_owned()
        }
    })?;
    Ok(Verdict::Fine)
}

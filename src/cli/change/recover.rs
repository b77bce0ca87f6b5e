//! `flameholder recover`

use crate::cli::session;
use crate::transaction::state::interrupted;
use std::path::Path;

use clap::Args;

use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, Place, Verdict};
use crate::host::Root;
use crate::host::facts::booted::BootedDeployment;
use crate::os::protocol::Access;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::transaction::boot::staged_deployment;
use crate::transaction::boot::staged_deployment::Settlement;
use crate::transaction::engine::recover::Settled;
use crate::transaction::update::sysroot;

#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: &RecoverArgs) -> Result<Verdict, CliError> {
    let settled = match &args.place.sysroot {
        Some(path) => {
            let mut session = WorkerSession::open(&WorkerProgram::locate()?, path, Access::Write)?;
            sysroot::settle(&mut session, path)?
        }
        None => match (&args.place.root, BootedDeployment::look()?) {
            (None, Some(booted)) => return on_running(&booted),
            (root, _) => interrupted::recover(&Root::open(root.as_deref().unwrap_or(Path::new("/")))?)?,
        },
    };
    print_text(&summary(&settled))?;
    Ok(Verdict::Fine)
}

fn on_running(booted: &BootedDeployment) -> Result<Verdict, CliError> {
    let text = match staged_deployment::settle(booted, &mut session::session)? {
        Settlement::Nothing => "nothing is pending, and no change was interrupted\n".to_owned(),
        Settlement::Waits(pending) => format!("generation {} is staged\n", pending.generation()),
        Settlement::OnProbation(pending) => format!(
            "generation {} runs, and is to show that it is healthy; `flameholder confirm-boot` judges it\n",
            pending.generation()
        ),
        Settlement::Left(pending, reason) => {
            format!(
                "generation {} is held: {reason}; `flameholder retry` releases it\n",
                pending.generation()
            )
        }
        Settlement::StagedAgain(pending, failure) => format!(
            "generation {} did not boot: {}\nit is staged again; apply its configuration to go there\n",
            pending.generation(),
            failure.reason
        ),
        Settlement::Superseded(pending) => format!(
            "generation {} is forgotten: another deployment runs than the one that it was made for\n",
            pending.generation()
        ),
        Settlement::Discarded(pending) => {
            format!("generation {} is forgotten: somebody discarded what was staged\n", pending.generation())
        }
    };
    print_text(&text)?;
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

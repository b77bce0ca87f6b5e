//! `flameholder introduce`: run in the DaemonSet's pod, lend the token of the pod's service account to the daemon on the
//! host.

use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::output::terminal::say;
use crate::cli::{CliError, CommandOutcome};
use crate::cluster::introduction::{IntroductionError, introduce};
use crate::host::file_watch::FileWatch;

#[derive(Debug, Args)]
pub(crate) struct IntroduceArgs {
    /// Directory of the node to copy the token to
    #[arg(long, value_name = "DIR", default_value = "/run/flameholder/cluster")]
    directory: PathBuf,
    /// Directory in which the cluster puts the pod's token
    #[arg(long, value_name = "DIR", default_value = "/var/run/secrets/kubernetes.io/serviceaccount")]
    account: PathBuf,
    /// Exit after copying the token once, instead of again at each renewal
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(args: &IntroduceArgs) -> Result<CommandOutcome, CliError> {
    if args.once {
        introduce(&args.account, &args.directory)?;
        return Ok(CommandOutcome::Success);
    }
    let watched = |source| IntroductionError { doing: "watching", path: args.account.clone(), source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(watched)?;
    runtime.block_on(async {
        // Process 1 of a container receives only signals for which it has a handler.
        let mut ended = signal(SignalKind::terminate()).map_err(watched)?;
        let mut watch = FileWatch::new().map_err(watched)?;
        watch.add(&args.account).map_err(watched)?;
        loop {
            introduce(&args.account, &args.directory)?;
            say("copied the token of this pod to the host");
            tokio::select! {
                event = watch.next() => drop(event.map_err(watched)?),
                _ = ended.recv() => return Ok(CommandOutcome::Success),
            }
        }
    })
}

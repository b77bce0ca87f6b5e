//! `flameholder introduce`: what the pod runs that installs the daemon on its node.

use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::output::terminal::say;
use crate::cli::{CliError, Verdict};
use crate::cluster::introduction::{IntroductionError, introduce};
use crate::host::file_watch::FileWatch;

#[derive(Debug, Args)]
pub(crate) struct IntroduceArgs {
    /// Where the node's root is mounted
    #[arg(long, value_name = "DIR", default_value = "/rootfs")]
    host: PathBuf,
    /// Where the cluster gives the pod its token
    #[arg(long, value_name = "DIR", default_value = "/var/run/secrets/kubernetes.io/serviceaccount")]
    account: PathBuf,
    /// Do it once, instead of each time that the token is replaced
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(args: &IntroduceArgs) -> Result<Verdict, CliError> {
    if args.once {
        introduce(&args.host, &args.account)?;
        return Ok(Verdict::Fine);
    }
    let watched = |source| IntroductionError::File { doing: "watching", path: args.account.clone(), source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(watched)?;
    runtime.block_on(async {
        // The first process of a container gets no signals that it does not ask for.
        let mut ended = signal(SignalKind::terminate()).map_err(watched)?;
        let mut watch = FileWatch::new().map_err(watched)?;
        watch.add(&args.account).map_err(watched)?;
        loop {
            introduce(&args.host, &args.account)?;
            say("the host has the token of this pod");
            tokio::select! {
                news = watch.next() => drop(news.map_err(watched)?),
                _ = ended.recv() => return Ok(Verdict::Fine),
            }
        }
    })
}

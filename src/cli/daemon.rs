//! `hostwright daemon`: what `hostwright-daemon.service` runs for as long as the host lives.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use tokio::sync::mpsc::unbounded_channel;

use super::os_backend::OsBackend;
use super::{CliError, ProfileName, Verdict, running};
use crate::core::profile::Profile;
use crate::daemon::{self, DaemonError, Setup};
use crate::host::interrupt::Interrupt;
use crate::host::reboot_port::Insist;
use crate::source::directory::Directory;

#[derive(Debug, Args)]
pub(super) struct DaemonArgs {
    /// Where it is said what this host is to be: `dir:PATH`, a file or a directory of files
    #[arg(long, value_name = "SOURCE")]
    source: SourceName,
    /// Whose verdicts apply; `mcd` for a cluster, else `native`
    #[arg(long, value_enum)]
    profile: Option<ProfileName>,
    #[command(flatten)]
    os_backend: OsBackend,
}

/// A source as it is spelt.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SourceName {
    Directory(PathBuf),
}

impl FromStr for SourceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("dir", path)) if !path.is_empty() => Ok(Self::Directory(path.into())),
            _ => Err("name it as `dir:PATH`".to_owned()),
        }
    }
}

pub(super) fn run(args: &DaemonArgs) -> Result<Verdict, CliError> {
    running::booted()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(DaemonError::Watch)?;
    let interrupt = Interrupt::by_hand();
    let (orders, ordered) = unbounded_channel();
    let (says, said) = unbounded_channel();
    let SourceName::Directory(path) = &args.source;
    let source = Directory::new(path.clone(), says);
    let setup = Setup {
        open: Box::new(args.os_backend.sessions_with(interrupt.clone())),
        interrupt,
        profile: args.profile.map_or(Profile::Native, Into::into),
        insist: Insist::Never,
        orders,
        said,
    };
    runtime.block_on(async {
        tokio::select! {
            ended = daemon::run(setup) => ended,
            ended = source.run(ordered) => Err(ended.map_or_else(DaemonError::Watch, |()| DaemonError::SourceEnded)),
        }
    })?;
    Ok(Verdict::Fine)
}

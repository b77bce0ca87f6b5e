//! `flameholder status --watch` and `--wait`: follow the status without polling.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::cli::host_status::of_running;
use crate::cli::inspect::status::print;
use crate::cli::{CliError, CommandOutcome, OutputFormat, session};
use crate::core::state::pending::PENDING;
use crate::host::file_watch::FileWatch;
use crate::report::status::{ConditionItem, StatusDocument};
use crate::transaction::state::status_files;

/// Directory of the status file that the boot check publishes, and of the daemon's directory.
const REPORTS: &str = "/run/flameholder";
/// State that is waited for in vain.
const BLOCKED: &str = "Blocked";

/// Print the status and each change of it until standard output is closed.
pub(crate) fn watch(output: OutputFormat, show_contents: bool) -> Result<CommandOutcome, CliError> {
    let mut printed = None;
    follow(None, |document| {
        let text = serde_json::to_string(&document).ok();
        // One report causes several inotify events: it is written and renamed.
        if printed != text {
            print(document, output, show_contents)?;
            printed = text;
        }
        Ok(None::<()>)
    })?;
    Ok(CommandOutcome::Success)
}

/// Wait until the host is in this state, or blocked; return the last status, also where the time is over before.
pub(crate) fn wait(state: &str, timeout: Option<Duration>) -> Result<StatusDocument, CliError> {
    let mut last = None;
    let reached = follow(timeout, |document| {
        let is_over =
            is_in(state, document.condition.as_ref()) || is_in(BLOCKED, document.condition.as_ref());
        if is_over {
            return Ok(Some(document));
        }
        last = Some(document);
        Ok(None)
    })?;
    match reached.or(last) {
        Some(document) => Ok(document),
        None => of_running(&session::running_host()?),
    }
}

/// Return the outcome of waiting for `state`.
pub(crate) fn outcome(state: &str, condition: Option<&ConditionItem>) -> CommandOutcome {
    if is_in(state, condition) {
        CommandOutcome::Success
    } else if is_in(BLOCKED, condition) {
        CommandOutcome::Unsettled
    } else {
        CommandOutcome::UnderWay
    }
}

fn is_in(state: &str, condition: Option<&ConditionItem>) -> bool {
    condition.is_some_and(|condition| condition.name.eq_ignore_ascii_case(state))
}

/// Call `see` with the status, now and after each change, until it returns something or the time is over.
fn follow<T>(
    timeout: Option<Duration>,
    mut see: impl FnMut(StatusDocument) -> Result<Option<T>, CliError>,
) -> Result<Option<T>, CliError> {
    let host = session::running_host()?;
    let watched = |source| CliError::Input { file: REPORTS.to_owned(), source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(watched)?;
    let follow = async {
        std::fs::create_dir_all(REPORTS).map_err(watched)?;
        let mut watch = FileWatch::new().map_err(watched)?;
        watch.add(Path::new(REPORTS)).map_err(watched)?;
        let daemon = Path::new(status_files::DAEMON.path).parent().unwrap_or(Path::new(REPORTS));
        let state = Path::new(PENDING).parent().unwrap_or(Path::new(REPORTS));
        loop {
            // The directories can be created and replaced at any time; both are events in the parent of the daemon's.
            for directory in [daemon, state] {
                watch.add(directory).or_else(unless_missing).map_err(watched)?;
            }
            if let Some(seen) = see(of_running(&host)?)? {
                return Ok(Some(seen));
            }
            watch.next().await.map_err(watched)?;
        }
    };
    runtime.block_on(async {
        match timeout {
            None => follow.await,
            Some(limit) => tokio::time::timeout(limit, follow).await.unwrap_or(Ok(None)),
        }
    })
}

fn unless_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

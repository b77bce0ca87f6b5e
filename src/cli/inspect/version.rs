//! `flameholder version`: the versions of the agent, of its worker and of the libostree that the worker loads.

use clap::Args;

use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, CommandOutcome, OutputArgs, OutputFormat};
use crate::core::values::causes::chain;
use crate::https;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::report::version::{VersionDocument, WorkerVersion};

#[derive(Debug, Default, Args)]
pub(crate) struct VersionArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(crate) fn run(args: &VersionArgs) -> Result<CommandOutcome, CliError> {
    let greeting = WorkerProgram::locate().and_then(|worker| WorkerSession::greeting(&worker));
    let worker =
        greeting.map(|worker| WorkerVersion { protocol: worker.protocol, libostree: worker.libostree });
    let document = VersionDocument::of(worker.map_err(|error| chain(&error)));
    match args.output.format {
        OutputFormat::Document(notation) => notation.print(&document)?,
        OutputFormat::Text => print_text(&render(&document))?,
    }
    Ok(CommandOutcome::Success)
}

fn render(document: &VersionDocument) -> String {
    let tls = if https::IS_LINKED_IN {
        "rustls (linked in; not for kernels in FIPS mode)"
    } else {
        "OpenSSL of the host"
    };
    let worker = match (&document.worker, &document.worker_error) {
        (Some(worker), _) if worker.libostree.is_empty() => {
            format!("protocol {}, of a release that does not name its libostree", worker.protocol)
        }
        (Some(worker), _) => format!("protocol {}, libostree {}", worker.protocol, worker.libostree),
        (None, reason) => format!("none: {}", reason.as_deref().unwrap_or("unknown")),
    };
    format!(
        "flameholder {}\ncommit: {}\ntarget: {}\nTLS: {tls}\nworker: {worker}\n",
        document.version,
        document.commit.unwrap_or("not named by the build"),
        document.target
    )
}

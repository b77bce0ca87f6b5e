//! `flameholder adopt`

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::os_backend::OsBackend;
use crate::cli::output::terminal::{print_text, say};
use crate::cli::session;
use crate::cli::source_name::SourceName;
use crate::cli::{CliError, Verdict};
use crate::core::enablement::UnitName;
use crate::core::state::installation::DAEMON_UNIT;
use crate::core::state::service_action::ServiceAction;
use crate::host::systemd::system_status;
use crate::host::{ServiceControl as _, SystemdServices};
use crate::os::protocol::Access;
use crate::os::worker::WorkerProgram;
use crate::transaction::handover::adopt::{Adopted, Adoption, adopt};
use crate::transaction::handover::installation::Version;

#[derive(Debug, Args)]
pub(crate) struct AdoptArgs {
    /// Make good what is not as the configuration says, instead of leaving the host alone
    #[arg(long)]
    mend: bool,
    /// What the daemon follows from now on: `kube`, or `dir:PATH`; none is started where it is not given
    #[arg(long, value_name = "SOURCE")]
    source: Option<SourceName>,
    /// How the daemon reads the cluster
    #[arg(long, value_name = "FILE", requires = "source")]
    kubeconfig: Option<PathBuf>,
    /// How the daemon reads and writes the node
    #[arg(long, value_name = "FILE", requires = "source")]
    node_kubeconfig: Option<PathBuf>,
    /// The node that this host is
    #[arg(long, value_name = "NAME", requires = "source")]
    node_name: Option<String>,
    #[command(flatten)]
    os_backend: OsBackend,
}

pub(crate) fn run(args: &AdoptArgs) -> Result<Verdict, CliError> {
    let environment = environment(args)?;
    let booted = session::booted()?;
    let version = version()?;
    let mut session = args.os_backend.sessions()(Access::Stage)?;
    let adoption = Adoption { version, mends: args.mend, environment: environment.as_deref() };
    let adopted = adopt(&mut *session, &SystemdServices::system(), &booted, adoption)?;
    drop(session);
    print_text(&text(&adopted))?;
    // A pod that is started anew is no reason to disturb it.
    if environment.is_some() && (adopted.has_changed || !daemon_runs()) {
        start_daemon();
    }
    Ok(Verdict::Fine)
}

/// This version, where it is not the image that has it.
fn version() -> Result<Option<Version<'static>>, CliError> {
    let failed = |file: &Path, source| CliError::Input { file: file.display().to_string(), source };
    let own = std::env::current_exe().map_err(|error| failed(Path::new("/proc/self/exe"), error))?;
    if own.starts_with("/usr") && !own.starts_with("/usr/local") {
        return Ok(None);
    }
    let worker = WorkerProgram::locate()?;
    let read = |path: &Path| std::fs::read(path).map_err(|error| failed(path, error));
    let executables = vec![("flameholder", read(&own)?), (WorkerProgram::NAME, read(worker.path())?)];
    Ok(Some(Version { name: env!("CARGO_PKG_VERSION"), executables }))
}

fn environment(args: &AdoptArgs) -> Result<Option<String>, CliError> {
    let Some(source) = &args.source else { return Ok(None) };
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let mut text = String::new();
    for (name, value) in [
        ("FLAMEHOLDER_SOURCE", Some(source.to_string())),
        ("FLAMEHOLDER_KUBECONFIG", path(&args.kubeconfig)),
        ("FLAMEHOLDER_NODE_KUBECONFIG", path(&args.node_kubeconfig)),
        ("NODE_NAME", args.node_name.clone()),
    ] {
        let Some(value) = value else { continue };
        // systemd.exec(5): quotes, backslashes and what starts a comment would be read as such.
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-:@+,=".contains(character);
        if value.is_empty() || !value.chars().all(is_plain) {
            let reason = format!("{name} cannot be `{}` for a unit of systemd", value.escape_default());
            return Err(CliError::Usage(reason));
        }
        text.push_str(&format!("{name}={value}\n"));
    }
    Ok(Some(text))
}

fn daemon_runs() -> bool {
    let seen = system_status::look(Path::new("/"), &[DAEMON_UNIT]).ok().flatten();
    seen.is_some_and(|seen| {
        seen.asked.iter().any(|unit| ["active", "activating"].contains(&unit.active.as_str()))
    })
}

/// The host is adopted by then: a daemon that does not start is for systemd to start again.
fn start_daemon() {
    let unit = UnitName::parse(DAEMON_UNIT).expect("a constant unit name is one");
    match SystemdServices::system().perform(&ServiceAction::Restart { unit }) {
        Ok(()) => say("its daemon runs; see `flameholder status`"),
        Err(error) => {
            let error = crate::core::values::causes::chain(&error);
            log::warn!(
                "the daemon does not run yet: {error}; it starts with the next boot, or with `systemctl start {DAEMON_UNIT}`"
            );
        }
    }
}

fn text(adopted: &Adopted) -> String {
    let Adopted { config, generation, was_ours, mended, .. } = adopted;
    if *was_ours {
        return format!("{config} is flameholder's already (generation {generation})\n");
    }
    let mut text = format!("adopted {config}, which runs, as generation {generation}\n");
    for drift in mended {
        text.push_str(&format!("mended: {} {}\n", drift.path, drift.kind));
    }
    text
}

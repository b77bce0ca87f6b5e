//! `flameholder adopt`: take a node over from the machine-config-daemon, or a host as Ignition installed it, without a reboot.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use crate::cli::change::change_report::{ChangeArgs, ChangeReport};
use crate::cli::image_agent::VERSION;
use crate::cli::input::load_applied_configuration;
use crate::cli::os_backend::OsBackendArgs;
use crate::cli::output::terminal::say;
use crate::cli::{CliError, CommandOutcome, image_agent, session};
use crate::core::config::settings::source::SourceName;
use crate::core::enablement::UnitName;
use crate::core::state::installation::ignition_result::IgnitionResult;
use crate::core::state::installation::{DAEMON_UNIT, EXTENSION_RELEASE};
use crate::core::state::service_action::ServiceAction;
use crate::core::values::causes;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::IGNITION_RESULT;
use crate::host::facts;
use crate::host::systemd::system_status;
use crate::host::{Root, ServiceControl as _, SystemdServices};
use crate::os::worker::WorkerProgram;
use crate::report::change::ChangeResult;
use crate::transaction::handover::adopt::{AdoptOutcome, AdoptRequest, adopt};
use crate::transaction::handover::installation::{AgentOrigin, AgentVersion};
use crate::transaction::handover::other_agents::other_agents;
use crate::transaction::state::settings::settings_or_default;

#[derive(Debug, Args)]
pub(crate) struct AdoptArgs {
    /// Repair drift from the node's current config; without this option drift makes the command fail
    #[arg(long)]
    repair: bool,
    /// Take this config, with which Ignition installed the host, for its current one: a MachineConfig, Ignition config or Butane
    /// config; without it, the machine-config-daemon's is taken
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Start the daemon with this source of the desired config: `kube`, `dir:PATH`, a URL or `oci://…`; without it no daemon
    /// is started
    #[arg(long, value_name = "SOURCE")]
    source: Option<SourceName>,
    /// Kubeconfig with which the daemon reads configs and policies from the cluster
    #[arg(long, value_name = "FILE", requires = "source")]
    kubeconfig: Option<PathBuf>,
    /// Kubeconfig with which the daemon watches and annotates the Node
    #[arg(long, value_name = "FILE", requires = "source")]
    node_kubeconfig: Option<PathBuf>,
    /// File with the token with which the daemon identifies in place of the user of --kubeconfig
    #[arg(long, value_name = "FILE", requires = "source")]
    token_file: Option<PathBuf>,
    /// Name of this host's Node
    #[arg(long, value_name = "NAME", requires = "source")]
    node_name: Option<String>,
    #[command(flatten)]
    os_backend: OsBackendArgs,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

pub(crate) fn run(args: &AdoptArgs) -> Result<CommandOutcome, CliError> {
    let environment = environment(args)?;
    let installed = args.config.as_deref().map(load_applied_configuration).transpose()?;
    let agent = origin()?;
    if matches!(agent, AgentOrigin::Copy(_)) {
        image_agent::give_way();
    }
    let mut note = note_on(&agent);
    let mut report = ChangeReport::begin("adopt", args.change);
    let host = session::running_host()?;
    if installed.is_some() {
        note.push_str(&note_on_ignition(&host.root)?);
    }
    let mut open = args.os_backend.opener(&settings_or_default(&host.root));
    let (mut session, locked) = args.change.wait.stage_on(&host, &mut open)?;
    let environment = environment.as_deref();
    let adoption = AdoptRequest { agent, repairs: args.repair, environment, installed };
    let adopted = adopt(&mut *session, &SystemdServices::system(), &locked, adoption)?;
    drop((session, locked));
    let result = if adopted.was_ours { ChangeResult::Unchanged } else { ChangeResult::Adopted };
    report.resulted(result, &adopted.config, &adopted.generation);
    report.document.restored = adopted.repaired.iter().map(|drift| drift.path.clone()).collect();
    report.document.warnings = other_agents().iter().map(ToString::to_string).collect();
    let warnings: String =
        report.document.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
    report.tell(&(text(&adopted, &note) + &warnings))?;
    // The installer pod runs `adopt` each time that it starts: a daemon that runs already is left alone.
    if environment.is_some() && (adopted.has_changed || !daemon_runs()) {
        start_daemon();
    }
    report.end("")
}

/// Find out where this agent comes from: below `/usr` from the OS image, or from a system extension that is merged into it
/// and brings no units; from anywhere else it is installed as a copy.
fn origin() -> Result<AgentOrigin<'static>, CliError> {
    let failed = |file: &Path, source| CliError::Input { file: file.display().to_string(), source };
    let own = image_agent::own_path().map_err(|error| failed(Path::new("/proc/self/exe"), error))?;
    if own.starts_with("/usr") && !own.starts_with("/usr/local") {
        let root = Root::open(Path::new("/"))?;
        let is_extension = root.exists(&ManagedPath::constant(EXTENSION_RELEASE))?
            && facts::image_agent::load(&root)?.is_none();
        return Ok(if is_extension { AgentOrigin::SystemExtension } else { AgentOrigin::Image });
    }
    let worker = WorkerProgram::locate()?;
    let read = |path: &Path| std::fs::read(path).map_err(|error| failed(path, error));
    let executables = vec![("flameholder", read(&own)?), (WorkerProgram::NAME, read(worker.path())?)];
    Ok(AgentOrigin::Copy(AgentVersion { name: VERSION, executables }))
}

fn environment(args: &AdoptArgs) -> Result<Option<String>, CliError> {
    let Some(source) = &args.source else { return Ok(None) };
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let mut text = String::new();
    for (name, value) in [
        ("FLAMEHOLDER_SOURCE", Some(source.to_string())),
        ("FLAMEHOLDER_KUBECONFIG", path(&args.kubeconfig)),
        ("FLAMEHOLDER_NODE_KUBECONFIG", path(&args.node_kubeconfig)),
        ("FLAMEHOLDER_TOKEN_FILE", path(&args.token_file)),
        ("NODE_NAME", args.node_name.clone()),
    ] {
        let Some(value) = value else { continue };
        // systemd interprets quotes, backslashes and comment characters in an EnvironmentFile
        // (systemd.exec(5)).
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-:@+,=".contains(character);
        if value.is_empty() || !value.chars().all(is_plain) {
            let reason = format!(
                "{name}: `{}` has characters that systemd interprets in an environment file",
                value.escape_default()
            );
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

/// Start or restart the daemon. A failure is only logged: the host is adopted by then, and systemd starts the
/// unit again.
fn start_daemon() {
    let unit = UnitName::parse(DAEMON_UNIT).expect("constant unit name is valid");
    match SystemdServices::system().perform(&ServiceAction::Restart { unit }) {
        Ok(()) => say("the daemon is running; see `flameholder status`"),
        Err(error) => {
            let reason = causes::chain(&error);
            log::warn!(
                "the daemon did not start: {reason}; it starts at the next boot, or with `systemctl start {DAEMON_UNIT}`"
            );
        }
    }
}

/// Name the parts that are not installed, and why.
fn note_on(agent: &AgentOrigin<'_>) -> String {
    match agent {
        AgentOrigin::Copy(_) => String::new(),
        AgentOrigin::Image => format!("the OS image ships the agent ({VERSION}), so none is installed\n"),
        AgentOrigin::SystemExtension => {
            format!("the agent ({VERSION}) is a system extension, so that only its units are installed\n")
        }
    }
}

/// Say what Ignition reported of the installation.
fn note_on_ignition(root: &Root) -> Result<String, CliError> {
    let path = ManagedPath::constant(IGNITION_RESULT);
    let bytes = root.read(&path, limits::FRAGMENT_BYTES)?;
    let Some(bytes) = bytes else {
        return Ok(format!("{IGNITION_RESULT} is missing: when Ignition ran is not known\n"));
    };
    Ok(match IgnitionResult::parse(&bytes) {
        Ok(result) => format!("{result}\n"),
        Err(error) => format!("{IGNITION_RESULT} cannot be read: {error}\n"),
    })
}

fn text(adopted: &AdoptOutcome, note: &str) -> String {
    let AdoptOutcome { config, generation, was_ours, repaired, units_gave_way, .. } = adopted;
    let generation = generation.shown();
    let mut text = if *was_ours {
        format!("{config} is managed by flameholder already (generation {generation})\n")
    } else {
        format!("adopted the current config {config} as generation {generation}\n")
    };
    for drift in repaired {
        text.push_str(&format!("repaired: {} {}\n", drift.path, drift.kind));
    }
    text.push_str(note);
    if *units_gave_way {
        text.push_str("the units of the adopted copy are removed; those of the OS image are enabled\n");
    }
    text
}

//! Installation of the agent on a host whose OS image does not contain it: executables, units, drop-ins.

use crate::core::plan::service_actions;
use crate::core::plan::steps::PlanStep;
use crate::core::state::installation::{COMMAND, executables, unit_files, unit_links};
use crate::core::state::journal::JournalScope;
use crate::core::values::names::ManagedPath;
use crate::host::{LockedHost, Root, ServiceControl};
use crate::os::{DeploymentId, Sysroot};
use crate::transaction::TransactionError;
use crate::transaction::engine::apply;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::engine::labels::SelinuxLabels;
use crate::transaction::plan::adopted_copy;
use crate::transaction::state::agent_files::AgentFiles;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::interrupted;
use crate::transaction::state::unconfirmed_mark::workload_gate;
use crate::transaction::update::clean_up;

const EXECUTABLE: u32 = 0o755;

/// Executables of one agent version.
#[derive(Debug)]
pub struct AgentVersion<'a> {
    /// Version, the name of its directory.
    pub name: &'a str,
    /// Executables by file name. The link at [`COMMAND`] points to the first one.
    pub executables: Vec<(&'a str, Vec<u8>)>,
}

/// Where the agent that adopts a host comes from.
#[derive(Debug)]
pub enum AgentOrigin<'a> {
    /// The OS image, with its units.
    Image,
    /// A system extension, which cannot bring units that start in the boot in which it is merged.
    SystemExtension,
    /// Executables that are installed as a copy, with their units.
    Copy(AgentVersion<'a>),
}

/// Plan the installation of the units for an agent that is a system extension.
pub(super) fn extension_steps(root: &Root) -> Result<Vec<PlanStep>, TransactionError> {
    let mut files = AgentFiles::after(root, Vec::new());
    adopted_copy::install_extension_units(&mut files)?;
    Ok(files.steps)
}

/// Plan the installation of a version with its units, in place of any other version. An executable is
/// installed before and removed after the unit that starts it: after a power cut in between, no unit refers
/// to a missing executable.
pub(super) fn install_steps(
    root: &Root,
    version: AgentVersion<'_>,
) -> Result<Vec<PlanStep>, TransactionError> {
    let mut files = AgentFiles::after(root, Vec::new());
    let directory = executables(version.name);
    let mut command = None;
    for (name, contents) in version.executables {
        command.get_or_insert_with(|| format!("../libexec/flameholder/{}/{name}", version.name));
        files.write(directory.join(name), contents, EXECUTABLE)?;
    }
    if let Some(target) = command {
        files.link(ManagedPath::constant(COMMAND), &target)?;
    }
    adopted_copy::install_units(&mut files)?;
    let mut steps = files.steps;
    steps.extend(adopted_copy::versions_removal(root, Some(&directory))?);
    Ok(steps)
}

/// Plan the removal of the units.
fn units_removal(root: &Root) -> Result<Vec<PlanStep>, TransactionError> {
    let mut steps = Vec::new();
    let files: Vec<ManagedPath> = unit_files().map(|(path, _)| path).collect();
    // Reverse order of the installation: drop-ins first.
    for path in files.into_iter().rev().chain(unit_links().into_keys()) {
        if root.path_state(&path)?.exists() {
            steps.extend(adopted_copy::file_removal(path));
        }
    }
    steps.extend(workload_gate::removal_steps(root)?);
    Ok(steps)
}

/// Remove the agent from the host: its units first, then the executables that they call. After a power cut in between, the
/// executables are there to remove the rest. They stay where another deployment has the units, and would finalize no update
/// without them; returns that deployment.
pub fn remove(
    os: &mut dyn Sysroot,
    services: &dyn ServiceControl,
    host: &LockedHost<'_>,
) -> Result<Option<DeploymentId>, TransactionError> {
    interrupted::recover_first(host)?;
    apply(services, host, &units_removal(host)?)?;
    clean_up::prune_adopted_copy(os, host)
}

fn apply(
    services: &dyn ServiceControl,
    host: &LockedHost<'_>,
    steps: &[PlanStep],
) -> Result<(), TransactionError> {
    let generation = CurrentState::load_record(host)?.map(|record| record.generation);
    let change = JournaledChange {
        current: generation.as_ref(),
        target: generation.as_ref(),
        boot_id: host.boot_id(),
        scope: JournalScope::Deployment,
        steps,
        labels: &SelinuxLabels::new(),
        actions: service_actions::reload_after(steps),
    };
    Ok(apply::apply(host.as_root(), services, change)?)
}

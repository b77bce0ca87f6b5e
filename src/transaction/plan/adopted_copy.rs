//! Adopted copy of the agent in a deployment: its units are installed where it runs, and absent where the
//! agent of the image does. The deployments of a stateroot share the copy's executables.

use crate::core::config::host_config::UNIT_DIRECTORY;
use crate::core::config::managed_files::unit_path;
use crate::core::plan::steps::PlanStep;
use crate::core::state::installation::image_agent::{AgentChoice, VERSION_UNIT, adopted_version};
use crate::core::state::installation::{
    AFTER_EXTENSION, COMMAND, EXECUTABLES, extension_unit_files, image_unit_links, unit_files, unit_links,
    unit_names,
};
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{FileKind, PathState};
use crate::host::facts::image_agent;
use crate::host::{HostError, Root};
use crate::transaction::state::agent_files::AgentFiles;

const UNIT: u32 = 0o644;

/// Plan the units of a deployment that boots next. If the host has an adopted copy, either the image's units
/// take the place of the installed ones, or these are installed: a deployment of an older image has none of
/// its own. Without a copy there are no steps.
pub(crate) fn next_unit_steps(root: &Root) -> Result<Vec<PlanStep>, HostError> {
    let target = root.link_target(&ManagedPath::constant(COMMAND))?;
    let Some(adopted) = target.as_deref().and_then(adopted_version) else { return Ok(Vec::new()) };
    let choice = image_agent::load(root)?.map(|image| image.choose(&adopted)).transpose();
    let choice = choice.unwrap_or_else(|error| {
        log::warn!("the adopted copy {adopted} of the agent stays: {error}", error = chain(&error));
        None
    });
    if choice == Some(AgentChoice::Image) {
        return image_unit_steps(root);
    }
    let is_installed = root.exists(&unit_path(VERSION_UNIT))?;
    if is_installed || root.list(&ManagedPath::constant(EXECUTABLES).join(&adopted))?.is_empty() {
        return Ok(Vec::new());
    }
    let mut files = AgentFiles::after(root, Vec::new());
    install_units(&mut files)?;
    Ok(files.steps)
}

/// Return true if the deployment `next` would boot without an agent: the image of `base` has one, that of `next` has none, and no
/// copy or system extension takes its place.
pub(crate) fn is_lost_in(base: &Root, next: &Root) -> Result<bool, HostError> {
    if image_agent::load(base)?.is_none() || image_agent::load(next)?.is_some() {
        return Ok(false);
    }
    let target = next.link_target(&ManagedPath::constant(COMMAND))?;
    let has_copy = target.is_some_and(|target| adopted_version(&target).is_some());
    Ok(!has_copy && !next.exists(&unit_path(VERSION_UNIT))?)
}

/// Return true if the agent of this tree is a system extension, by the order of its units: it starts after the local file
/// systems are mounted.
pub(crate) fn activates_late(root: &Root) -> Result<bool, HostError> {
    let text = root.read(&unit_path(VERSION_UNIT), limits::FRAGMENT_BYTES)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().any(|line| line == AFTER_EXTENSION))
}

/// Add the steps that install the units and enable them.
pub(crate) fn install_units(files: &mut AgentFiles<'_>) -> Result<(), HostError> {
    install_unit_files(files, unit_files())
}

/// Add the same steps for an agent that is a system extension.
pub(crate) fn install_extension_units(files: &mut AgentFiles<'_>) -> Result<(), HostError> {
    install_unit_files(files, extension_unit_files())
}

fn install_unit_files<'t>(
    files: &mut AgentFiles<'_>,
    texts: impl Iterator<Item = (ManagedPath, &'t str)>,
) -> Result<(), HostError> {
    for (path, text) in texts {
        files.write(path, text.as_bytes().to_vec(), UNIT)?;
    }
    for (path, target) in unit_links() {
        files.link(path, &target)?;
    }
    Ok(())
}

/// Plan the change from installed units to those of the image: the links lead to the image's units before the
/// installed ones are removed, so that at any time a unit is enabled. There are no steps if none is installed,
/// or if the image lacks the units that it cannot do without.
pub(crate) fn image_unit_steps(root: &Root) -> Result<Vec<PlanStep>, HostError> {
    let installed_links = installed_links(root)?;
    let installed_files = installed_files(root)?;
    if installed_links.is_empty() && installed_files.is_empty() || image_agent::load(root)?.is_none() {
        return Ok(Vec::new());
    }
    let links = match image_unit_links(&image_agent::load_units(root)?) {
        Ok(links) => links,
        Err(error) => {
            log::warn!(
                "the units of the image's agent cannot be enabled, so the installed ones stay: {error}",
                error = chain(&error)
            );
            return Ok(Vec::new());
        }
    };
    let mut files = AgentFiles::after(root, Vec::new());
    for (path, target) in &links {
        files.link(path.clone(), target)?;
    }
    let left = installed_links.into_iter().filter(|path| !links.contains_key(path));
    files.extend(left.map(|path| PlanStep::Remove { path }));
    files.extend(installed_files.into_iter().flat_map(file_removal));
    Ok(files.steps)
}

/// List the enablement links that lead to installed units.
fn installed_links(root: &Root) -> Result<Vec<ManagedPath>, HostError> {
    let mut links = Vec::new();
    for path in unit_links().into_keys() {
        let target = root.link_target(&path)?;
        if target.is_some_and(|target| target.starts_with(UNIT_DIRECTORY)) {
            links.push(path);
        }
    }
    Ok(links)
}

/// List the installed units and drop-ins, drop-ins first: these call the executables. A link, such as the mask
/// of a unit, is an administrator's.
fn installed_files(root: &Root) -> Result<Vec<ManagedPath>, HostError> {
    let mut files = Vec::new();
    for (path, _) in unit_files() {
        if is_file(root, &path)? {
            files.push(path);
        }
    }
    files.reverse();
    Ok(files)
}

/// Return true if a unit of the adopted copy is installed in the deployment at `root`.
pub(crate) fn has_installed_units(root: &Root) -> Result<bool, HostError> {
    for name in unit_names() {
        if is_file(root, &unit_path(name))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_file(root: &Root, path: &ManagedPath) -> Result<bool, HostError> {
    Ok(root.status_of(path)?.is_some_and(|found| found.kind == FileKind::File))
}

/// Plan the removal of an installed unit or drop-in. The directory of a drop-in goes with it, unless other
/// drop-ins are in it.
pub(crate) fn file_removal(path: ManagedPath) -> impl Iterator<Item = PlanStep> {
    let is_drop_in =
        std::path::Path::new(path.as_str()).extension().is_some_and(|extension| extension == "conf");
    let directory = path.parent().filter(|_| is_drop_in);
    let directory = directory.map(|path| PlanStep::RemoveDirectory { path });
    std::iter::once(PlanStep::Remove { path }).chain(directory)
}

/// Plan the removal of all executables and of the link to them.
pub(crate) fn executables_removal(root: &Root) -> Result<Vec<PlanStep>, HostError> {
    let mut steps = Vec::new();
    let command = ManagedPath::constant(COMMAND);
    if root.link_target(&command)?.is_some_and(|target| target.contains("libexec/flameholder/")) {
        steps.push(PlanStep::Remove { path: command });
    }
    steps.extend(versions_removal(root, None)?);
    Ok(steps)
}

/// Plan the removal of the executables of all versions except those at `kept`.
pub(crate) fn versions_removal(root: &Root, kept: Option<&ManagedPath>) -> Result<Vec<PlanStep>, HostError> {
    let top = ManagedPath::constant(EXECUTABLES);
    let mut steps = Vec::new();
    let mut is_empty = kept.is_none() && root.path_state(&top)?.exists();
    for version in root.list(&top)?.iter().map(|name| top.join(name)) {
        if Some(&version) == kept {
            continue;
        }
        if !matches!(root.path_state(&version)?, PathState::Directory { .. }) {
            is_empty = false;
            continue;
        }
        let files = root.list(&version)?;
        steps.extend(files.iter().map(|name| PlanStep::Remove { path: version.join(name) }));
        steps.push(PlanStep::RemoveDirectory { path: version });
    }
    if is_empty {
        steps.push(PlanStep::RemoveDirectory { path: top });
    }
    Ok(steps)
}

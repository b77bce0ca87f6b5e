//! Drop-ins of the workload's units on disk: written by finalization together with the mark that they test for, and left
//! there, since without a mark they hold nothing up.

use std::collections::BTreeMap;

use crate::core::config::host_config::UNIT_DIRECTORY;
use crate::core::config::managed_files::unit_path;
use crate::core::config::settings::Settings;
use crate::core::enablement::{UnitFile, UnitName};
use crate::core::plan::steps::PlanStep;
use crate::core::state::pending::workload_gate;
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::host::facts::fragments::load_changed_fragments;
use crate::host::facts::unit_texts::load_unit;
use crate::host::{HostError, Root};
use crate::transaction::state::agent_files::AgentFiles;

/// Mode of a drop-in.
const MODE: u32 = 0o644;

/// Add the steps that write the drop-ins for the settings of the new `/etc`, and remove those of units that are no longer
/// of the workload. Must be called after the steps that write settings and units.
pub(crate) fn add_gates(files: &mut AgentFiles<'_>, root: &Root) -> Result<(), HostError> {
    let workload = workload_after(root, &files.steps);
    for unit in &workload {
        let mut texts = BTreeMap::new();
        load_unit(root, unit.as_str(), &mut texts)?;
        texts.extend(written_texts(&files.steps, unit));
        files.write(workload_gate::path(unit), workload_gate::text(unit, &texts).into_bytes(), MODE)?;
    }
    for (_, path) in gates(root)?.into_iter().filter(|(unit, _)| !workload.contains(unit)) {
        let directory = path.parent();
        // First: the steps may remove the directory of a config's drop-in, in which this one is.
        files.steps.insert(0, PlanStep::Remove { path });
        let is_removed = |step: &PlanStep| matches!(step, PlanStep::RemoveDirectory { path } if Some(path) == directory.as_ref());
        if !files.steps.iter().any(is_removed) {
            files.extend(directory.map(|path| PlanStep::RemoveDirectory { path }));
        }
    }
    Ok(())
}

/// Return the files and drop-ins of `unit` that the steps write.
fn written_texts<'a>(
    steps: &'a [PlanStep],
    unit: &UnitName,
) -> impl Iterator<Item = (ManagedPath, UnitFile)> + use<'a> {
    let (file, drop_ins) = (unit_path(unit.as_str()), unit_path(&format!("{}.d", unit.as_str())));
    steps.iter().filter_map(move |step| match step {
        PlanStep::Write { path, contents, .. }
            if *path == file || path.parent().as_ref() == Some(&drop_ins) =>
        {
            Some((path.clone(), UnitFile::Regular(String::from_utf8_lossy(contents).into_owned())))
        }
        _ => None,
    })
}

/// Plan the removal of all drop-ins.
pub(crate) fn removal_steps(root: &Root) -> Result<Vec<PlanStep>, HostError> {
    let removal = |(_, path): (UnitName, ManagedPath)| {
        // The directory stays if other drop-ins are in it.
        let directory = path.parent().map(|path| PlanStep::RemoveDirectory { path });
        std::iter::once(PlanStep::Remove { path }).chain(directory)
    };
    Ok(gates(root)?.into_iter().flat_map(removal).collect())
}

/// Return the units of the workload, by the settings as they are after `steps`. Where these cannot be read, the defaults
/// hold: the drift comparison reports them.
fn workload_after(root: &Root, steps: &[PlanStep]) -> Vec<UnitName> {
    let changed = steps.iter().filter_map(|step| match step {
        PlanStep::Write { path, contents, .. } => Some((path.clone(), Some(contents.clone()))),
        PlanStep::Remove { path } => Some((path.clone(), None)),
        _ => None,
    });
    let settings = load_changed_fragments(root, &changed.collect())
        .map_err(|error| chain(&error))
        .and_then(|fragments| Settings::of(&fragments).map_err(|error| error.to_string()));
    settings
        .unwrap_or_else(|reason| {
            log::warn!("the default units are taken for the workload: {reason}");
            Settings::default()
        })
        .boot_check
        .workload
}

/// List the drop-ins in `root` with their units.
fn gates(root: &Root) -> Result<Vec<(UnitName, ManagedPath)>, HostError> {
    let mut found = Vec::new();
    for name in root.list(&ManagedPath::constant(UNIT_DIRECTORY))? {
        let Some((unit, path)) = workload_gate::in_directory(&name) else { continue };
        if root.read(&path, limits::FRAGMENT_BYTES)?.is_some_and(|text| workload_gate::is_own(&text)) {
            found.push((unit, path));
        }
    }
    Ok(found)
}

//! The SELinux labels of what a transaction makes.

use std::collections::BTreeMap;

use crate::core::names::ManagedPath;
use crate::core::steps::Step;
use crate::host::{Disk, HostError};

/// Labels by path, as SELinux stores them: with a NUL at the end.
pub type Labels = BTreeMap<ManagedPath, Vec<u8>>;

/// The labels that what `steps` make inherits: from what it replaces, or else from the nearest
/// directory, as the kernel would give them.
pub(super) fn inherited(disk: &dyn Disk, steps: &[Step]) -> Result<Labels, HostError> {
    let mut known: BTreeMap<ManagedPath, Option<Vec<u8>>> = BTreeMap::new();
    let mut labels = Labels::new();
    for step in steps {
        let (Step::Write { path, .. } | Step::Symlink { path, .. } | Step::MakeDirectory { path, .. }) = step
        else {
            continue;
        };
        let label =
            if stands(disk, path) { disk.label(path)? } else { of_directory(disk, path, &mut known)? };
        labels.extend(label.map(|label| (path.clone(), label)));
    }
    Ok(labels)
}

/// What cannot be reached is as good as absent: it is about to be cleared away.
fn stands(disk: &dyn Disk, path: &ManagedPath) -> bool {
    matches!(disk.status(path), Ok(Some(_)))
}

fn of_directory(
    disk: &dyn Disk,
    path: &ManagedPath,
    known: &mut BTreeMap<ManagedPath, Option<Vec<u8>>>,
) -> Result<Option<Vec<u8>>, HostError> {
    let Some(directory) = path.parent() else { return Ok(None) };
    if let Some(label) = known.get(&directory) {
        return Ok(label.clone());
    }
    let label = if stands(disk, &directory) {
        // A link's own label says nothing about what is made behind it.
        disk.directory_label(&directory)?
    } else {
        of_directory(disk, &directory, known)?
    };
    known.insert(directory, label.clone());
    Ok(label)
}

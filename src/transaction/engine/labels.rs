//! SELinux labels of the paths that a change creates.

use std::collections::BTreeMap;

use crate::core::plan::steps::PlanStep;
use crate::core::values::names::ManagedPath;
use crate::host::{HostDisk, HostError};

/// Labels by path, with the trailing NUL that the `security.selinux` attribute has.
pub type SelinuxLabels = BTreeMap<ManagedPath, Vec<u8>>;

/// SELinux labels of one generation, by the document that holds them; without the terminating NUL.
#[derive(Debug, Clone, Default)]
pub(crate) struct GenerationLabels {
    /// Labels in the record: of paths below `/etc`, and of all paths where no policy is known.
    pub(crate) record: BTreeMap<ManagedPath, String>,
    /// Labels in the manifest: of paths outside `/etc`.
    pub(crate) manifest: BTreeMap<ManagedPath, String>,
}

impl GenerationLabels {
    /// Divide labels between record and manifest.
    pub(crate) fn divided(labels: BTreeMap<ManagedPath, String>) -> Self {
        let (record, manifest) = labels.into_iter().partition(|(path, _)| path.is_within("/etc"));
        Self { record, manifest }
    }
}

/// Choose labels for the paths that `steps` create: the label in `given`, which the policy or an earlier
/// change says, or else the label of the file to be replaced, or of its directory. The latter is the kernel's
/// default as well, except for transitions that depend on the name.
pub(crate) fn labels_of_steps(
    disk: &dyn HostDisk,
    steps: &[PlanStep],
    given: &BTreeMap<ManagedPath, String>,
) -> Result<SelinuxLabels, HostError> {
    let mut known: BTreeMap<ManagedPath, Option<Vec<u8>>> = BTreeMap::new();
    let mut labels = SelinuxLabels::new();
    for step in steps {
        let (PlanStep::Write { path, .. }
        | PlanStep::SetPassword { path, .. }
        | PlanStep::Symlink { path, .. }
        | PlanStep::MakeDirectory { path, .. }) = step
        else {
            continue;
        };
        let label = match given.get(path) {
            Some(label) => Some(terminated(label)),
            None if exists(disk, path) => disk.label(path)?,
            None => of_directory(disk, path, &mut known)?,
        };
        labels.extend(label.map(|label| (path.clone(), label)));
    }
    Ok(labels)
}

/// Return true if `path` exists. An unreachable path counts as absent: an earlier step removes the file
/// that is in its way.
fn exists(disk: &dyn HostDisk, path: &ManagedPath) -> bool {
    matches!(disk.status(path), Ok(Some(_)))
}

fn of_directory(
    disk: &dyn HostDisk,
    path: &ManagedPath,
    known: &mut BTreeMap<ManagedPath, Option<Vec<u8>>>,
) -> Result<Option<Vec<u8>>, HostError> {
    let Some(directory) = path.parent() else { return Ok(None) };
    if let Some(label) = known.get(&directory) {
        return Ok(label.clone());
    }
    let label = if exists(disk, &directory) {
        // Of a symbolic link, the label of the target directory counts.
        disk.directory_label(&directory)?
    } else {
        of_directory(disk, &directory, known)?
    };
    known.insert(directory, label.clone());
    Ok(label)
}

/// Return `labels` as the `security.selinux` attribute holds them.
pub(crate) fn terminated_labels(labels: &BTreeMap<ManagedPath, String>) -> SelinuxLabels {
    labels.iter().map(|(path, label)| (path.clone(), terminated(label))).collect()
}

fn terminated(label: &str) -> Vec<u8> {
    [label.as_bytes(), b"\0"].concat()
}

/// Return the labels for the new record: those in `given` without the paths that `steps` remove, and those
/// that `steps` set.
pub(crate) fn recorded_labels(
    given: &BTreeMap<ManagedPath, String>,
    steps: &[PlanStep],
    labels: &SelinuxLabels,
) -> BTreeMap<ManagedPath, String> {
    let mut recorded = given.clone();
    for step in steps {
        let path = step.path();
        match (step, labels.get(path)) {
            (PlanStep::Remove { .. } | PlanStep::RemoveDirectory { .. } | PlanStep::Restore { .. }, _) => {
                recorded.remove(path);
            }
            (
                PlanStep::Write { .. }
                | PlanStep::SetPassword { .. }
                | PlanStep::Symlink { .. }
                | PlanStep::MakeDirectory { .. },
                Some(label),
            ) => {
                let label = label.strip_suffix(b"\0").unwrap_or(label);
                // SELinux labels are ASCII. Any other value cannot be compared later, so it is not
                // recorded.
                let label = std::str::from_utf8(label).ok().map(str::to_owned);
                recorded.extend(label.map(|label| (path.clone(), label)));
            }
            _ => {}
        }
    }
    recorded
}

//! SELinux labels of the paths that a change creates.

use std::collections::BTreeMap;

use crate::core::plan::steps::{PlanStep, PriorChanges};
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::FileKind;
use crate::host::{HostDisk, HostError, Root};
use crate::os::Sysroot;
use crate::transaction::TransactionError;

/// File types in `st_mode`, which SELinux file contexts can depend on.
const REGULAR_FILE: u32 = 0o100_000;
const SYMBOLIC_LINK: u32 = 0o120_000;
const DIRECTORY: u32 = 0o040_000;

/// Labels by path, with the trailing NUL that the `security.selinux` attribute has.
pub type SelinuxLabels = BTreeMap<ManagedPath, Vec<u8>>;

/// Choose labels for the paths that `steps` create: the label that an earlier change gave to the path, or
/// else the label of the file to be replaced, or of its directory, which is the kernel's default as well.
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

pub(crate) fn terminated(label: &str) -> Vec<u8> {
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

/// Look up the new deployment's policy labels for the paths that earlier changes labelled: libostree
/// relabels the files that it merges.
pub(crate) fn policy_labels_of_prior(
    os: &mut dyn Sysroot,
    root: &Root,
    prior: &PriorChanges,
) -> Result<BTreeMap<ManagedPath, String>, TransactionError> {
    let mut asked = Vec::new();
    for path in prior.labels.keys() {
        let Some(status) = root.status(path)? else { continue };
        let kind = match status.kind {
            FileKind::Symlink => SYMBOLIC_LINK,
            FileKind::Directory => DIRECTORY,
            _ => REGULAR_FILE,
        };
        asked.push((path.to_string(), kind | status.attributes.mode));
    }
    let labels = os.labels(&asked)?;
    let labelled = asked.into_iter().zip(labels);
    Ok(labelled.filter_map(|((path, _), label)| Some((ManagedPath::parse(&path).ok()?, label?))).collect())
}

/// Look up the new deployment's policy labels for the paths that `steps` create.
pub(crate) fn policy_labels_of_steps(
    os: &mut dyn Sysroot,
    steps: &[PlanStep],
) -> Result<SelinuxLabels, TransactionError> {
    let paths: Vec<(ManagedPath, u32)> = steps
        .iter()
        .filter_map(|step| match step {
            PlanStep::Write { path, attributes, .. } => Some((path.clone(), REGULAR_FILE | attributes.mode)),
            PlanStep::SetPassword { path, .. } => Some((path.clone(), REGULAR_FILE)),
            PlanStep::Symlink { path, .. } => Some((path.clone(), SYMBOLIC_LINK | 0o777)),
            PlanStep::MakeDirectory { path, attributes } => Some((path.clone(), DIRECTORY | attributes.mode)),
            _ => None,
        })
        .collect();
    let asked: Vec<(String, u32)> = paths.iter().map(|(path, mode)| (path.to_string(), *mode)).collect();
    let labels = os.labels(&asked)?;
    let labelled = paths.into_iter().zip(labels);
    Ok(labelled.filter_map(|((path, _), label)| Some((path, terminated(&label?)))).collect())
}

//! The SELinux labels of what a transaction makes.

use std::collections::BTreeMap;

use crate::core::plan::steps::{PlanStep, PriorChanges};
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::FileKind;
use crate::host::{HostDisk, HostError, Root};
use crate::os::Sysroot;

use crate::transaction::TransactionError;

/// File types as `st_mode` has them, which a label can depend on.
const REGULAR_FILE: u32 = 0o100_000;
const SYMBOLIC_LINK: u32 = 0o120_000;
const DIRECTORY: u32 = 0o040_000;

/// Labels by path, as SELinux stores them: with a NUL at the end.
pub type SelinuxLabels = BTreeMap<ManagedPath, Vec<u8>>;

/// The labels of what `steps` make: the one that its path was given before, or else the one that it
/// inherits, from what it replaces or from the nearest directory, as the kernel would give it.
pub(crate) fn labels_of_steps(
    disk: &dyn HostDisk,
    steps: &[PlanStep],
    given: &BTreeMap<ManagedPath, String>,
) -> Result<SelinuxLabels, HostError> {
    let mut known: BTreeMap<ManagedPath, Option<Vec<u8>>> = BTreeMap::new();
    let mut labels = SelinuxLabels::new();
    for step in steps {
        let (PlanStep::Write { path, .. }
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

/// What cannot be reached is as good as absent: it is about to be cleared away.
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
        // A link's own label says nothing about what is made behind it.
        disk.directory_label(&directory)?
    } else {
        of_directory(disk, &directory, known)?
    };
    known.insert(directory, label.clone());
    Ok(label)
}

/// As SELinux stores it.
pub(crate) fn terminated(label: &str) -> Vec<u8> {
    [label.as_bytes(), b"\0"].concat()
}

/// What a record remembers of labels: those that were given before, but for what `steps` take away,
/// and those that they give.
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
                PlanStep::Write { .. } | PlanStep::Symlink { .. } | PlanStep::MakeDirectory { .. },
                Some(label),
            ) => {
                let label = label.strip_suffix(b"\0").unwrap_or(label);
                // A label is ASCII; one that is not is nothing to compare with.
                let label = std::str::from_utf8(label).ok().map(str::to_owned);
                recorded.extend(label.map(|label| (path.clone(), label)));
            }
            _ => {}
        }
    }
    recorded
}

/// The labels that earlier changes gave, as the new deployment's policy has them: libostree gives
/// them to what it merges.
pub(crate) fn policy_labels_of_prior(
    os: &mut dyn Sysroot,
    root: &Root,
    remembered: &PriorChanges,
) -> Result<BTreeMap<ManagedPath, String>, TransactionError> {
    let mut asked = Vec::new();
    for path in remembered.labels.keys() {
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

/// The labels that the new deployment's policy gives to what `steps` make.
pub(crate) fn policy_labels_of_steps(
    os: &mut dyn Sysroot,
    steps: &[PlanStep],
) -> Result<SelinuxLabels, TransactionError> {
    let paths: Vec<(ManagedPath, u32)> = steps
        .iter()
        .filter_map(|step| match step {
            PlanStep::Write { path, attributes, .. } => Some((path.clone(), REGULAR_FILE | attributes.mode)),
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

//! SELinux labels from the policy of a deployment.

use std::collections::BTreeMap;

use crate::core::config::managed_files::ManagedFiles;
use crate::core::plan::TreePlan;
use crate::core::plan::steps::{PlanStep, PriorChanges};
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{FileEntry, FileKind};
use crate::host::{HostError, Root};
use crate::os::Sysroot;
use crate::transaction::TransactionError;
use crate::transaction::engine::labels;
use crate::transaction::engine::labels::GenerationLabels;

/// File types in `st_mode`, which SELinux file contexts can depend on.
const REGULAR_FILE: u32 = 0o100_000;
const SYMBOLIC_LINK: u32 = 0o120_000;
const DIRECTORY: u32 = 0o040_000;

/// Links of an OSTree image to directories in `/var`, with those directories.
const LINKS: [(&str, &str); 6] = [
    ("/home", "/var/home"),
    ("/mnt", "/var/mnt"),
    ("/opt", "/var/opt"),
    ("/root", "/var/roothome"),
    ("/srv", "/var/srv"),
    ("/usr/local", "/var/usrlocal"),
];

/// Labels by path, without the terminating NUL.
type PolicyLabels = BTreeMap<ManagedPath, String>;

/// Look up the labels of a generation in the policy of the new deployment at `root`: of the steps of `tree`
/// below `/etc`, of paths there that earlier changes labelled, and of its files outside `/etc`.
pub(crate) fn of_new_generation(
    os: &mut dyn Sysroot,
    root: &Root,
    prior: &PriorChanges,
    tree: &TreePlan,
) -> Result<GenerationLabels, TransactionError> {
    let given = of_prior(os, root, &prior.within("/etc"))?;
    let steps = &tree.steps.steps;
    let of_steps = labels::terminated_labels(&of_steps(os, root, steps)?);
    let record = labels::recorded_labels(&given, steps, &of_steps);
    Ok(GenerationLabels { record, manifest: of_files(os, root, &tree.outside)? })
}

/// Look up the labels of the paths that earlier changes labelled: libostree relabels the files that it merges.
fn of_prior(
    os: &mut dyn Sysroot,
    root: &Root,
    prior: &PriorChanges,
) -> Result<PolicyLabels, TransactionError> {
    let mut asked = Vec::new();
    for path in prior.labels.keys() {
        let Some(status) = root.status_of(path)? else { continue };
        let kind = match status.kind {
            FileKind::Symlink => SYMBOLIC_LINK,
            FileKind::Directory => DIRECTORY,
            _ => REGULAR_FILE,
        };
        asked.push((path.clone(), kind | status.attributes.mode));
    }
    look_up(os, root, asked)
}

/// Look up the labels of the paths that `steps` create.
pub(crate) fn of_steps(
    os: &mut dyn Sysroot,
    root: &Root,
    steps: &[PlanStep],
) -> Result<PolicyLabels, TransactionError> {
    let asked = steps.iter().filter_map(|step| match step {
        PlanStep::Write { path, attributes, .. } => Some((path.clone(), REGULAR_FILE | attributes.mode)),
        PlanStep::SetPassword { path, .. } => Some((path.clone(), REGULAR_FILE)),
        PlanStep::Symlink { path, .. } => Some((path.clone(), SYMBOLIC_LINK | 0o777)),
        PlanStep::MakeDirectory { path, attributes } => Some((path.clone(), DIRECTORY | attributes.mode)),
        _ => None,
    });
    look_up(os, root, asked.collect())
}

/// Look up the labels of `managed` and of the directories above, which activation creates where they are
/// missing.
fn of_files(
    os: &mut dyn Sysroot,
    root: &Root,
    managed: &ManagedFiles,
) -> Result<PolicyLabels, TransactionError> {
    let mut modes: BTreeMap<ManagedPath, u32> = BTreeMap::new();
    for (path, entry) in &managed.entries {
        let mode = match entry {
            FileEntry::File { attributes, .. } => REGULAR_FILE | attributes.mode,
            FileEntry::Symlink { .. } => SYMBOLIC_LINK | 0o777,
            FileEntry::Directory { attributes } => DIRECTORY | attributes.mode,
            FileEntry::HardLink { .. }
            | FileEntry::Absent
            | FileEntry::AbsentOrEmpty { .. }
            | FileEntry::Unmasked => continue,
        };
        modes.insert(path.clone(), mode);
        for directory in path.ancestors() {
            let owned = managed.owned_parents.get(&directory);
            let mode = DIRECTORY | owned.map_or(0o755, |attributes| attributes.mode);
            modes.entry(directory).or_insert(mode);
        }
    }
    look_up(os, root, modes.into_iter().collect())
}

/// Look up the labels of paths with their modes. Paths that the policy has no label for are left out.
fn look_up(
    os: &mut dyn Sysroot,
    root: &Root,
    paths: Vec<(ManagedPath, u32)>,
) -> Result<PolicyLabels, TransactionError> {
    if paths.is_empty() {
        return Ok(PolicyLabels::new());
    }
    let links = present_links(root)?;
    let asked: Vec<(String, u32)> =
        paths.iter().map(|(path, mode)| (known_spelling(path, &links), *mode)).collect();
    let labels = os.labels(&asked)?;
    let labelled = paths.into_iter().zip(labels);
    Ok(labelled.filter_map(|((path, _), label)| Some((path, label?))).collect())
}

/// List the links to `/var` that the image at `root` has.
fn present_links(root: &Root) -> Result<Vec<(&'static str, &'static str)>, HostError> {
    let mut present = Vec::new();
    for (link, directory) in LINKS {
        let path = ManagedPath::constant(link);
        let Some(target) = root.link_target(&path)? else { continue };
        let target = path.leads_to(&target).or_else(|| ManagedPath::parse(&target).ok());
        if target.is_some_and(|target| target.as_str() == directory) {
            present.push((link, directory));
        }
    }
    Ok(present)
}

/// Spell a path as file contexts do: through the image's link, `/usr/local/bin` and not `/var/usrlocal/bin`.
///
/// A lookup replaces the prefixes that `file_contexts.subs_dist` lists, in one of two directions:
///
/// - Fedora's policy lists `/var/usrlocal /usr/local`, `/var/roothome /root` and `/var/home /home`, and its
///   contexts name the right side. The link's spelling matches them as it is, and without these lines too, where
///   the directory's spelling gets `var_t`.
/// - rpm-ostree turns one of them around, `/home /var/home`, and such an image's contexts of home directories
///   name `/var/home`. The link's spelling is replaced by its target.
///
/// `/var/opt`, `/var/srv` and `/var/mnt` are in no list; contexts name the links.
fn known_spelling(path: &ManagedPath, links: &[(&str, &str)]) -> String {
    let through = links.iter().find_map(|(link, directory)| {
        path.is_within(directory).then(|| path.as_str().replacen(directory, link, 1))
    });
    through.unwrap_or_else(|| path.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_spelled_through_the_links_of_the_image() {
        for (path, known) in [
            ("/var/home/core/.ssh", "/home/core/.ssh"),
            ("/var/homes/core", "/var/homes/core"),
            ("/var/usrlocal/bin/x", "/usr/local/bin/x"),
            ("/usr/local/bin/x", "/usr/local/bin/x"),
            ("/var/roothome/var/roothome", "/root/var/roothome"),
            ("/var/lib/kubelet/config.json", "/var/lib/kubelet/config.json"),
        ] {
            assert_eq!(known_spelling(&ManagedPath::constant(path), &LINKS), known);
        }
        let path = ManagedPath::constant("/var/home/core");
        assert_eq!(known_spelling(&path, &[]), "/var/home/core", "an image without the link");
    }
}

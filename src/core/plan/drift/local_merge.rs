//! Merge of local changes: a file with the drift policy `merge` gets what the desired config changed, and keeps what was
//! changed on the host. Line by line, and only where both fit together.

use std::collections::{BTreeMap, BTreeSet};

use super::Drift;
use crate::core::config::host_config::FORCE_FILE;
use crate::core::config::managed_files::ManagedFiles;
use crate::core::config::settings::{DriftPolicies, DriftPolicy};
use crate::core::plan::steps::PathObstruction;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{DriftKind, FileEntry};

/// Most lines of a file that is merged: the time of a comparison grows with the square of the differing ones.
const MOST_LINES: usize = 10_000;
/// Most bytes of such a file.
pub const MOST_BYTES: usize = 4 << 20;

/// Drift policies that decide on the local changes of a file in an update.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergePolicies {
    /// Policies before the update: with `merge`, a local change is no drift that the update would replace.
    pub before: DriftPolicies,
    /// Policies after it: without `merge`, the kept changes would be drift, and fail the boot check.
    pub after: DriftPolicies,
}

/// Contents of files on the host whose policy before the update is `merge`; `None` for a file of more than
/// [`MOST_BYTES`]. The `Debug` output leaves them out.
#[derive(Clone, Default)]
pub struct LocalContents(pub BTreeMap<ManagedPath, Option<Vec<u8>>>);

impl std::fmt::Debug for LocalContents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Result of merging local changes into a desired config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalMerges {
    /// Files that keep their local changes.
    pub merged: BTreeSet<ManagedPath>,
    /// Files whose local changes contradict the desired config, with reasons. They get their desired contents where the
    /// plan is carried out nevertheless.
    pub conflicts: Vec<PathObstruction>,
}

impl LocalMerges {
    /// Merge local changes of files in the `current` config into the contents of the `desired` one, by the policies `after`
    /// the update.
    #[must_use]
    pub fn merge_into(
        desired: &mut ManagedFiles,
        current: &ManagedFiles,
        local: &LocalContents,
        after: &DriftPolicies,
    ) -> Self {
        let mut result = Self::default();
        for (path, local) in &local.0 {
            let Some(FileEntry::File { contents: recorded, .. }) = current.entries.get(path) else {
                continue;
            };
            let merged = match (local, desired.entries.get_mut(path)) {
                (None, _) => Err(LocalConflict::TooLarge),
                (Some(local), Some(FileEntry::File { contents, .. })) if local == contents => Ok(()),
                (Some(_), _) if after.of(path) != DriftPolicy::Merge => Err(LocalConflict::PolicyEnds),
                (Some(local), Some(FileEntry::File { contents, .. })) => {
                    merge(recorded, local, contents).map(|merged| *contents = merged)
                }
                _ => Err(LocalConflict::NoFile),
            };
            match merged {
                Ok(()) => drop(result.merged.insert(path.clone())),
                Err(conflict) => {
                    let reason = format!(
                        "the local changes of {path} cannot be merged with the desired config: {conflict}; change the file \
                         so that both fit, or have it replaced: by `flameholder apply` with the drift policy `report`, on a \
                         node with the daemon by `touch {FORCE_FILE}`"
                    );
                    result.conflicts.push(PathObstruction { path: path.clone(), reason });
                }
            }
        }
        result
    }

    /// Return true if `drift` is a local change that the plan keeps.
    #[must_use]
    pub fn keeps(&self, drift: &Drift) -> bool {
        drift.kind == DriftKind::Content && self.merged.contains(&drift.path)
    }
}

/// Reason for which local changes are not merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LocalConflict {
    #[error("the file is no text in UTF-8")]
    NotText,
    #[error("the file has more than {MOST_BYTES} bytes")]
    TooLarge,
    #[error("the file has more than {MOST_LINES} lines")]
    TooLong,
    #[error("both change the same lines")]
    SameLines,
    /// The desired config has no file at the path: another entry, or none.
    #[error("the desired config has no such file any more")]
    NoFile,
    #[error(
        "the drift policy of the path is not `merge` after the update (fragments in /run last until a reboot)"
    )]
    PolicyEnds,
}

/// Merge the changes from the `recorded` content to the `local` one with those to the `desired` one.
pub fn merge(recorded: &[u8], local: &[u8], desired: &[u8]) -> Result<Vec<u8>, LocalConflict> {
    if recorded == desired || local == desired {
        return Ok(local.to_vec());
    }
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| LocalConflict::NotText);
    let (recorded, local, desired) = (text(recorded)?, text(local)?, text(desired)?);
    if [recorded, local, desired].iter().any(|text| text.lines().count() > MOST_LINES) {
        return Err(LocalConflict::TooLong);
    }
    diffy::merge(recorded, local, desired).map(String::into_bytes).map_err(|_| LocalConflict::SameLines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(recorded: &str, local: &str, desired: &str) -> Result<String, LocalConflict> {
        let merged = merge(recorded.as_bytes(), local.as_bytes(), desired.as_bytes());
        merged.map(|merged| String::from_utf8(merged).unwrap())
    }

    #[test]
    fn changes_of_different_lines_are_merged() {
        let recorded = "server a\ndriftfile d\nlogdir l\n";
        for (local, desired, expected) in [
            (
                "server a\ndriftfile d\nlogdir l\nallow x\n",
                "server b\ndriftfile d\nlogdir l\n",
                "server b\ndriftfile d\nlogdir l\nallow x\n",
            ),
            ("driftfile d\nlogdir l\n", "server a\ndriftfile d\nlogdir m\n", "driftfile d\nlogdir m\n"),
            // The desired config is as before, or as the host was made by hand.
            ("server b\n", recorded, "server b\n"),
            ("server b\n", "server b\n", "server b\n"),
            // Without a line feed at the end.
            (
                "server c\ndriftfile d\nlogdir l",
                "server c\ndriftfile d\nlogdir l\n",
                "server c\ndriftfile d\nlogdir l",
            ),
        ] {
            assert_eq!(merged(recorded, local, desired).as_deref(), Ok(expected), "{local} {desired}");
        }
    }

    #[test]
    fn contradicting_changes_and_other_contents_than_text_are_refused() {
        let recorded = "server a\ndriftfile d\n";
        for (local, desired) in [
            ("server b\ndriftfile d\n", "server c\ndriftfile d\n"),
            ("", "server c\ndriftfile d\n"),
            ("server b\ndriftfile d\n", ""),
            ("server a\ndriftfile d\nx\n", "server a\ndriftfile d\ny\n"),
        ] {
            assert_eq!(merged(recorded, local, desired), Err(LocalConflict::SameLines), "{local} {desired}");
        }
        assert_eq!(merge(b"a\n", b"\xff", b"b\n"), Err(LocalConflict::NotText));
        let long = "x\n".repeat(MOST_LINES + 1);
        assert_eq!(merged("a\n", &long, "b\n"), Err(LocalConflict::TooLong));
    }

    #[test]
    fn merge_invents_nothing_and_prefers_no_side() {
        let lines = ["a\n", "b\n", "a", ""];
        let texts: Vec<String> = lines
            .iter()
            .flat_map(|first| lines.iter().map(move |second| format!("{first}{second}")))
            .flat_map(|start| lines.iter().map(move |third| format!("{start}{third}")))
            .collect();
        for recorded in &texts {
            for local in &texts {
                assert_eq!(merged(recorded, local, recorded).as_ref(), Ok(local));
                for desired in &texts {
                    let both = merged(recorded, local, desired);
                    assert_eq!(both, merged(recorded, desired, local), "{recorded:?} {local:?} {desired:?}");
                    if local == recorded {
                        assert_eq!(both.as_ref(), Ok(desired));
                    }
                }
            }
        }
    }

    #[test]
    fn debug_output_has_no_contents() {
        let contents = LocalContents([(ManagedPath::constant("/etc/a"), Some(b"secret".to_vec()))].into());
        assert_eq!(format!("{contents:?}"), "{ManagedPath(\"/etc/a\")}");
    }
}

//! The one list of the installed files and their places.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::folder;

/// File of an installation.
#[derive(Debug)]
pub(super) struct InstalledFile {
    /// Relative to the prefix.
    pub(super) path: PathBuf,
    pub(super) mode: u32,
    pub(super) content: InstalledContent,
}

#[derive(Debug)]
pub(super) enum InstalledContent {
    /// Executable of the release build, by its name.
    Executable(&'static str),
    /// File of the repository, relative to its root.
    Source(PathBuf),
    /// The same, compressed as manual pages are.
    Compressed(PathBuf),
}

/// Directories that are there although no file of ours is in them, relative to the prefix: settings, check programs
/// and hooks of an OS image go there.
pub(super) const DIRECTORIES: [&str; 5] = [
    "lib/flameholder/config.d",
    "lib/flameholder/health.d",
    "lib/flameholder/before-drain.d",
    "lib/flameholder/after-confirmation.d",
    "lib/flameholder/notify.d",
];

/// Executables of the release build, and their destinations.
const EXECUTABLES: [(&str, &str); 2] =
    [("flameholder", "bin"), ("flameholder-ostree", "libexec/flameholder")];

/// Script that kubectl finds as its plugin, and its destination.
const KUBECTL_PLUGIN: (&str, &str) = ("packaging/kubectl-flameholder", "bin/kubectl-flameholder");

/// Files of a folder whose names end like this, and their destinations.
const FOLDERS: [(&str, &str, &str); 7] = [
    ("systemd", ".service", "lib/systemd/system"),
    ("systemd", ".preset", "lib/systemd/system-preset"),
    ("systemd", ".catalog", "lib/systemd/catalog"),
    ("deploy/monitoring", ".json", "share/flameholder/monitoring"),
    ("deploy/monitoring", ".yaml", "share/flameholder/monitoring"),
    ("docs/schema", ".json", "share/flameholder/schema"),
    // Where Fedora's packages put interfaces for other modules.
    ("selinux", ".if", "share/selinux/devel/include/distributed"),
];
/// Single files, and their destinations.
const FILES: [(&str, &str); 10] = [
    ("systemd/flameholder.tmpfiles", "lib/tmpfiles.d/flameholder.conf"),
    ("docs/completions/flameholder", "share/bash-completion/completions/flameholder"),
    ("docs/completions/_flameholder", "share/zsh/site-functions/_flameholder"),
    ("docs/completions/flameholder.fish", "share/fish/vendor_completions.d/flameholder.fish"),
    ("LICENSE-APACHE", "share/licenses/flameholder/LICENSE-APACHE"),
    ("LICENSE-MIT", "share/licenses/flameholder/LICENSE-MIT"),
    ("CHANGELOG.md", "share/doc/flameholder/CHANGELOG.md"),
    ("README.md", "share/doc/flameholder/README.md"),
    ("docs/usage/runbook.md", "share/doc/flameholder/runbook.md"),
    ("SECURITY.md", "share/doc/flameholder/SECURITY.md"),
];
/// Folder of the units and of folders with drop-ins for units of other projects.
const UNITS: &str = "systemd";
/// End of the names of folders with drop-ins.
const DROP_INS: &str = ".service.d";
/// Folder of the manual pages, whose names end with their section.
const PAGES: &str = "docs/man";

/// List the files in the order of their destinations.
pub(super) fn files(repository: &Path) -> Result<Vec<InstalledFile>> {
    let executables = EXECUTABLES.iter().map(|&(name, directory)| InstalledFile {
        path: Path::new(directory).join(name),
        mode: 0o755,
        content: InstalledContent::Executable(name),
    });
    let mut files: Vec<_> = executables.collect();
    files.push(InstalledFile { mode: 0o755, ..source(KUBECTL_PLUGIN.0.into(), KUBECTL_PLUGIN.1.into()) });
    for (folder, ending, directory) in FOLDERS {
        let names = folder::names(&repository.join(folder))?;
        let wanted = names.iter().filter(|name| name.ends_with(ending));
        files
            .extend(wanted.map(|name| source(Path::new(folder).join(name), Path::new(directory).join(name))));
    }
    files.extend(FILES.iter().map(|&(from, to)| source(from.into(), to.into())));
    for dropins in folder::names(&repository.join(UNITS))?.iter().filter(|name| name.ends_with(DROP_INS)) {
        for name in folder::names(&repository.join(UNITS).join(dropins))? {
            let to = Path::new("lib/systemd/system").join(dropins).join(&name);
            files.push(source(Path::new(UNITS).join(dropins).join(name), to));
        }
    }
    for name in folder::names(&repository.join(PAGES))? {
        let section = Path::new(&name).extension().unwrap_or_default().display().to_string();
        files.push(InstalledFile {
            path: PathBuf::from(format!("share/man/man{section}/{name}.gz")),
            mode: 0o644,
            content: InstalledContent::Compressed(Path::new(PAGES).join(&name)),
        });
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

fn source(from: PathBuf, to: PathBuf) -> InstalledFile {
    InstalledFile { path: to, mode: 0o644, content: InstalledContent::Source(from) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn repository() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn each_file_has_a_place_of_its_own() {
        let files = files(&repository()).unwrap();
        let places: BTreeSet<_> = files.iter().map(|file| &file.path).collect();
        assert_eq!(places.len(), files.len());
        assert!(places.iter().all(|path| path.is_relative()));
    }

    #[test]
    fn everything_that_a_host_needs_is_installed() {
        let files = files(&repository()).unwrap();
        let from: BTreeSet<_> = files
            .iter()
            .filter_map(|file| match &file.content {
                InstalledContent::Source(path) | InstalledContent::Compressed(path) => Some(path.clone()),
                InstalledContent::Executable(_) => None,
            })
            .collect();
        for folder in [UNITS, PAGES, "deploy/monitoring", "docs/schema", "docs/completions"] {
            for name in folder::names(&repository().join(folder)).unwrap() {
                let path = Path::new(folder).join(&name);
                let is_installed = from.iter().any(|source| source.starts_with(&path));
                // A system extension has no units: those of hosts with one come by Ignition or `adopt`.
                let is_wanted = !["README.md", "sysext"].contains(&name.as_str());
                assert_eq!(is_installed, is_wanted, "{}", path.display());
            }
        }
    }
}

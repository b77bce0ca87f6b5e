//! `cargo xtask install`: all files of an installation at their places below a prefix. Packages and images are made from
//! this tree.

mod layout;

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use flate2::{Compression, GzBuilder};
use tempfile::NamedTempFile;

use self::layout::{DIRECTORIES, InstalledContent, InstalledFile};
use crate::consent::InstallConsent;
use crate::folder;
use crate::project_tree::{ProjectTree, TlsLibrary};
use crate::setup;

/// Mode of directories.
const DIRECTORY: u32 = 0o755;

#[derive(Debug, Args)]
pub struct InstallArgs {
    /// Directory that stands for the root of the host; created if it does not exist.
    #[arg(long, value_name = "DIR")]
    destdir: PathBuf,
    /// Prefix of all files: `/usr` of packages and images, or `/usr/local`.
    #[arg(long, value_name = "DIR", default_value = "/usr")]
    prefix: PathBuf,
    /// Library that speaks TLS in the executables.
    #[arg(long, value_enum, default_value_t)]
    tls: TlsLibrary,
    /// Take the executables of the last release build as they are.
    #[arg(long, conflicts_with = "tls")]
    no_build: bool,
}

impl InstallArgs {
    /// Install below `/usr` in this directory.
    pub fn below(destdir: &Path, tls: TlsLibrary, no_build: bool) -> Self {
        Self { destdir: destdir.to_owned(), prefix: "/usr".into(), tls, no_build }
    }
}

/// Build the release executables, and install everything.
///
/// # Errors
/// The prefix is not absolute, a library for the build is missing, the build fails, or a file cannot be written.
pub fn run(tree: &ProjectTree, consent: InstallConsent, args: &InstallArgs) -> Result<()> {
    let prefix = beneath_root(&args.prefix)?;
    if !args.no_build {
        setup::ensure_build_installed(consent)?;
        tree.clone().with_tls(args.tls).build_release()?;
    }
    let files = layout::files(tree.root())?;
    write(tree, &files, &args.destdir.join(prefix))?;
    println!("installed {} files below {}", files.len(), args.destdir.join(prefix).display());
    Ok(())
}

/// Install the last release build below the target directory, in place of an earlier one, and return the folder that has it in `installation`, where
/// the stage that compiles puts it in the Containerfiles.
///
/// # Errors
/// A file cannot be written.
pub fn run_for_tests(tree: &ProjectTree, consent: InstallConsent) -> Result<PathBuf> {
    let installed = tree.target().join("vm/installed");
    folder::remove(&installed)?;
    run(tree, consent, &InstallArgs::below(&installed.join("installation"), tree.tls(), true))?;
    Ok(installed)
}

/// Return the prefix relative to the root.
fn beneath_root(prefix: &Path) -> Result<&Path> {
    let relative =
        prefix.strip_prefix("/").with_context(|| format!("{} is not absolute", prefix.display()))?;
    let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    ensure!(is_plain, "the prefix {} must not contain `..`", prefix.display());
    Ok(relative)
}

fn write(tree: &ProjectTree, files: &[InstalledFile], prefix: &Path) -> Result<()> {
    for directory in DIRECTORIES {
        make_directories(&prefix.join(directory))?;
    }
    for file in files {
        let path = prefix.join(&file.path);
        let bytes = content(tree, &file.content)?;
        replace(&path, &bytes, file.mode)?;
    }
    Ok(())
}

fn content(tree: &ProjectTree, content: &InstalledContent) -> Result<Vec<u8>> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("reading {}", path.display()));
    match content {
        InstalledContent::Executable(name) => read(&tree.executable(name)),
        InstalledContent::Source(path) => read(&tree.root().join(path)),
        InstalledContent::Compressed(path) => compressed(&read(&tree.root().join(path))?),
    }
}

/// Compress a text, without name and time: the same text gives the same file.
pub(crate) fn compressed(text: &[u8]) -> Result<Vec<u8>> {
    let mut compressed = GzBuilder::new().write(Vec::new(), Compression::best());
    compressed.write_all(text)?;
    Ok(compressed.finish()?)
}

/// Write a file, in place of one that is there: that stays as it is for those who run it or have it open.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let directory = path.parent().context("a file in a directory")?;
    make_directories(directory)?;
    let write = || {
        let mut file = NamedTempFile::new_in(directory)?;
        file.write_all(bytes)?;
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
        file.persist(path)?;
        Ok::<_, std::io::Error>(())
    };
    write().with_context(|| format!("writing {}", path.display()))
}

/// Make a directory and those above it with the same mode whatever the umask is. Existing ones stay as they are.
fn make_directories(path: &Path) -> Result<()> {
    let missing: Vec<_> = path.ancestors().take_while(|path| !path.exists()).collect();
    for directory in missing.into_iter().rev() {
        fs::create_dir(directory).with_context(|| format!("creating {}", directory.display()))?;
        fs::set_permissions(directory, Permissions::from_mode(DIRECTORY))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn prefix_lies_below_the_root() {
        assert_eq!(beneath_root(Path::new("/usr/local")).unwrap(), Path::new("usr/local"));
        for prefix in ["usr", "/usr/../etc", ""] {
            assert!(beneath_root(Path::new(prefix)).is_err(), "{prefix}");
        }
    }

    #[test]
    fn files_are_written_twice_with_modes_and_without_leftovers() {
        let tree = ProjectTree::locate().unwrap();
        let root = tempfile::tempdir().unwrap();
        let prefix = root.path().join("a/usr");
        let files = layout::files(tree.root()).unwrap();
        let files: Vec<_> = files
            .into_iter()
            .filter(|file| !matches!(file.content, InstalledContent::Executable(_)))
            .collect();
        for _ in 0..2 {
            write(&tree, &files, &prefix).unwrap();
        }
        for file in &files {
            let metadata = fs::metadata(prefix.join(&file.path)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o7777, file.mode, "{}", file.path.display());
        }
        let units = fs::read_dir(prefix.join("lib/systemd/system")).unwrap();
        let hidden =
            units.filter(|unit| unit.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
        assert_eq!(hidden.count(), 0);
        let mut page = String::new();
        let compressed = fs::File::open(prefix.join("share/man/man8/flameholder.8.gz")).unwrap();
        GzDecoder::new(compressed).read_to_string(&mut page).unwrap();
        assert_eq!(page, fs::read_to_string(tree.root().join("docs/man/flameholder.8")).unwrap());
    }
}

//! Trust in files of the host that decide which programs run as root: only root may be able to change them.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

/// Symbolic links that are followed on one path; more are a loop (the kernel's limit).
const LINKS: usize = 40;
/// Mode bits with which the group and others can write.
const WRITABLE: u32 = 0o022;
/// Mode bit of a directory whose entries only their owner can rename and remove.
const STICKY: u32 = 0o1000;

/// Path that users other than root can change.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file, directory or link of another user.
    #[error(
        "{} belongs to user {owner}, who can change it; run `chown {}root:root {}`",
        path.display(), of_link(*is_link), path.display()
    )]
    Owner { path: PathBuf, owner: u32, is_link: bool },
    /// A file or directory that the group or others can write.
    #[error(
        "{} has mode {mode:04o}: users other than root can change it; run `chmod go-w {}`",
        path.display(), path.display()
    )]
    Writable { path: PathBuf, mode: u32 },
    /// Symbolic links that lead to each other, or too many of them.
    #[error("{} leads through more than {LINKS} symbolic links", path.display())]
    Loop { path: PathBuf },
    /// A path that cannot be read.
    #[error("reading {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl TrustError {
    /// Path that has to be corrected.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Owner { path, .. }
            | Self::Writable { path, .. }
            | Self::Loop { path }
            | Self::Read { path, .. } => path,
        }
    }
}

fn of_link(is_link: bool) -> &'static str {
    if is_link { "--no-dereference " } else { "" }
}

/// Refuse a file or directory that users other than root can write.
pub fn ensure_only_root_writes(path: &Path, found: &Metadata) -> Result<(), TrustError> {
    ensure_of_root(path, found)?;
    let mode = found.permissions().mode() & 0o7777;
    if mode & WRITABLE != 0 {
        return Err(TrustError::Writable { path: path.to_owned(), mode });
    }
    Ok(())
}

fn ensure_of_root(path: &Path, found: &Metadata) -> Result<(), TrustError> {
    if found.uid() == 0 {
        return Ok(());
    }
    Err(TrustError::Owner { path: path.to_owned(), owner: found.uid(), is_link: found.is_symlink() })
}

/// Refuse a path that users other than root can change or replace: the file or directory itself, every
/// symbolic link on the way to it, and every directory above any of them.
///
/// A directory that everybody can write and that has the sticky bit, such as `/tmp`, is accepted above a
/// directory of root: the kernel lets no other user rename or remove it, and a directory cannot be linked to
/// another place. It is refused above a file or a link: another user can put a hard link to any file of root
/// there, where `fs.protected_hardlinks` is off.
pub fn ensure_only_root_changes(path: &Path) -> Result<(), TrustError> {
    let absolute = std::path::absolute(path).map_err(|error| unreadable(path, error))?;
    let mut pending = steps(&absolute);
    let mut directory = PathBuf::from("/");
    let mut above = read(&directory)?;
    ensure_only_root_writes(&directory, &above)?;
    let mut links = 0;
    while let Some(step) = pending.pop() {
        if step == ".." {
            directory.pop();
            above = read(&directory)?;
            continue;
        }
        let entry = directory.join(step);
        let found = read(&entry)?;
        if !found.is_dir() {
            ensure_only_root_writes(&directory, &above)?;
        }
        if !found.is_symlink() {
            let is_sticky = found.is_dir() && found.permissions().mode() & STICKY != 0;
            if is_sticky {
                ensure_of_root(&entry, &found)?;
            } else {
                ensure_only_root_writes(&entry, &found)?;
            }
            (directory, above) = (entry, found);
            continue;
        }
        ensure_of_root(&entry, &found)?;
        links += 1;
        if links > LINKS {
            return Err(TrustError::Loop { path: path.to_owned() });
        }
        let target = entry.read_link().map_err(|error| unreadable(&entry, error))?;
        if target.is_absolute() {
            directory = PathBuf::from("/");
            above = read(&directory)?;
        }
        pending.extend(steps(&target));
    }
    Ok(())
}

/// Names on a path, the last one first.
fn steps(path: &Path) -> Vec<OsString> {
    let names = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.map(|part| part.as_os_str().to_owned()).rev().collect()
}

fn read(path: &Path) -> Result<Metadata, TrustError> {
    path.symlink_metadata().map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, source: io::Error) -> TrustError {
    TrustError::Read { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{chown, lchown, symlink};

    use super::*;

    /// Directory of root below a sticky one, with a file of root in it.
    fn trusted() -> Option<(tempfile::TempDir, PathBuf)> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: needs root, because only files of root are trusted");
            return None;
        }
        let top = tempfile::tempdir().unwrap();
        let directory = top.path().join("desired");
        fs::create_dir(&directory).unwrap();
        set_mode(&directory, 0o755);
        let file = directory.join("a.json");
        fs::write(&file, "").unwrap();
        set_mode(&file, 0o644);
        Some((top, file))
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn refusal(path: &Path) -> String {
        ensure_only_root_changes(path).unwrap_err().to_string()
    }

    #[test]
    fn files_of_root_are_trusted_directly_and_through_links() {
        let Some((top, file)) = trusted() else { return };
        ensure_only_root_changes(&file).unwrap();
        symlink("desired/../desired/a.json", top.path().join("relative")).unwrap();
        symlink(top.path().join("relative"), top.path().join("absolute")).unwrap();
        ensure_only_root_changes(&top.path().join("absolute")).unwrap();
        symlink("loop", top.path().join("loop")).unwrap();
        assert!(refusal(&top.path().join("loop")).contains("40 symbolic links"));
    }

    #[test]
    fn writable_files_and_directories_are_refused_with_their_mode() {
        let Some((top, file)) = trusted() else { return };
        let directory = file.parent().unwrap();
        for path in [&file, directory, top.path()] {
            let before = path.metadata().unwrap().permissions().mode();
            for mode in [before | 0o020, before | 0o002] {
                set_mode(path, mode);
                let (shown, mode) = (path.display(), mode & 0o7777);
                let expected = format!(
                    "{shown} has mode {mode:04o}: users other than root can change it; run `chmod go-w {shown}`"
                );
                assert_eq!(refusal(&file), expected);
            }
            set_mode(path, before);
        }
        ensure_only_root_changes(&file).unwrap();
    }

    #[test]
    fn sticky_directory_is_trusted_above_a_directory_only() {
        let Some((top, file)) = trusted() else { return };
        set_mode(top.path(), 0o1777);
        ensure_only_root_changes(&file).unwrap();
        symlink("desired/a.json", top.path().join("link")).unwrap();
        assert!(refusal(&top.path().join("link")).contains("has mode 1777"));
        set_mode(file.parent().unwrap(), 0o1777);
        assert!(refusal(&file).contains("has mode 1777"));
    }

    #[test]
    fn files_directories_links_and_targets_of_other_users_are_refused() {
        let Some((top, file)) = trusted() else { return };
        let link = top.path().join("link");
        symlink("desired/a.json", &link).unwrap();
        for path in [file.as_path(), file.parent().unwrap()] {
            chown(path, Some(1000), None).unwrap();
            let shown = path.display();
            let expected =
                format!("{shown} belongs to user 1000, who can change it; run `chown root:root {shown}`");
            assert_eq!((refusal(&file), refusal(&link)), (expected.clone(), expected));
            chown(path, Some(0), None).unwrap();
        }
        lchown(&link, Some(1000), None).unwrap();
        assert!(
            refusal(&link).ends_with(&format!("run `chown --no-dereference root:root {}`", link.display()))
        );
    }
}

//! Image of the agent as a system extension (`systemd-sysext(8)`), for hosts whose OS image does not have it.
//!
//! It has no units: systemd reads those of an extension too late to start them in the same boot, so that they lie in `/etc`
//! (`cargo xtask ignition --extension`, `flameholder adopt`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::XattrFlags;

use super::VERSION;
use crate::{install, invocation};

/// Name of the extension; that of its image on a host, without the version.
pub const NAME: &str = "flameholder";
/// Files that belong to an OS image or a package only.
const LEFT_OUT: [&str; 3] = ["usr/lib/systemd", "usr/lib/tmpfiles.d", "usr/lib/flameholder"];

/// Types of the files in the image, in the targeted policy of Fedora, by the paths that they begin with; the last that fits
/// counts. A host without labels in the image would have none on the directories of `/usr` either, which an overlay takes from
/// its topmost layer. The executables have no types of their own: a host need not have the policy module, and an unknown type
/// counts as no label.
const TYPES: [(&str, &str); 6] = [
    ("usr", "usr_t"),
    ("usr/bin", "bin_t"),
    ("usr/lib", "lib_t"),
    ("usr/libexec", "bin_t"),
    ("usr/share", "usr_t"),
    ("usr/share/man", "man_t"),
];
const LABEL: &str = "security.selinux";

/// Return the label of a path in the image, as the kernel stores it.
fn label_of(path: &Path) -> String {
    let named = TYPES.iter().rev().find(|(above, _)| path.starts_with(above));
    let named = named.map_or("root_t", |(_, named)| *named);
    format!("system_u:object_r:{named}:s0\0")
}

/// Return true if files below `directory` can be labelled: by root, outside of most containers.
fn can_label(directory: &Path) -> Result<bool> {
    let probe = tempfile::NamedTempFile::new_in(directory)?;
    let label = label_of(Path::new("usr"));
    Ok(rustix::fs::lsetxattr(probe.path(), LABEL, label.as_bytes(), XattrFlags::empty()).is_ok())
}

/// Label all below `directory` of the tree.
fn label(tree: &Path, directory: &Path) -> Result<()> {
    let set = |path: &Path| {
        let label = label_of(path.strip_prefix(tree)?);
        rustix::fs::lsetxattr(path, LABEL, label.as_bytes(), XattrFlags::empty())
            .with_context(|| format!("labelling {}", path.display()))
    };
    set(directory)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            label(tree, &entry.path())?;
        } else {
            set(&entry.path())?;
        }
    }
    Ok(())
}

/// Architecture of this machine, as systemd spells it (`os-release(5)`, `ConditionArchitecture=`).
fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("x86-64"),
        "aarch64" => Ok("arm64"),
        other => bail!("systemd has no name for the architecture {other}"),
    }
}

/// Return the file name of the image.
///
/// # Errors
/// systemd has no name for the architecture.
pub fn file_name() -> Result<String> {
    Ok(format!("{NAME}-{VERSION}-{}.raw", architecture()?))
}

/// Make the image from a copy of the tree that is laid out.
///
/// # Errors
/// A file cannot be copied, or mksquashfs fails.
pub(super) fn build(laid_out: &Path, scratch: &Path, output: &Path) -> Result<PathBuf> {
    let tree = scratch.join("extension");
    invocation::run(Command::new("cp").arg("--archive").arg(laid_out).arg(&tree))?;
    for path in LEFT_OUT.map(|path| tree.join(path)) {
        fs::remove_dir_all(&path).with_context(|| format!("removing {}", path.display()))?;
    }
    // For any OS: the libraries that the executables need decide, and `flameholder version` names those that are missing.
    let release = format!("ID=_any\nARCHITECTURE={}\n", architecture()?);
    let place = tree.join(format!("usr/lib/extension-release.d/extension-release.{NAME}"));
    install::replace(&place, release.as_bytes(), 0o644)?;
    let image = output.join(file_name()?);
    if can_label(scratch)? {
        label(&tree, &tree)?;
    } else {
        eprintln!(
            "{}: without labels, for hosts that do not enforce SELinux: none can be written here",
            image.display()
        );
    }
    let mut make = Command::new("mksquashfs");
    make.arg(&tree).arg(&image).args(["-all-root", "-noappend", "-no-progress", "-quiet", "-comp", "zstd"]);
    invocation::run(make.stdout(Stdio::null()))?;
    Ok(image)
}

/// Check the content of the image, by the tool that lists it.
///
/// # Errors
/// A file is missing, or one is there that an extension must not have.
pub(super) fn verify(image: &Path) -> Result<()> {
    let list = invocation::read(Command::new("unsquashfs").args(["-ls", "-dest", ""]).arg(image))?;
    let release = format!("/usr/lib/extension-release.d/extension-release.{NAME}");
    for path in ["/usr/bin/flameholder", "/usr/libexec/flameholder/flameholder-ostree", &release] {
        ensure!(list.lines().any(|line| line == path), "{} has no {path}", image.display());
    }
    for place in ["/etc", "/var", "/usr/lib/systemd", "/usr/lib/os-release"] {
        ensure!(!list.lines().any(|line| line.starts_with(place)), "{} has {place}", image.display());
    }
    let scratch = tempfile::tempdir()?;
    if can_label(scratch.path())? { verify_labels(image, scratch.path()) } else { Ok(()) }
}

/// Check that the labels are in the image, by unpacking some of it.
fn verify_labels(image: &Path, scratch: &Path) -> Result<()> {
    let tree = scratch.join("tree");
    let mut unpack = Command::new("unsquashfs");
    unpack.args(["-no-progress", "-quiet", "-dest"]).arg(&tree).arg(image).arg("usr/bin/flameholder");
    invocation::run(unpack.stdout(Stdio::null()))?;
    for path in ["usr", "usr/bin", "usr/bin/flameholder"] {
        let mut found = [0; 256];
        let length = rustix::fs::lgetxattr(tree.join(path), LABEL, &mut found).unwrap_or_default();
        let found = String::from_utf8_lossy(found.get(..length).unwrap_or_default());
        let expected = label_of(Path::new(path));
        ensure!(found == expected, "{}: /{path} has the label {found:?}", image.display());
    }
    Ok(())
}

//! Image of the agent as a system extension (`systemd-sysext(8)`), for hosts whose OS image does not have it.
//!
//! It has no units: systemd reads those of an extension too late to start them in the same boot, so that they lie in `/etc`
//! (`cargo xtask ignition --extension`, `flameholder adopt`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use super::VERSION;
use crate::{install, invocation};

/// Name of the extension; that of its image on a host, without the version.
pub const NAME: &str = "flameholder";
/// Files that belong to an OS image or a package only.
const LEFT_OUT: [&str; 3] = ["usr/lib/systemd", "usr/lib/tmpfiles.d", "usr/lib/flameholder"];

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
    let mut make = Command::new("mksquashfs");
    make.arg(&tree).arg(&image).args(["-all-root", "-noappend", "-no-progress", "-quiet", "-comp", "zstd"]);
    invocation::run(make.stdout(Stdio::null()))?;
    Ok(image)
}

/// Check what is in the image, by the tool that lists it.
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
    Ok(())
}

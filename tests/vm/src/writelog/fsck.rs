//! File system repair as at boot, and its reversal.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, Result, ensure};

/// Highest exit code of e2fsck for a usable file system: errors were corrected.
const REPAIRED: i32 = 1;

/// A repaired file system that can be reverted.
#[derive(Debug)]
pub struct Repair {
    image: PathBuf,
    undo: PathBuf,
}

impl Repair {
    /// Replay the journal and make safe repairs, as systemd-fsck does. The second value is the output of
    /// e2fsck if the file system needs more than that.
    pub fn apply(image: &Path) -> Result<(Self, Option<String>)> {
        let undo = image.with_extension("undo");
        remove(&undo)?;
        File::options().write(true).open(image)?.set_modified(UNIX_EPOCH)?;
        let mut fsck = Command::new("e2fsck");
        let (code, text) = run(fsck.arg("-p").arg("-z").arg(&undo).arg(image))?;
        let damage = (code > REPAIRED).then(|| format!("e2fsck -p ended with {code}: {}", text.trim()));
        Ok((Self { image: image.to_owned(), undo }, damage))
    }

    /// Check the whole file system, and return the problems found.
    pub fn audit(&self) -> Result<Option<String>> {
        let (code, text) = run(Command::new("e2fsck").arg("-fn").arg(&self.image))?;
        Ok((code != 0).then(|| format!("e2fsck -fn ended with {code}: {}", text.trim())))
    }

    /// Restore the file system from before the repair.
    pub fn revert(self) -> Result<()> {
        // If e2fsck changed nothing, its undo file is not one that e2undo accepts.
        if std::fs::metadata(&self.image)?.modified()? != UNIX_EPOCH {
            let (code, text) = run(Command::new("e2undo").arg(&self.undo).arg(&self.image))?;
            ensure!(
                code == 0,
                "reverting the repair of {} failed: e2undo ended with {code}: {text}",
                self.image.display()
            );
        }
        remove(&self.undo)
    }
}

fn remove(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Run a command, and return its exit code and output.
fn run(command: &mut Command) -> Result<(i32, String)> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).env("LC_ALL", "C").output();
    let output = output.with_context(|| format!("starting {program}; it is in the package e2fsprogs"))?;
    let code = output.status.code().with_context(|| format!("{program} was killed: {}", output.status))?;
    let text = [output.stdout, output.stderr].concat();
    Ok((code, String::from_utf8_lossy(&text).into_owned()))
}

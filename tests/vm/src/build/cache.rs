//! Cached stages of a build. The key of a stage is a digest of its inputs.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

/// Inputs of a stage: the digest of everything that the stage is built from.
#[derive(Debug, Clone, Default)]
pub struct Inputs(Sha256);

impl Inputs {
    /// Add a text.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.0.update(text.len().to_le_bytes());
        self.0.update(text);
        self
    }

    /// Add an earlier stage by the name of its folder, which ends with that stage's key, and by the time at which it was
    /// built: an overlay on a disk does not fit one that was built again from the same inputs.
    #[must_use]
    pub fn stage(self, folder: &Path) -> Self {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let built = fs::metadata(folder).and_then(|folder| folder.modified()).ok();
        self.text(&name).text(&format!("{built:?}"))
    }

    /// Add the content of a file.
    pub fn file(mut self, path: &Path) -> Result<Self> {
        let content = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        self.0.update(content.len().to_le_bytes());
        self.0.update(content);
        Ok(self)
    }

    fn key(self) -> String {
        let digest = format!("{:x}", self.0.finalize());
        digest.get(..12).unwrap_or(&digest).to_owned()
    }
}

/// Directory of all stages, with a link to the current version of each.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    pub fn open(root: &Path) -> Result<Self> {
        for name in ["cache", "current"] {
            let folder = root.join(name);
            fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        }
        Ok(Self { root: root.canonicalize()? })
    }

    /// Return the folder of a stage, after `make` has filled it if there is none for these inputs. Older
    /// versions of the stage are removed.
    pub fn stage(
        &self,
        name: &str,
        inputs: Inputs,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let cache = self.root.join("cache");
        let folder = cache.join(format!("{name}-{}", inputs.key()));
        if !folder.is_dir() {
            let start = Instant::now();
            let partial = cache.join(format!("{name}.partial"));
            remove(&partial)?;
            fs::create_dir(&partial).with_context(|| format!("making {}", partial.display()))?;
            make(&partial).with_context(|| format!("building stage {name}"))?;
            fs::rename(&partial, &folder)
                .with_context(|| format!("renaming the built stage to {}", folder.display()))?;
            eprintln!("{name:<12} {:>6.1} s", start.elapsed().as_secs_f64());
        }
        self.link(name, &folder)?;
        remove_other_versions(&folder)?;
        Ok(folder)
    }

    /// Return the current folder of a stage that an earlier build made.
    pub fn current(&self, name: &str) -> Result<PathBuf> {
        let link = self.root.join("current").join(name);
        fs::read_link(&link).with_context(|| format!("reading the link to the stage {}", link.display()))
    }

    fn link(&self, name: &str, folder: &Path) -> Result<()> {
        let link = self.root.join("current").join(name);
        if fs::read_link(&link).is_ok_and(|old| old == folder) {
            return Ok(());
        }
        let new = link.with_extension("new");
        // A build that was killed may have left one.
        let _ = fs::remove_file(&new);
        std::os::unix::fs::symlink(folder, &new)?;
        fs::rename(&new, &link).with_context(|| format!("linking {}", link.display()))
    }
}

/// Remove the other versions of a folder: those beside it whose names differ only behind the last dash.
pub fn remove_other_versions(folder: &Path) -> Result<()> {
    let name = |path: &Path| path.file_name()?.to_str()?.rsplit_once('-').map(|(name, _)| name.to_owned());
    let all = folder.parent().with_context(|| format!("{} has no parent", folder.display()))?;
    for entry in fs::read_dir(all).with_context(|| format!("listing {}", all.display()))? {
        let path = entry?.path();
        if path != folder && name(&path) == name(folder) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Prelude of each recipe: a fixed umask, so that modes do not depend on the user's, and a function that runs
/// a program of the builder tree without a chroot.
const PRELUDE: &str = "umask 022
of_builder() {
  \"$BUILDER/lib64/ld-linux-x86-64.so.2\" --library-path \"$BUILDER/usr/lib/x86_64-linux-gnu\" \"$BUILDER/$1\" \"${@:2}\"
}
";

/// Run a recipe with these variables, in a mount namespace of its own: its mounts end with it.
pub fn run_recipe(text: &str, out: &Path, variables: &[(&str, &Path)]) -> Result<()> {
    let scratch = tempfile::Builder::new()
        .prefix("scratch-")
        .tempdir_in(out.parent().with_context(|| format!("{} has no parent", out.display()))?)?;
    let mut command = Command::new("unshare");
    let text = format!("{PRELUDE}{text}");
    command.args(["--mount", "--", "bash", "-euo", "pipefail", "-c", &text, "recipe"]);
    command.env("OUT", out).env("SCRATCH", scratch.path()).env("LC_ALL", "C.UTF-8");
    command.envs(variables.iter().copied());
    let output = command.stdin(std::process::Stdio::null()).output().context("starting bash for a recipe")?;
    let output_text = [output.stdout, output.stderr].concat();
    let output_text = String::from_utf8_lossy(&output_text);
    if !output.status.success() {
        bail!("recipe failed with {}:\n{output_text}", output.status);
    }
    Ok(())
}

fn remove(folder: &Path) -> Result<()> {
    // A recipe that was killed may have left mounts in its tree: never delete files behind a mount.
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let prefix = format!(" {}/", folder.display());
    ensure!(
        !mounts.contains(&prefix),
        "file systems are mounted below {}; unmount them before the stage is removed",
        folder.display()
    );
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn stage_is_built_once_and_replaces_its_predecessor() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(root.path()).unwrap();
        let build = |text: &str| {
            let mut made = false;
            let inputs = Inputs::default().text(text);
            let folder = cache.stage("os", inputs, |_| {
                made = true;
                Ok(())
            });
            (folder.unwrap(), made)
        };
        let (first, made) = build("one");
        assert!(made);
        assert!(!build("one").1);
        let (second, made) = build("two");
        assert!(made && first != second && !first.exists());
        assert_eq!(fs::read_link(cache.root.join("current/os")).unwrap(), second);
    }

    #[test]
    fn stage_on_one_that_was_built_again_is_built_again() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(root.path()).unwrap();
        let disk = || cache.stage("disk", Inputs::default().text("layout"), |_| Ok(())).unwrap();
        let warm = |disk: &Path| Inputs::default().stage(disk).key();
        let first = disk();
        let on_first = warm(&first);
        assert_eq!(warm(&disk()), on_first);
        fs::remove_dir(&first).unwrap();
        let second = disk();
        let later = fs::metadata(&second).unwrap().modified().unwrap() + Duration::from_secs(1);
        fs::File::open(&second).unwrap().set_modified(later).unwrap();
        assert_eq!(second, first);
        assert_ne!(warm(&second), on_first);
    }

    #[test]
    fn failed_recipe_reports_its_output() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        let error = run_recipe("echo to $OUT >&2; false", &out, &[]).unwrap_err();
        assert!(error.to_string().contains(&format!("to {}", out.display())), "{error}");
    }
}

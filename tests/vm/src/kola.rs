//! kola itself on the guest that has what it asks for, with the tests of `tests/kola`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context as _, Result, ensure};

use crate::accel::Accelerator;
use crate::build::{self, Sources};
use crate::lab::Lab;
use crate::program;

/// Version of the Butane configs, and the newest one whose translation the guest's Ignition reads.
const BUTANE: [&str; 2] = ["version: 1.5.0", "version: 1.4.0"];
/// Programs that kola runs by their names.
const PROGRAMS: [&str; 2] = ["qemu-system-x86_64", "qemu-img"];

/// Run tests of kola: those whose names match the pattern, such as `ext.flameholder.*`. kola prints to this terminal, and
/// leaves its results in `kola` of the build's directory.
///
/// # Errors
/// The guest cannot be built, or kola cannot be started.
pub fn run(sources: &Sources, kola: &Path, pattern: &str) -> Result<ExitStatus> {
    let (lab, disk) = build::kola_disk(sources)?;
    let scratch = tempfile::Builder::new().prefix("kola-").tempdir_in(lab.folder("run")?)?;
    let programs = scratch.path().join("bin");
    write_programs(&lab, &programs)?;
    // The name of the folder is the prefix of the tests.
    let tests = scratch.path().join("flameholder");
    copy_tests(&sources.repository, &tests)?;
    let mut path = programs.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut run = Command::new(kola);
    run.args(["run", "--platform", "qemu", "--workdir", "none", "--distro", "rhcos", "--qemu-swtpm=false"]);
    run.arg("--qemu-image").arg(disk.join("disk.qcow2")).arg("--exttest").arg(&tests);
    run.arg("--output-dir").arg(Lab::directory().join("kola")).arg(pattern).env("PATH", path);
    if Accelerator::of(&lab)?.name() == "tcg" {
        run.env("COSA_NO_KVM", "1");
    }
    run.current_dir(scratch.path()).status().with_context(|| format!("starting {}", kola.display()))
}

/// Write programs of the builder tree where a search by name finds them.
fn write_programs(lab: &Lab, folder: &Path) -> Result<()> {
    fs::create_dir(folder).with_context(|| format!("making {}", folder.display()))?;
    let tree = lab.stage("builder")?.join("tree");
    for name in PROGRAMS {
        let command = program::of_tree(&tree, &format!("usr/bin/{name}"));
        let share = tree.join("usr/share").display().to_string();
        let data =
            if name == PROGRAMS[0] { format!(" -L {share}/qemu -L {share}/seabios") } else { String::new() };
        let file = folder.join(name);
        fs::write(&file, format!("#!/bin/sh\nexec {}{data} \"$@\"\n", program::shown(&command)))
            .with_context(|| format!("writing {}", file.display()))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Copy `tests/kola`, with configs that the guest's Ignition reads.
fn copy_tests(repository: &Path, to: &Path) -> Result<()> {
    let copied = to.join("tests/kola");
    fs::create_dir_all(to.join("tests"))?;
    let mut copy = Command::new("cp");
    program::read(
        copy.args(["--recursive", "--dereference"]).arg(repository.join("tests/kola")).arg(&copied),
    )?;
    let mut folders: Vec<PathBuf> = vec![copied];
    let mut configs = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with("config.bu") {
                let [new, old] = BUTANE;
                fs::write(&path, fs::read_to_string(&path)?.replace(new, old))?;
                configs += 1;
            }
        }
    }
    ensure!(configs > 0, "tests/kola has no Butane config");
    Ok(())
}

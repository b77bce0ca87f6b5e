//! The folder in which the commands of a page run.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use book::BookPage;
use testbed::osimage::{Os, Scratch, SysrootBuilder, write_image};
use testbed::{executables, fixture, repository};

/// Program that runs one command of a page.
const RUN: &str = include_str!("run");

/// Folder with a tree, a sysroot, an image, the demo's config and the alert rules. All of it is removed when this is
/// dropped.
pub(crate) struct CommandFolder {
    scratch: Scratch,
    template: PathBuf,
}

impl CommandFolder {
    pub(crate) fn create() -> Self {
        let scratch = Scratch::new().unwrap();
        let template = scratch.path().join("template");
        make_tree(&template.join("host"));
        SysrootBuilder::new(Os::new(1)).create(&template.join("sysroot")).unwrap();
        write_image(&Os::new(2), &template.join("os-2"), None).unwrap();
        fs::copy(fixture("demo/worker.yaml"), template.join("worker.yaml")).unwrap();
        for (from, name) in [("01-base.json", "rendered-1.json"), ("03-kernel-args.json", "rendered-2.json")]
        {
            fs::copy(fixture("rendered").join(from), template.join(name)).unwrap();
        }
        fs::copy(repository().join("deploy/monitoring/rules.yaml"), template.join("rules.yaml")).unwrap();
        let bin = scratch.path().join("bin");
        fs::create_dir(&bin).unwrap();
        symlink(executables::flameholder(), bin.join("flameholder")).unwrap();
        let run = bin.join("run");
        fs::write(&run, RUN).unwrap();
        fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
        Self { scratch, template }
    }

    /// Folder that this value owns.
    pub(crate) fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// Folder of the programs that commands find.
    pub(crate) fn bin(&self) -> PathBuf {
        self.path().join("bin")
    }

    /// Copy the folder's content for the commands of one page, with the files of the page.
    pub(crate) fn copy_for(&self, page: &BookPage, name: &str) {
        let copy = self.path().join(format!("{name}.in"));
        let copied =
            std::process::Command::new("cp").arg("--archive").arg(&self.template).arg(&copy).status();
        assert!(copied.unwrap().success(), "the folder of {name} cannot be copied");
        for block in page.blocks() {
            if let Some(file) = block.file() {
                fs::write(copy.join(file), block.lines.join("\n") + "\n").unwrap();
            }
        }
    }
}

/// A tree as a small host has it: users, and a file that an administrator changed.
fn make_tree(root: &Path) {
    let etc = root.join("etc");
    fs::create_dir_all(&etc).unwrap();
    for (name, text) in [
        ("passwd", "root:x:0:0::/root:/bin/sh\ncore:x:1000:1000::/var/home/core:/bin/bash\n"),
        ("group", "root:x:0:\ncore:x:1000:\n"),
        ("chrony.conf", "pool pool.example.net\n"),
    ] {
        fs::write(etc.join(name), text).unwrap();
    }
    fs::create_dir_all(root.join("var/home/core")).unwrap();
}

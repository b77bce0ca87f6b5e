//! Offline sysroot, commands on it, and its visible state.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use osimage::{Os, Scratch, SysrootBuilder};
use serde_json::{Value, json};

use crate::boot::{self, Entry};
use crate::executables;
use crate::model::document::{file, with_files};
use crate::model::run::Outcome;
use crate::model::snapshot::{self, Body, Snapshot};

/// Lock of libostree, relative to the sysroot. Readers open it for writing too.
pub const OSTREE_LOCK: &str = "ostree/lock";

/// Sysroot with version 1 of the OS, and a folder for configs and images beside it.
pub struct Host {
    scratch: Scratch,
}

impl Host {
    pub fn new() -> Self {
        Self::of(&SysrootBuilder::new(Os::new(1)))
    }

    pub fn of(builder: &SysrootBuilder) -> Self {
        crate::preconditions::require_root();
        let host = Self { scratch: Scratch::new().unwrap() };
        builder.create(&host.sysroot()).unwrap();
        host
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub fn sysroot(&self) -> PathBuf {
        self.path("sysroot")
    }

    /// Add an image to the host's OCI layout, tagged with its version.
    pub fn image(&self, os: &Os) -> String {
        let (layout, tag) = (self.path("images"), os.version());
        osimage::write_image(os, &layout, Some(&tag)).unwrap();
        format!("ostree-unverified-image:oci:{}:{tag}", layout.display())
    }

    /// Write a config to a file with its name.
    pub fn config(&self, config: &Value) -> PathBuf {
        let file = self.path(config["metadata"]["name"].as_str().unwrap());
        fs::write(&file, config.to_string()).unwrap();
        file
    }

    /// `flameholder VERB --sysroot SYSROOT`, to be completed.
    pub fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(executables::flameholder());
        command.arg(verb).arg("--sysroot").arg(self.sysroot());
        command
    }

    /// `flameholder apply` with this config and image, to be completed.
    pub fn apply_command(&self, desired: &Path, image: Option<&str>) -> Command {
        let mut command = self.command("apply");
        command.arg("--desired").arg(desired);
        command.args(image.iter().flat_map(|image| ["--os-image", image]));
        command
    }

    pub fn apply(&self, desired: &Path, image: Option<&str>) -> Outcome {
        run(self.apply_command(desired, image))
    }

    /// Apply a config that must succeed, and return the new default boot entry.
    pub fn update(&self, desired: &Path, image: Option<&str>) -> Entry {
        let outcome = self.apply(desired, image);
        assert_eq!(outcome.code, Some(0), "apply {}: {outcome:?}", desired.display());
        self.default()
    }

    pub fn verify(&self) -> Outcome {
        run(self.command("verify"))
    }

    pub fn rollback(&self) -> Outcome {
        run(self.command("rollback"))
    }

    pub fn status(&self) -> Value {
        let mut command = self.command("status");
        command.args(["-o", "json"]);
        let outcome = run(command);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        serde_json::from_str(&outcome.stdout).unwrap()
    }

    pub fn entries(&self) -> Vec<Entry> {
        boot::entries(&self.sysroot())
    }

    /// Default boot entry.
    pub fn default(&self) -> Entry {
        self.entries().remove(0)
    }

    /// Snapshot of the sysroot without libostree's lock, which changes the times of its directory.
    pub fn snapshot(&self) -> Snapshot {
        let mut seen = snapshot::take(&self.sysroot());
        seen.remove(OSTREE_LOCK);
        seen.get_mut("ostree").unwrap().1 = snapshot::Stamp::default();
        seen
    }

    /// Snapshot of a deployment and of its stateroot's `/var`.
    ///
    /// Files outside its `/etc` are hard links to the repository's objects, and the kernel changes the date
    /// of an object when another deployment links it: that date is left out.
    pub fn deployment_snapshot(&self, deployment: &Entry) -> Snapshot {
        let mut seen = snapshot::take(&deployment.root);
        for (path, (node, (_, _, changed))) in &mut seen {
            if node.body != Body::Directory && !path.starts_with("etc/") {
                *changed = (0, 0);
            }
        }
        let var = snapshot::take(&self.var()).into_iter().map(|(path, seen)| (format!("var/{path}"), seen));
        // Objects of generations outside `/etc` are stored here.
        seen.extend(var.filter(|(path, _)| !path.starts_with("var/lib/flameholder")));
        if let Some((_, stamp)) = seen.get_mut("var/lib") {
            *stamp = snapshot::Stamp::default();
        }
        seen
    }

    /// `/var` of the stateroot, which all deployments share.
    pub fn var(&self) -> PathBuf {
        self.sysroot().join("ostree/deploy/fedora-coreos/var")
    }

    /// Snapshot of the boot partition, which determines the next boot.
    pub fn boot_snapshot(&self) -> Snapshot {
        snapshot::take(&self.sysroot().join("boot"))
    }

    /// Run the real `ostree` in this sysroot's repository or, for `admin`, on the sysroot.
    pub fn ostree<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> String {
        let mut command = Command::new("ostree");
        // Each variable is ignored by the commands that do not use it.
        command.env("OSTREE_REPO", self.sysroot().join("ostree/repo"));
        command.env("OSTREE_SYSROOT", self.sysroot()).args(arguments);
        let outcome = run(command);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.stdout
    }
}

/// Small config with these files, mode 0644, and these kernel arguments.
pub fn small_config(name: &str, files: &[(&str, &str)], kernel_arguments: &[&str]) -> Value {
    let files: Vec<Value> = files.iter().map(|(path, text)| file(path, text)).collect();
    let mut config = with_files(name, &files);
    config["spec"]["kernelArguments"] = json!(kernel_arguments);
    config
}

/// Run a command to its end.
pub fn run(command: Command) -> Outcome {
    let output = assert_cmd::Command::from_std(command).output().expect("a program that starts");
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Install an executable. Another process writes it: if a parallel test forked while this process has it open
/// for writing, executing it would fail with "text file busy".
pub fn install(from: &Path, to: &Path) {
    assert!(Command::new("install").args([from, to]).status().unwrap().success());
}

/// Record of the deployment's generation.
pub fn record(entry: &Entry) -> Value {
    serde_json::from_slice(&fs::read(entry.at("etc/flameholder/generation")).unwrap()).unwrap()
}

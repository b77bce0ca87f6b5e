//! A host at rest, what is done to it, and what is seen of it.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use osimage::{Os, Scratch, SysrootBuilder};
use serde_json::{Value, json};

use crate::{
    boot::{self, Entry},
    executables,
    model::{
        document::{file, with_files},
        run::Outcome,
        snapshot::{self, Body, Snapshot},
    },
};

/// What libostree locks, relative to the sysroot. It is opened for writing by whoever looks.
pub const OSTREE_LOCK: &str = "ostree/lock";

/// A sysroot with version 1 of the OS, and a place for configs and images beside it.
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

    /// Puts an image into the host's OCI layout, tagged with its version.
    pub fn image(&self, os: &Os) -> String {
        let (layout, tag) = (self.path("images"), os.version());
        osimage::write_image(os, &layout, Some(&tag)).unwrap();
        format!("ostree-unverified-image:oci:{}:{tag}", layout.display())
    }

    /// Writes a config to a file of its name.
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
    pub fn applying(&self, desired: &Path, image: Option<&str>) -> Command {
        let mut command = self.command("apply");
        command.arg("--desired").arg(desired);
        command.args(image.iter().flat_map(|image| ["--os-image", image]));
        command
    }

    pub fn apply(&self, desired: &Path, image: Option<&str>) -> Outcome {
        run(self.applying(desired, image))
    }

    /// Applies, expects that it succeeds, and returns what boots next.
    pub fn update(&self, desired: &Path, image: Option<&str>) -> Entry {
        let outcome = self.apply(desired, image);
        assert_eq!(outcome.code, Some(0), "{} is applied: {outcome:?}", desired.display());
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

    /// What boots next.
    pub fn default(&self) -> Entry {
        self.entries().remove(0)
    }

    /// Everything in the sysroot but libostree's lock, which comes and goes in its directory.
    pub fn sight(&self) -> Snapshot {
        let mut seen = snapshot::take(&self.sysroot());
        seen.remove(OSTREE_LOCK);
        seen.get_mut("ostree").unwrap().1 = snapshot::Stamp::default();
        seen
    }

    /// Everything in a deployment, and what its stateroot shares between deployments.
    ///
    /// Files outside its `/etc` are further names of the repository's objects, and the kernel dates an
    /// object's change when another deployment names it: that date is left out.
    pub fn deployment_sight(&self, deployment: &Entry) -> Snapshot {
        let mut seen = snapshot::take(&deployment.root);
        for (path, (node, (_, _, changed))) in &mut seen {
            if node.body != Body::Directory && !path.starts_with("etc/") {
                *changed = (0, 0);
            }
        }
        let var = snapshot::take(&self.var()).into_iter().map(|(path, seen)| (format!("var/{path}"), seen));
        // What generations have outside their `/etc` is stored there.
        seen.extend(var.filter(|(path, _)| !path.starts_with("var/lib/flameholder")));
        if let Some((_, stamp)) = seen.get_mut("var/lib") {
            *stamp = snapshot::Stamp::default();
        }
        seen
    }

    /// What all deployments share.
    pub fn var(&self) -> PathBuf {
        self.sysroot().join("ostree/deploy/fedora-coreos/var")
    }

    /// What is in the boot partition: what decides what boots.
    pub fn boot_sight(&self) -> Snapshot {
        snapshot::take(&self.sysroot().join("boot"))
    }

    /// Runs the real `ostree` in this sysroot's repository or, for `admin`, on the sysroot.
    pub fn ostree<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> String {
        let mut command = Command::new("ostree");
        // Both are ignored where they do not apply.
        command.env("OSTREE_REPO", self.sysroot().join("ostree/repo"));
        command.env("OSTREE_SYSROOT", self.sysroot()).args(arguments);
        let outcome = run(command);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.stdout
    }
}

/// A small config: these files, 0644, and these kernel arguments.
pub fn small(name: &str, files: &[(&str, &str)], kernel_arguments: &[&str]) -> Value {
    let files: Vec<Value> = files.iter().map(|(path, text)| file(path, text)).collect();
    let mut config = with_files(name, &files);
    config["spec"]["kernelArguments"] = json!(kernel_arguments);
    config
}

/// Runs a command to its end.
pub fn run(command: Command) -> Outcome {
    let output = assert_cmd::Command::from_std(command).output().expect("a program that starts");
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Installs an executable. Another process writes it: a child that a parallel test forks while this one has
/// it open for writing would make it "text file busy".
pub fn install(from: &Path, to: &Path) {
    assert!(Command::new("install").args([from, to]).status().unwrap().success());
}

/// The record of the deployment's generation.
pub fn record(entry: &Entry) -> Value {
    serde_json::from_slice(&fs::read(entry.at("etc/flameholder/generation")).unwrap()).unwrap()
}

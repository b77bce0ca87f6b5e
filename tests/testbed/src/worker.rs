//! Offline sysroot for tests of the worker, and its visible state.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use flameholder::core::values::image::ImageRef;
use flameholder::os::protocol::SysrootAccess;
use flameholder::os::worker::{WorkerProgram, WorkerSession};
use flameholder::os::{DeployRequest, Deployment, DeploymentId, DeploymentOrigin, OsError, Sysroot as _};
use osimage::{Os, Scratch, SysrootBuilder};

use crate::executables;

/// Sysroot with version 1 of the OS deployed.
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

    pub fn read(&self) -> WorkerSession {
        WorkerSession::open(&program(), &self.sysroot(), SysrootAccess::Read).unwrap()
    }

    pub fn write(&self) -> WorkerSession {
        self.write_with(&program()).unwrap()
    }

    pub fn write_with(&self, program: &WorkerProgram) -> Result<WorkerSession, OsError> {
        WorkerSession::open(program, &self.sysroot(), SysrootAccess::Write)
    }

    pub fn deployments(&self) -> Vec<Deployment> {
        self.read().deployments().unwrap()
    }

    /// Default deployment.
    pub fn default(&self) -> Deployment {
        self.deployments().remove(0)
    }

    /// Write an image to an OCI layout of that name beside the sysroot.
    pub fn image(&self, os: &Os, name: &str) -> ImageRef {
        osimage::write_image(os, &self.path(name), None).unwrap();
        self.layout(name)
    }

    pub fn layout(&self, name: &str) -> ImageRef {
        let layout = self.path(name);
        format!("ostree-unverified-image:oci:{}", layout.display()).parse().unwrap()
    }

    /// Request to deploy this commit with the configuration and the kernel arguments of the default
    /// deployment.
    pub fn request(&self, commit: &str, origin: DeploymentOrigin) -> DeployRequest {
        let default = self.default();
        DeployRequest {
            stateroot: default.id.stateroot.clone(),
            commit: commit.to_owned(),
            origin,
            merge: default.id,
            kernel_arguments: default.kernel_arguments,
            layering: None,
            replaces: None,
        }
    }

    /// Import and deploy this version, and make it the default.
    pub fn update(&self, os: &Os) -> Deployment {
        let image = self.image(os, &os.version());
        let mut session = self.write();
        let imported = session.import(&image.clone().into(), &mut |_| ()).unwrap();
        let request = self.request(&imported.commit, DeploymentOrigin::Image(image));
        let deployment = session.deploy(&request).unwrap();
        session.finish().unwrap();
        deployment
    }

    /// Boot entries by file name.
    pub fn boot_entries(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.sysroot().join("boot/loader/entries")).unwrap();
        entries
            .map(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read_to_string(entry.path()).unwrap())
            })
            .collect()
    }

    pub fn root_of(&self, deployment: &DeploymentId) -> PathBuf {
        self.sysroot().join(deployment.path())
    }
}

pub fn program() -> WorkerProgram {
    WorkerProgram::at(executables::worker())
}

/// Program that runs `script` and then becomes the worker, in its own mount namespace: mounts of the script
/// end with it.
pub fn worker_after(host: &Host, script: &str) -> WorkerProgram {
    crate::preconditions::require_mount_namespaces();
    let worker = executables::worker();
    let worker = worker.display();
    let source = host.path("script");
    let text = format!(
        "#!/bin/sh\nset -e\nif [ \"$1\" != inside ]; then exec unshare --mount \"$0\" inside; fi\n{script}\nexec {worker}\n"
    );
    fs::write(&source, text).unwrap();
    let program = host.path("wrapped-worker");
    // Another process writes the executable: if a parallel test forked while this process has it open for
    // writing, executing it would fail with "text file busy".
    let installed = Command::new("install").arg(&source).arg(&program).status();
    assert!(installed.unwrap().success());
    WorkerProgram::at(program)
}

/// Path, mode, owner, and contents or target of everything in a tree.
pub fn snapshot(root: &Path) -> BTreeMap<PathBuf, (u32, u32, Vec<u8>)> {
    let mut seen = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let contents = if metadata.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else if metadata.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else {
            fs::read(&path).unwrap()
        };
        seen.insert(path, (metadata.permissions().mode(), metadata.uid(), contents));
    }
    seen
}

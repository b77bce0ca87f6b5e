//! Plan of trust material: steps from the disk as it is to the files that the cluster wants, and the kubelet's need
//! for a restart.

use std::collections::{BTreeMap, BTreeSet};

use super::certificate::CaCertificate;
use super::kubeconfig;
use super::material::{TrustFile, TrustMaterial};
use crate::core::plan::steps::PlanStep;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{KUBECONFIG, KUBELET_KUBECONFIG, REGISTRY_CAS};
use crate::core::values::tree::{FileAttributes, FileKind};

/// Signers whose certificates change during an update of the cluster and which the kubelet does not use by itself:
/// their rotation alone restarts no kubelet at once (MCD's list).
const DEFERRED_SIGNERS: [&str; 3] = [
    "kube-apiserver-localhost-signer",
    "openshift-kube-apiserver-operator_localhost-recovery-serving-signer",
    "kube-apiserver-lb-signer",
];
/// Mode bits of a file that only root may read and write.
const SECRET: u32 = 0o600;
const FILE: FileAttributes = FileAttributes { mode: 0o644, uid: 0, gid: 0 };
const DIRECTORY: FileAttributes = FileAttributes { mode: 0o755, uid: 0, gid: 0 };

/// Existing path.
#[derive(Clone)]
pub struct FoundPath {
    pub kind: FileKind,
    pub attributes: FileAttributes,
    /// Contents of a regular file that is part of the trust material.
    pub contents: Option<Vec<u8>>,
}

impl std::fmt::Debug for FoundPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FoundPath").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Facts about the disk.
#[derive(Debug, Clone, Default)]
pub struct TrustFacts {
    /// Existing paths: those of the material with their parents, and everything below [`REGISTRY_CAS`].
    pub found: BTreeMap<ManagedPath, FoundPath>,
    /// Paths whose contents the current config decides.
    pub managed: BTreeSet<ManagedPath>,
}

/// Restart that the kubelet needs to read a new CA of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KubeletRestart {
    Unneeded,
    /// With the change.
    Now,
    /// At the next certificate error, or later: until then the kubelet's connections hold.
    Deferred,
}

/// Steps that bring trust material to the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustPlan {
    pub steps: Vec<PlanStep>,
    /// Parts that are left out, each with the reason.
    pub left_out: Vec<String>,
}

/// Plan the files with fixed paths, whose changes programs notice by themselves. Fails with all obstacles on the disk.
pub fn plan_files(material: &TrustMaterial, facts: &TrustFacts) -> Result<TrustPlan, Vec<String>> {
    let mut planning = Planning::of(facts);
    planning.left_out.clone_from(&material.left_out);
    for (path, file) in &material.files {
        planning.file(path, file);
    }
    planning.finish()
}

/// Plan the certificates of image registries. Fails with all obstacles on the disk.
pub fn plan_registries(material: &TrustMaterial, facts: &TrustFacts) -> Result<TrustPlan, Vec<String>> {
    let mut planning = Planning::of(facts);
    planning.registries(material);
    planning.finish()
}

/// Plan the new CA of the API server in the kubeconfig for joining nodes and in the kubelet's own. Fails with all
/// obstacles on the disk.
pub fn plan_rotation(
    authority: &[CaCertificate],
    facts: &TrustFacts,
) -> Result<(TrustPlan, KubeletRestart), Vec<String>> {
    let mut planning = Planning::of(facts);
    if authority.is_empty() {
        return Ok((TrustPlan::default(), KubeletRestart::Unneeded));
    }
    planning.kubeconfig(KUBECONFIG, authority);
    let added = planning.kubeconfig(KUBELET_KUBECONFIG, authority);
    let is_deferred = |certificate: &CaCertificate| {
        DEFERRED_SIGNERS.iter().any(|signer| certificate.common_name.contains(signer))
    };
    let restart = match added.as_slice() {
        [] => KubeletRestart::Unneeded,
        added if added.iter().all(is_deferred) => KubeletRestart::Deferred,
        _ => KubeletRestart::Now,
    };
    Ok((planning.finish()?, restart))
}

struct Planning<'a> {
    facts: &'a TrustFacts,
    directories: Vec<PlanStep>,
    made: BTreeSet<ManagedPath>,
    writes: Vec<PlanStep>,
    removals: Vec<PlanStep>,
    obstacles: Vec<String>,
    left_out: Vec<String>,
}

impl<'a> Planning<'a> {
    fn of(facts: &'a TrustFacts) -> Self {
        Self {
            facts,
            directories: Vec::new(),
            made: BTreeSet::new(),
            writes: Vec::new(),
            removals: Vec::new(),
            obstacles: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Order the steps. Removals come last: a registry that changes its name keeps its certificates at each moment.
    fn finish(self) -> Result<TrustPlan, Vec<String>> {
        if !self.obstacles.is_empty() {
            return Err(self.obstacles);
        }
        let steps = [self.directories, self.writes, self.removals].concat();
        Ok(TrustPlan { steps, left_out: self.left_out })
    }

    fn file(&mut self, path: &ManagedPath, file: &TrustFile) {
        if self.facts.managed.contains(path) {
            self.left_out.push(format!("{path}: the current config lists it, and has precedence"));
            return;
        }
        let found = self.facts.found.get(path);
        let attributes = match found.map(|found| (found.kind, found.attributes)) {
            Some((FileKind::Directory | FileKind::Other, _)) => {
                self.obstacles.push(format!("{path} is no file; move it away"));
                return;
            }
            Some((FileKind::File, attributes)) => attributes,
            Some((FileKind::Symlink, _)) => FILE,
            None => {
                self.make_parents(path);
                FILE
            }
        };
        let mode = if file.is_secret { attributes.mode & SECRET } else { attributes.mode };
        let wanted = FileAttributes { mode, ..attributes };
        let is_same = found.is_some_and(|found| found.contents.as_deref() == Some(&file.contents));
        let path = path.clone();
        if !is_same {
            let contents = file.contents.clone();
            self.writes.push(PlanStep::Write { path, contents, attributes: wanted });
        } else if wanted != attributes {
            self.writes.push(PlanStep::SetAttributes { path, attributes: wanted });
        }
    }

    fn make_parents(&mut self, path: &ManagedPath) {
        for above in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            if !self.facts.found.contains_key(&above) && self.made.insert(above.clone()) {
                self.directories.push(PlanStep::MakeDirectory { path: above, attributes: DIRECTORY });
            }
        }
    }

    /// Write the certificates of each listed registry and remove the directories of all others. A host without the
    /// directory for them has no container runtime that reads it.
    fn registries(&mut self, material: &TrustMaterial) {
        let top = ManagedPath::constant(REGISTRY_CAS);
        if !self.facts.found.contains_key(&top) {
            return;
        }
        for (directory, contents) in &material.registries {
            let found = self.facts.found.get(directory).map(|found| found.kind);
            if found.is_some_and(|kind| kind != FileKind::Directory) {
                self.obstacles.push(format!("{directory} is no directory; move it away"));
                continue;
            }
            let file = TrustFile { contents: contents.clone(), is_secret: false };
            self.file(&TrustMaterial::registry_file(directory), &file);
        }
        let directories = self.facts.found.iter().filter(|(path, found)| {
            found.kind == FileKind::Directory && path.parent().as_ref() == Some(&top)
        });
        for (directory, _) in directories {
            if !material.registries.contains_key(directory) {
                self.remove_directory(directory);
            }
        }
    }

    fn remove_directory(&mut self, directory: &ManagedPath) {
        let is_within = |path: &ManagedPath| path.is_within(directory.as_str());
        if self.facts.managed.iter().any(is_within) {
            return;
        }
        let contents: Vec<_> = self.facts.found.iter().filter(|(path, _)| is_within(path)).collect();
        if contents.iter().any(|(_, found)| found.kind == FileKind::Other) {
            self.left_out.push(format!("{directory}: has a socket, pipe or device, and stays; remove it"));
            return;
        }
        let (directories, files): (Vec<_>, Vec<_>) =
            contents.into_iter().partition(|(_, found)| found.kind == FileKind::Directory);
        let files = files.into_iter().map(|(path, _)| PlanStep::Remove { path: path.clone() });
        self.removals.extend(files);
        // The deepest first.
        let directories = directories.into_iter().rev();
        self.removals.extend(directories.map(|(path, _)| PlanStep::RemoveDirectory { path: path.clone() }));
    }

    /// Bring the CA into one kubeconfig; returns the certificates that it did not have.
    fn kubeconfig(&mut self, path: &str, authority: &[CaCertificate]) -> Vec<CaCertificate> {
        let path = ManagedPath::constant(path);
        let Some(found) = self.facts.found.get(&path) else {
            self.left_out.push(format!("{path} is missing, and gets no new CA"));
            return Vec::new();
        };
        let Some(contents) = &found.contents else {
            self.obstacles.push(format!("{path} is no file; move it away"));
            return Vec::new();
        };
        match kubeconfig::rotated(contents, authority) {
            Ok(None) => Vec::new(),
            Ok(Some(_)) if self.facts.managed.contains(&path) => {
                self.obstacles.push(format!(
                    "{path} lacks the new CA, and the current config lists it; list it with the CA, or no longer"
                ));
                Vec::new()
            }
            Ok(Some(rotated)) => {
                self.file(&path, &TrustFile { contents: rotated.contents, is_secret: true });
                rotated.added
            }
            Err(fault) => {
                self.obstacles.push(format!("{path} {fault}; restore it"));
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests;

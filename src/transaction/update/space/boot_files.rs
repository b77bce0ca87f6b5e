//! Kernels on `/boot`: the files that libostree copies there for a new deployment, and those that it removes
//! first (`install_deployment_kernel` and `auto_early_prune_old_deployments` in `ostree-sysroot-deploy.c`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use crate::core::values::deployment::DeploymentId;

/// Directory of the kernels in a deployment.
const MODULES: &str = "usr/lib/modules";
/// File that makes a directory in [`MODULES`] that of a kernel.
const KERNEL: &str = "vmlinuz";
/// Files of which libostree copies the first that exists.
const COPIED: [&[&str]; 5] = [
    &[KERNEL],
    &["initramfs.img", "initramfs"],
    // The second one is a directory.
    &["devicetree", "dtb"],
    &[".vmlinuz.hmac"],
    &["aboot.img"],
];
/// Directories of links to the deployments that have boot entries.
const BOOT_LINKS: [&str; 2] = ["ostree/boot.0", "ostree/boot.1"];
/// Directory on `/boot` of initrds that are loaded after the initramfs.
const OVERLAYS: &str = "initramfs-overlays";

/// `/boot` and the sysroot whose kernels it holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct BootPartition<'a> {
    pub(super) boot: &'a Path,
    pub(super) sysroot: &'a Path,
    /// Directory of the initrds of the staged deployment, which are no part of its tree.
    pub(super) staged_initrds: &'a Path,
}

/// Boot entry's link to a deployment.
struct BootLink {
    stateroot: String,
    /// Name of the directory on `/boot`: stateroot and digest of kernel and initramfs.
    boot_directory: String,
    deployment: PathBuf,
}

impl BootPartition<'_> {
    /// Return the bytes that finalization of the deployment copies to `/boot`. A kernel that another
    /// deployment of the stateroot has there is not copied again.
    pub(super) fn copied_bytes(&self, new: &DeploymentId) -> std::io::Result<u64> {
        let is_there = self.shared_directory(new)?.is_some();
        let kernel = if is_there { 0 } else { self.kernel_bytes(new)? };
        Ok(kernel + self.overlay_bytes()?)
    }

    /// Return the bytes that the kernel of a deployment takes on `/boot`.
    pub(super) fn kernel_bytes(&self, deployment: &DeploymentId) -> std::io::Result<u64> {
        let files = self.kernel_of(&self.sysroot.join(deployment.path()))?;
        Ok(files.values().map(|(_, bytes)| bytes).sum())
    }

    /// Return the bytes on `/boot` that no deployment of `kept` and not the new one uses. libostree removes
    /// them before it copies, if it has to; never where `/boot` is no file system of its own.
    pub(super) fn prunable_bytes(&self, new: &DeploymentId, kept: &[DeploymentId]) -> std::io::Result<u64> {
        if self.boot.metadata()?.dev() == self.sysroot.join("ostree/repo").metadata()?.dev() {
            return Ok(0);
        }
        self.unused_bytes(new, kept)
    }

    fn unused_bytes(&self, new: &DeploymentId, kept: &[DeploymentId]) -> std::io::Result<u64> {
        let is_kept = |link: &BootLink| kept.iter().any(|id| link.deployment == self.sysroot.join(id.path()));
        let links = self.links()?.into_iter().filter(is_kept).map(|link| link.boot_directory);
        let used: BTreeSet<String> = links.chain(self.shared_directory(new)?).collect();
        let mut bytes = 0;
        for entry in self.boot.join("ostree").read_dir()? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() && name != OVERLAYS && !used.contains(&name) {
                bytes += self.tree(&entry.path())?.values().map(|(_, bytes)| bytes).sum::<u64>();
            }
        }
        Ok(bytes)
    }

    /// Find the directory on `/boot` with the kernel of the new deployment. Deployments share equal files as
    /// hard links, so equal inodes mean equal content.
    fn shared_directory(&self, new: &DeploymentId) -> std::io::Result<Option<String>> {
        let kernel = self.kernel_of(&self.sysroot.join(new.path()))?;
        let has_it = |link: &BootLink| {
            link.stateroot == new.stateroot
                && self.boot.join("ostree").join(&link.boot_directory).is_dir()
                && self.kernel_of(&link.deployment).is_ok_and(|found| found == kernel)
        };
        Ok(self.links()?.into_iter().find(has_it).map(|link| link.boot_directory))
    }

    /// List the deployments with boot entries: `ostree/boot.1/STATEROOT/DIGEST/SERIAL` are links to them.
    fn links(&self) -> std::io::Result<Vec<BootLink>> {
        let mut links = Vec::new();
        for directory in BOOT_LINKS.map(|directory| self.sysroot.join(directory)) {
            for stateroot in entries(&directory)? {
                let name = file_name(&stateroot);
                for digest in entries(&stateroot)? {
                    let boot_directory = format!("{name}-{}", file_name(&digest));
                    for link in entries(&digest)? {
                        let target = link.read_link()?;
                        let deployments = self.sysroot.join("ostree/deploy").join(&name).join("deploy");
                        links.push(BootLink {
                            stateroot: name.clone(),
                            boot_directory: boot_directory.clone(),
                            deployment: deployments.join(file_name(&target)),
                        });
                    }
                }
            }
        }
        Ok(links)
    }

    /// Return inode and size on `/boot` of the kernel files of a deployment, by path below [`MODULES`].
    fn kernel_of(&self, deployment: &Path) -> std::io::Result<BTreeMap<PathBuf, (u64, u64)>> {
        let modules = deployment.join(MODULES);
        let mut files = BTreeMap::new();
        for version in modules.read_dir()? {
            let version = version?.path();
            if !version.join(KERNEL).is_file() {
                continue;
            }
            for names in COPIED {
                let found = names.iter().map(|name| version.join(name)).find(|path| path.exists());
                let Some(path) = found else { continue };
                for (below, file) in self.tree(&path)? {
                    files.insert(below.strip_prefix(&modules).unwrap_or(&below).to_owned(), file);
                }
            }
        }
        Ok(files)
    }

    /// Return the bytes of the staged initrds that `/boot` does not have.
    fn overlay_bytes(&self) -> std::io::Result<u64> {
        let mut bytes = 0;
        for initrd in entries(self.staged_initrds)? {
            let on_boot = self.boot.join("ostree").join(OVERLAYS).join(format!("{}.img", file_name(&initrd)));
            if !on_boot.exists() {
                bytes += self.blocks(&initrd.metadata()?);
            }
        }
        Ok(bytes)
    }

    /// Return inode and size of a file, or of all files and directories below a directory, by path.
    fn tree(&self, path: &Path) -> std::io::Result<BTreeMap<PathBuf, (u64, u64)>> {
        let found = path.symlink_metadata()?;
        let mut files = BTreeMap::new();
        if found.is_dir() {
            for entry in entries(path)? {
                files.extend(self.tree(&entry)?);
            }
        } else {
            files.insert(path.to_owned(), (found.ino(), self.blocks(&found)));
        }
        Ok(files)
    }

    /// Return the space that a file takes on `/boot`.
    fn blocks(&self, file: &Metadata) -> u64 {
        let block = statvfs(self.boot).map_or(1, |boot| boot.f_frsize.max(1));
        file.len().next_multiple_of(block)
    }
}

/// List the paths in a directory; none if it does not exist.
fn entries(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    match directory.read_dir() {
        Ok(found) => found.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::new(error.kind(), format!("listing {}: {error}", directory.display()))),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    const BLOCK: u64 = 4096;

    /// Sysroot with deployments of the stateroot `os` and their kernels on `/boot`.
    struct Disk(TempDir);

    impl Disk {
        fn new() -> Self {
            let disk = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(disk.at("sysroot/ostree/repo")).unwrap();
            fs::create_dir_all(disk.at("boot/ostree")).unwrap();
            disk
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn write(&self, path: &str, blocks: u64) {
            let path = self.at(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            // One byte into the last block: sizes are rounded up.
            let length = blocks.saturating_sub(1) * BLOCK + 1;
            fs::write(path, vec![b'x'; usize::try_from(length).unwrap()]).unwrap();
        }

        /// Create the deployment with these files of its kernel and their sizes in blocks.
        fn deployment(&self, commit: &str, files: &[(&str, u64)]) -> DeploymentId {
            let id = DeploymentId { stateroot: "os".into(), commit: commit.into(), serial: 0 };
            for (name, blocks) in files {
                self.write(&format!("sysroot/{}/{MODULES}/6.1/{name}", id.path()), *blocks);
            }
            id
        }

        /// Give the deployment a boot entry, with a kernel of so many blocks on `/boot`.
        fn boots(&self, id: &DeploymentId, digest: &str, blocks: u64) {
            let links = self.at(&format!("sysroot/ostree/boot.1/{}/{digest}", id.stateroot));
            fs::create_dir_all(&links).unwrap();
            let number = fs::read_dir(&links).unwrap().count().to_string();
            let target = format!("../../../deploy/{}/deploy/{}.{}", id.stateroot, id.commit, id.serial);
            symlink(target, links.join(number)).unwrap();
            self.write(&format!("boot/ostree/{}-{digest}/vmlinuz-6.1", id.stateroot), blocks);
        }

        /// Give a deployment the files of another one's kernel, like a checkout of the same objects.
        fn same_kernel(&self, commit: &str, of: &DeploymentId) -> DeploymentId {
            let id = DeploymentId { commit: commit.into(), ..of.clone() };
            let modules = |id: &DeploymentId| self.at(&format!("sysroot/{}/{MODULES}/6.1", id.path()));
            fs::create_dir_all(modules(&id)).unwrap();
            for entry in fs::read_dir(modules(of)).unwrap() {
                let entry = entry.unwrap();
                fs::hard_link(entry.path(), modules(&id).join(entry.file_name())).unwrap();
            }
            id
        }

        fn blocks(&self, count: impl Fn(&BootPartition<'_>) -> std::io::Result<u64>) -> u64 {
            let (boot, sysroot) = (self.at("boot"), self.at("sysroot"));
            let staged_initrds = self.at("run");
            let partition = BootPartition { boot: &boot, sysroot: &sysroot, staged_initrds: &staged_initrds };
            let bytes = count(&partition).unwrap();
            assert_eq!(bytes % BLOCK, 0);
            bytes / BLOCK
        }

        fn copied(&self, new: &DeploymentId) -> u64 {
            self.blocks(|partition| partition.copied_bytes(new))
        }
    }

    #[test]
    fn everything_that_libostree_copies_is_counted() {
        for (files, expected) in [
            (&[("vmlinuz", 3), ("initramfs.img", 5), ("modules.dep", 9)][..], 8),
            (&[("vmlinuz", 3), ("initramfs", 5)], 8),
            (&[("vmlinuz", 1), (".vmlinuz.hmac", 1)], 2),
            (&[("vmlinuz", 1), ("devicetree", 2), ("dtb/vendor/ignored.dtb", 9)], 3),
            (&[("vmlinuz", 1), ("dtb/a.dtb", 2), ("dtb/vendor/b.dtb", 3)], 6),
            (&[("vmlinuz", 1), ("aboot.img", 4)], 5),
            (&[("initramfs.img", 5)], 0),
        ] {
            let disk = Disk::new();
            let new = disk.deployment("new", files);
            assert_eq!(disk.copied(&new), expected, "{files:?}");
        }
    }

    #[test]
    fn staged_initrds_that_boot_lacks_are_counted() {
        let disk = Disk::new();
        let new = disk.deployment("new", &[("vmlinuz", 1)]);
        disk.write("run/aa", 2);
        disk.write("run/bb", 4);
        assert_eq!(disk.copied(&new), 7);
        disk.write("boot/ostree/initramfs-overlays/bb.img", 4);
        assert_eq!(disk.copied(&new), 3);
    }

    #[test]
    fn kernel_of_another_deployment_is_not_copied_again() {
        let disk = Disk::new();
        let booted = disk.deployment("booted", &[("vmlinuz", 3), ("initramfs.img", 5)]);
        disk.boots(&booted, "11", 8);
        let rollback = disk.deployment("rollback", &[("vmlinuz", 4), ("initramfs.img", 5)]);
        disk.boots(&rollback, "22", 9);
        assert_eq!(disk.copied(&disk.same_kernel("new", &rollback)), 0);
        // A deployment without a boot entry has no kernel on `/boot`.
        let undeployed = disk.deployment("undeployed", &[("vmlinuz", 2), ("initramfs.img", 5)]);
        assert_eq!(disk.copied(&disk.same_kernel("newer", &undeployed)), 7);
        fs::remove_dir_all(disk.at("boot/ostree/os-22")).unwrap();
        assert_eq!(disk.copied(&disk.same_kernel("newest", &rollback)), 9);
    }

    #[test]
    fn boot_directory_of_another_stateroot_is_not_shared() {
        let disk = Disk::new();
        let booted = disk.deployment("booted", &[("vmlinuz", 3)]);
        disk.boots(&booted, "11", 3);
        let new = disk.same_kernel("new", &booted);
        let other = DeploymentId { stateroot: "other".into(), ..new.clone() };
        let deploy = |id: &DeploymentId| disk.at("sysroot").join(id.path());
        fs::create_dir_all(deploy(&other).parent().unwrap()).unwrap();
        fs::rename(deploy(&new), deploy(&other)).unwrap();
        assert_eq!(disk.copied(&other), 3);
    }

    #[test]
    fn file_system_that_boot_shares_with_the_sysroot_is_not_pruned() {
        let disk = Disk::new();
        let booted = disk.deployment("booted", &[("vmlinuz", 3)]);
        disk.write("boot/ostree/os-99/vmlinuz-6.1", 7);
        assert_eq!(disk.blocks(|partition| partition.prunable_bytes(&booted, &[])), 0);
    }

    #[test]
    fn boot_directories_without_a_kept_deployment_are_unused() {
        let disk = Disk::new();
        let booted = disk.deployment("booted", &[("vmlinuz", 3)]);
        disk.boots(&booted, "11", 3);
        let rollback = disk.deployment("rollback", &[("vmlinuz", 4)]);
        disk.boots(&rollback, "22", 4);
        disk.write("boot/ostree/os-99/vmlinuz-6.1", 7);
        disk.write("boot/ostree/initramfs-overlays/aa.img", 9);
        let unused = |new: &DeploymentId, kept: &[DeploymentId]| {
            disk.blocks(|partition| partition.unused_bytes(new, kept))
        };
        let new = disk.deployment("new", &[("vmlinuz", 5)]);
        assert_eq!(unused(&new, std::slice::from_ref(&booted)), 4 + 7);
        assert_eq!(unused(&new, &[booted.clone(), rollback.clone()]), 7, "the rollback deployment is pinned");
        let again = disk.same_kernel("again", &rollback);
        assert_eq!(unused(&again, &[booted]), 7, "the new deployment has the rollback deployment's kernel");
    }
}

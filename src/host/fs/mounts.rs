//! Mount points below a root.

use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::core::values::names::ManagedPath;
use crate::host::fs::error::{FileOperation, HostError};
use crate::host::fs::path_state::errno_of;
use crate::host::fs::root::Root;

/// File systems that can hold managed files. Reading others could wait for a server or trigger an automount.
const LOCAL: [&str; 14] = [
    "9p", "bcachefs", "btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "vfat",
    "virtiofs", "xfs", "zfs",
];

/// Types of file systems in memory, tmpfs and ramfs (`statfs(2)`).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

const MOUNTS: &str = "/proc/self/mountinfo";

impl Root {
    /// List the mount points of local file systems below the root, without the root itself.
    pub(crate) fn mounts_below(&self) -> Result<Vec<ManagedPath>, HostError> {
        self.mounts(|kind| LOCAL.contains(&kind))
    }

    /// List the mount points of all file systems below the root, without the root itself.
    pub(crate) fn mount_points(&self) -> Result<Vec<ManagedPath>, HostError> {
        self.mounts(|_| true)
    }

    /// Return true if `directory` is on a file system in memory, other than that of `/var`.
    pub(crate) fn is_volatile(&self, directory: &ManagedPath) -> Result<bool, HostError> {
        let failed = |errno| HostError::new(FileOperation::Read, directory.as_str(), errno);
        let found = self.directory(directory).map_err(failed)?;
        let kind = rustix::fs::fstatfs(&found).map_err(failed)?.f_type;
        if !u64::try_from(kind).is_ok_and(|kind| IN_MEMORY.contains(&kind)) {
            return Ok(false);
        }
        let device = rustix::fs::fstat(found).map_err(failed)?.st_dev;
        let var = self.directory(&ManagedPath::constant("/var")).and_then(rustix::fs::fstat);
        Ok(!var.is_ok_and(|var| var.st_dev == device))
    }

    fn mounts(&self, is_meant: impl Fn(&str) -> bool) -> Result<Vec<ManagedPath>, HostError> {
        let failed =
            |path: &str, error: &std::io::Error| HostError::new(FileOperation::Read, path, errno_of(error));
        let top = self.top().map_err(|errno| HostError::new(FileOperation::Read, "/", errno))?;
        let place = format!("/proc/self/fd/{}", top.as_raw_fd());
        let place: PathBuf = std::fs::read_link(&place).map_err(|error| failed(&place, &error))?;
        let text = std::fs::read(MOUNTS).map_err(|error| failed(MOUNTS, &error))?;
        Ok(parse(&String::from_utf8_lossy(&text), &place, is_meant))
    }
}

/// List the IDs of the mounts that take no labels while SELinux is enabled, such as remote ones, or those with the
/// option `context=`. The kernel shows one label for all their files.
pub(crate) fn mounts_without_labels() -> Result<BTreeSet<u64>, HostError> {
    let text = std::fs::read(MOUNTS)
        .map_err(|error| HostError::new(FileOperation::Read, MOUNTS, errno_of(&error)))?;
    Ok(parse_without_labels(&String::from_utf8_lossy(&text)))
}

/// Parse the IDs of mounts without the option `seclabel`; none if no mount has it, because SELinux is disabled then.
fn parse_without_labels(text: &str) -> BTreeSet<u64> {
    let (labelled, others): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| {
        let options = line.split_once(" - ").and_then(|(_, source)| source.split(' ').nth(2));
        options.is_some_and(|options| options.split(',').any(|option| option == "seclabel"))
    });
    let id = |line: &str| line.split(' ').next()?.parse().ok();
    if labelled.is_empty() { BTreeSet::new() } else { others.into_iter().filter_map(id).collect() }
}

/// Parse the mount points below `root` of the file systems that `is_meant` accepts. As of `proc(5)`, the fifth field is
/// the mount point, and the file system type is the first field after the separator `-`.
fn parse(text: &str, root: &Path, is_meant: impl Fn(&str) -> bool) -> Vec<ManagedPath> {
    let below = |line: &str| {
        let (mount, source) = line.split_once(" - ")?;
        let kind = source.split(' ').next()?;
        let point = unescaped(mount.split(' ').nth(4)?);
        let inside = Path::new(&point).strip_prefix(root).ok()?.to_str()?.to_owned();
        // A mount point that is not a valid path holds no managed files.
        is_meant(kind).then(|| ManagedPath::parse(&format!("/{inside}")).ok())?
    };
    text.lines().filter_map(below).collect()
}

/// Spaces, tabs, newlines and backslashes are escaped as three octal digits.
fn unescaped(point: &str) -> String {
    let octal = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    octal.iter().fold(point.to_owned(), |text, (escape, meant)| text.replace(escape, meant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_without_labels_are_listed_where_selinux_is_enabled() {
        let text = "\
22 1 8:1 / / rw - xfs /dev/vda rw,seclabel,attr2
23 22 0:9 / /var/remote rw - nfs4 server:/x rw,vers=4.2
24 22 8:2 / /var/fixed rw - ext4 /dev/vdb rw,context=system_u:object_r:tmp_t:s0
25 22 8:3 / /var/lib rw shared:1 - ext4 /dev/vdc rw,seclabel
";
        assert_eq!(parse_without_labels(text), BTreeSet::from([23, 24]));
        assert_eq!(parse_without_labels(&text.replace(",seclabel", "")), BTreeSet::new());
    }

    #[test]
    fn local_mounts_below_the_root_are_listed() {
        let text = "\
22 1 8:1 / / rw - ext4 /dev/vda rw
23 22 0:5 / /proc rw - proc proc rw
24 22 8:2 / /srv/tree/boot rw,shared:1 - xfs /dev/vdb rw
25 22 8:3 / /srv/tree/my\\040disk rw - ext4 /dev/vdc rw
26 22 0:9 / /srv/tree/remote rw - nfs4 server:/x rw
27 22 8:4 / /srv/treehouse rw - ext4 /dev/vdd rw
28 22 8:4 / /srv/tree rw - ext4 /dev/vdd rw
";
        let local = |kind: &str| LOCAL.contains(&kind);
        let found = parse(text, Path::new("/srv/tree"), local);
        assert_eq!(found, ["/boot", "/my disk"].map(ManagedPath::constant));
        assert_eq!(parse(text, Path::new("/"), local).len(), 4);
        assert_eq!(parse(text, Path::new("/srv/tree"), |_| true).len(), 3);
    }
}

//! Mount points below a root.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::core::values::names::ManagedPath;
use crate::host::fs::error::{FileOperation, HostError};
use crate::host::fs::path_state::errno_of;
use crate::host::fs::root::Root;

/// File systems that can hold managed files. Reading others could wait for a server or trigger an automount.
const LOCAL: [&str; 10] =
    ["bcachefs", "btrfs", "erofs", "ext2", "ext3", "ext4", "overlay", "tmpfs", "vfat", "xfs"];

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

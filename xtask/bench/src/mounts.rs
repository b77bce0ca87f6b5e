//! The file system that a directory is on.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    pub kind: String,
    pub device: String,
    options: String,
    /// MAJOR:MINOR
    number: String,
}

impl FileSystem {
    /// Find the file system of `directory`.
    ///
    /// # Errors
    /// The directory does not exist, or the kernel's list of mounts cannot be read.
    pub fn of(directory: &Path) -> Result<Self> {
        let directory =
            directory.canonicalize().with_context(|| format!("resolving {}", directory.display()))?;
        let list = "/proc/self/mountinfo";
        let text = std::fs::read_to_string(list).with_context(|| format!("reading {list}"))?;
        find(&text, &directory).with_context(|| format!("{} is on no mount of {list}", directory.display()))
    }

    /// Return true for a file system in memory, where a flush waits for no device.
    pub fn is_memory(&self) -> bool {
        matches!(self.kind.as_str(), "tmpfs" | "ramfs")
    }

    /// Read the device's cache mode: with `write back`, a flush costs time.
    pub fn write_cache(&self) -> Option<String> {
        let device = Path::new("/sys/dev/block").join(&self.number);
        // A partition has its queue one level up.
        let queues = [device.join("queue"), device.join("../queue")];
        let text = queues.iter().find_map(|queue| std::fs::read_to_string(queue.join("write_cache")).ok())?;
        Some(text.trim().to_owned())
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} ({})", self.kind, self.device, self.options)
    }
}

/// Find the mount with the longest path above `directory`; of several at one path, the last, which hides the
/// others.
fn find(mountinfo: &str, directory: &Path) -> Option<FileSystem> {
    let mounts = mountinfo.lines().filter_map(parse);
    let above = mounts.filter(|(point, _)| directory.starts_with(point));
    above.max_by_key(|(point, _)| point.components().count()).map(|(_, found)| found)
}

/// Parse a line of `proc_pid_mountinfo(5)`.
fn parse(line: &str) -> Option<(PathBuf, FileSystem)> {
    let (fields, origin) = line.split_once(" - ")?;
    let mut fields = fields.split(' ').skip(2);
    let number = fields.next()?.to_owned();
    let point = PathBuf::from(unescaped(fields.nth(1)?));
    let mut origin = origin.split(' ');
    let kind = origin.next()?.to_owned();
    let device = unescaped(origin.next()?);
    let options = origin.next()?.to_owned();
    Some((point, FileSystem { kind, device, options, number }))
}

/// Decode the octal escapes of white space and backslashes.
fn unescaped(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = r"
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
23 22 0:21 / /tmp rw - tmpfs tmpfs rw,size=1024k
24 22 254:16 /sub /srv/two\040words rw,relatime shared:7 master:2 - xfs /dev/vdb rw
25 24 254:32 / /srv/two\040words rw,relatime - btrfs /dev/vdc rw
";

    #[test]
    fn nearest_and_uppermost_mount_is_found() {
        let cases = [
            ("/", "ext4", "/dev/vda", "254:0"),
            ("/tmpfs", "ext4", "/dev/vda", "254:0"),
            ("/tmp/a/b", "tmpfs", "tmpfs", "0:21"),
            ("/srv/two words/x", "btrfs", "/dev/vdc", "254:32"),
        ];
        for (directory, kind, device, number) in cases {
            let found = find(MOUNTINFO, Path::new(directory)).unwrap();
            assert_eq!((&*found.kind, &*found.device, &*found.number), (kind, device, number), "{directory}");
        }
    }

    #[test]
    fn tmpfs_is_memory_and_a_disk_is_not() {
        assert!(find(MOUNTINFO, Path::new("/tmp")).unwrap().is_memory());
        assert!(!find(MOUNTINFO, Path::new("/srv")).unwrap().is_memory());
    }

    #[test]
    fn mounts_of_the_running_system_are_parsed() {
        assert!(!FileSystem::of(Path::new("/proc/self")).unwrap().kind.is_empty());
    }
}

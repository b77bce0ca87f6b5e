//! Boot entries as defined by the Boot Loader Specification.

use std::path::Path;

use anyhow::{Context, Result, ensure};

/// An entry in `boot/loader/entries`.
#[derive(Debug, PartialEq, Eq)]
pub struct BootEntry {
    /// The file's text.
    pub text: String,
    /// The rank among the entries: the highest boots by default.
    version: u32,
}

impl BootEntry {
    /// Read the boot entries of `sysroot`, the default entry first.
    ///
    /// # Errors
    /// There is no entry, one cannot be read, or one has no version.
    pub fn load_all(sysroot: &Path) -> Result<Vec<Self>> {
        let folder = sysroot.join("boot/loader/entries");
        let mut entries = Vec::new();
        for file in folder.read_dir().with_context(|| format!("reading {}", folder.display()))? {
            let path = file?.path();
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            entries.push(Self::parse(text).with_context(|| path.display().to_string())?);
        }
        ensure!(!entries.is_empty(), "{} has no boot entry", folder.display());
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.version));
        Ok(entries)
    }

    fn parse(text: String) -> Result<Self> {
        let version = value(&text, "version").context("the boot entry has no version")?;
        let version = version.parse().with_context(|| format!("the version `{version}` is not a number"))?;
        Ok(Self { text, version })
    }

    /// The path of the kernel; its directory contains the digest of kernel and initramfs.
    pub fn kernel(&self) -> Option<&str> {
        value(&self.text, "linux")
    }
}

fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        (name == key).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(version: &str, digest: &str) -> String {
        format!("title OS\nversion {version}\noptions root=LABEL=root\nlinux /ostree/os-{digest}/vmlinuz\n")
    }

    #[test]
    fn entry_of_highest_version_is_first() {
        let sysroot = tempfile::tempdir().unwrap();
        let folder = sysroot.path().join("boot/loader/entries");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("ostree-1.conf"), entry("9", "aa")).unwrap();
        std::fs::write(folder.join("ostree-2.conf"), entry("10", "bb")).unwrap();
        let entries = BootEntry::load_all(sysroot.path()).unwrap();
        let kernels: Vec<_> = entries.iter().filter_map(BootEntry::kernel).collect();
        assert_eq!(kernels, ["/ostree/os-bb/vmlinuz", "/ostree/os-aa/vmlinuz"]);
    }

    #[test]
    fn entry_without_version_is_an_error() {
        assert!(BootEntry::parse("title OS\n".to_owned()).is_err());
        assert!(BootEntry::parse(entry("one", "aa")).is_err());
    }

    #[test]
    fn empty_menu_is_an_error() {
        let sysroot = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(sysroot.path().join("boot/loader/entries")).unwrap();
        assert!(BootEntry::load_all(sysroot.path()).is_err());
    }
}

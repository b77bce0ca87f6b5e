//! The default boot entry of a disk, and the deployment that it boots.

use anyhow::{Context as _, Result, ensure};

use super::tree::Tree;

/// Paths in `/boot` of syslinux's configuration. libostree writes the last; the first is a link to it.
const SYSLINUX: [&str; 3] = ["syslinux/syslinux.cfg", "extlinux/extlinux.conf", "loader/syslinux.cfg"];

/// The default boot entry: the one that comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootEntry {
    /// Path of the kernel, as written in the entry.
    pub kernel: String,
    /// Paths of the initial RAM disks, as written in the entry.
    pub initrds: Vec<String>,
    pub arguments: Vec<String>,
}

/// The system that a disk boots.
#[derive(Debug)]
pub struct BootedSystem {
    pub entry: BootEntry,
    /// File system with the boot entries and kernels.
    pub boot: Tree,
    /// Root of the deployment that the entry boots.
    pub deployment: Tree,
    /// Directory of the stateroot that is mounted on `/var`.
    pub var: Tree,
}

impl BootEntry {
    /// Return the value of the last argument `name=`.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&str> {
        let mut values = self.arguments.iter().rev().filter_map(|argument| argument.split_once('='));
        values.find_map(|(found, value)| (found == name).then_some(value))
    }

    /// Parse the first label of a syslinux configuration.
    pub(super) fn of_syslinux(text: &str) -> Option<Self> {
        let lines = text.lines().filter_map(|line| line.trim().split_once([' ', '\t']));
        let mut first = lines.skip_while(|(word, _)| !word.eq_ignore_ascii_case("label")).skip(1);
        let mut entry = Self { kernel: String::new(), initrds: Vec::new(), arguments: Vec::new() };
        for (word, value) in first.by_ref().take_while(|(word, _)| !word.eq_ignore_ascii_case("label")) {
            entry.set(&word.to_ascii_lowercase(), value);
        }
        (!entry.kernel.is_empty()).then_some(entry)
    }

    /// Parse an entry of the Boot Loader Specification, and return it with its version, which determines the
    /// order.
    pub(super) fn of_bls(text: &str) -> Option<(u64, Self)> {
        let mut entry = Self { kernel: String::new(), initrds: Vec::new(), arguments: Vec::new() };
        let mut version = 0;
        for (word, value) in text.lines().filter_map(|line| line.trim().split_once([' ', '\t'])) {
            if word == "version" {
                version = value.trim().parse().ok()?;
            }
            entry.set(word, value);
        }
        (!entry.kernel.is_empty()).then_some((version, entry))
    }

    fn set(&mut self, word: &str, value: &str) {
        let words = || value.split_whitespace().map(str::to_owned);
        match word {
            "kernel" | "linux" => value.trim().clone_into(&mut self.kernel),
            "initrd" => self.initrds.extend(value.split(',').map(|path| path.trim().to_owned())),
            "append" | "options" => self.arguments.extend(words()),
            _ => {}
        }
    }

    /// Find the default boot entry of this `/boot`.
    fn of(boot: &Tree) -> Result<Self> {
        for path in SYSLINUX {
            if let Some(text) = boot.text(path)? {
                return Self::of_syslinux(&text)
                    .with_context(|| format!("{path} has no label with a kernel"));
            }
        }
        let mut entries = Vec::new();
        for name in
            boot.names("loader/entries").context("/boot has neither syslinux.cfg nor loader/entries")?
        {
            let text = boot.text(&format!("loader/entries/{name}"))?.unwrap_or_default();
            entries.push(Self::of_bls(&text).with_context(|| format!("invalid boot entry {name}"))?);
        }
        let highest = entries.into_iter().max_by_key(|(version, _)| *version);
        highest.map(|(_, entry)| entry).context("loader/entries is empty")
    }
}

impl BootedSystem {
    /// Follow the default boot entry to its deployment.
    ///
    /// # Errors
    /// The kernel, an initial RAM disk or the deployment does not exist.
    pub(super) fn of(boot: &Tree, root: &Tree) -> Result<Self> {
        let entry = BootEntry::of(boot)?;
        for path in std::iter::once(&entry.kernel).chain(&entry.initrds) {
            // The path may begin with `/boot`, regardless of where the file system is mounted.
            let inside = path.strip_prefix("/boot/").unwrap_or(path);
            ensure!(
                boot.has(path)? || boot.has(inside)?,
                "the boot entry names {path}, which does not exist"
            );
        }
        let link = entry.argument("ostree").context("the boot entry has no `ostree=`")?;
        let deployment =
            root.at(link).context("the `ostree=` argument of the boot entry leads to no deployment")?;
        let (stateroot, _) = deployment
            .path()
            .split_once("/deploy/")
            .and_then(|(_, below)| below.split_once("/deploy/"))
            .with_context(|| format!("{} is not a path of a deployment", deployment.path()))?;
        let var = root.at(&format!("ostree/deploy/{stateroot}/var"))?;
        Ok(Self { entry, boot: boot.clone(), deployment, var })
    }
}

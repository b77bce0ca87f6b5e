//! What the bootloader would boot, and where that lies.

use anyhow::{Context as _, Result, ensure};

use super::tree::Tree;

/// Where bootloaders look for syslinux's configuration; libostree links the first to the second.
const SYSLINUX: [&str; 3] = ["syslinux/syslinux.cfg", "extlinux/extlinux.conf", "loader/syslinux.cfg"];

/// The boot entry that comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootEntry {
    /// The kernel, as the entry spells it.
    pub kernel: String,
    /// The initial RAM disks, as the entry spells them.
    pub initrds: Vec<String>,
    /// The kernel arguments.
    pub arguments: Vec<String>,
}

/// What a power cut would have led to.
#[derive(Debug)]
pub struct BootedSystem {
    /// The entry that is booted.
    pub entry: BootEntry,
    /// The file system that has the boot entries and kernels.
    pub boot: Tree,
    /// The root of the deployment that it boots.
    pub deployment: Tree,
    /// What is mounted on its `/var`.
    pub var: Tree,
}

impl BootEntry {
    /// The value of the last argument `name=`.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&str> {
        let mut values = self.arguments.iter().rev().filter_map(|argument| argument.split_once('='));
        values.find_map(|(found, value)| (found == name).then_some(value))
    }

    /// Reads the first label of a syslinux configuration.
    pub(super) fn of_syslinux(text: &str) -> Option<Self> {
        let lines = text.lines().filter_map(|line| line.trim().split_once([' ', '\t']));
        let mut first = lines.skip_while(|(word, _)| !word.eq_ignore_ascii_case("label")).skip(1);
        let mut entry = Self { kernel: String::new(), initrds: Vec::new(), arguments: Vec::new() };
        for (word, value) in first.by_ref().take_while(|(word, _)| !word.eq_ignore_ascii_case("label")) {
            entry.set(&word.to_ascii_lowercase(), value);
        }
        (!entry.kernel.is_empty()).then_some(entry)
    }

    /// Reads an entry of the Boot Loader Specification, with the version that it is sorted by.
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

    /// The one that this `/boot` puts first.
    fn of(boot: &Tree) -> Result<Self> {
        for path in SYSLINUX {
            if let Some(text) = boot.text(path)? {
                return Self::of_syslinux(&text)
                    .with_context(|| format!("{path} has no entry with a kernel"));
            }
        }
        let mut entries = Vec::new();
        for name in boot.names("loader/entries").context("there is neither syslinux.cfg nor an entry")? {
            let text = boot.text(&format!("loader/entries/{name}"))?.unwrap_or_default();
            entries.push(Self::of_bls(&text).with_context(|| format!("{name} is no boot entry"))?);
        }
        let highest = entries.into_iter().max_by_key(|(version, _)| *version);
        highest.map(|(_, entry)| entry).context("loader/entries is empty")
    }
}

impl BootedSystem {
    /// Follows the first entry. Kernel, initial RAM disk and deployment have to be there.
    pub(super) fn of(boot: &Tree, root: &Tree) -> Result<Self> {
        let entry = BootEntry::of(boot)?;
        for path in std::iter::once(&entry.kernel).chain(&entry.initrds) {
            // `/boot` may be part of the path, whether or not the file system is mounted there.
            let inside = path.strip_prefix("/boot/").unwrap_or(path);
            ensure!(boot.has(path)? || boot.has(inside)?, "the boot entry names {path}, which is not there");
        }
        let link = entry.argument("ostree").context("the boot entry has no `ostree=`")?;
        let deployment = root.at(link).context("the boot entry leads to no deployment")?;
        let (stateroot, _) = deployment
            .path()
            .split_once("/deploy/")
            .and_then(|(_, below)| below.split_once("/deploy/"))
            .with_context(|| format!("{} is not where deployments are", deployment.path()))?;
        let var = root.at(&format!("ostree/deploy/{stateroot}/var"))?;
        Ok(Self { entry, boot: boot.clone(), deployment, var })
    }
}

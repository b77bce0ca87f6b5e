//! Overlay on the guest's OS: this project's executables and units, and the files of the tests.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::build::cache::Inputs;
use crate::program;

const UNITS: &str = "usr/lib/systemd/system";
const PRESETS: &str = "usr/lib/systemd/system-preset";
const EXECUTABLES: [(&str, &str); 2] = [
    ("flameholder", "usr/bin/flameholder"),
    ("flameholder-ostree", "usr/libexec/flameholder/flameholder-ostree"),
];
const STAND_INS: [(&str, &str); 1] = [("rpmostreed", "usr/libexec/flameholder-test/rpm-ostreed")];

/// Sources of the overlay.
#[derive(Debug)]
pub struct Overlay {
    /// The repository: `systemd/` and `tests/vm/guest`.
    pub sources: PathBuf,
    /// Folder with the agent's executables.
    pub binaries: PathBuf,
    /// Folder with the executables of the tests, such as the stand-in for rpm-ostreed.
    pub stand_ins: PathBuf,
}

/// A file to install.
#[derive(Debug)]
struct Entry {
    from: PathBuf,
    /// Relative to the root of the tree.
    to: PathBuf,
}

impl Overlay {
    /// Return the inputs of the stage: content, path and mode of each file.
    pub fn inputs(&self) -> Result<Inputs> {
        let mut inputs = Inputs::default().text(include_str!("overlay.rs"));
        for entry in self.entries()? {
            inputs = inputs.text(&format!("{} {:o}", entry.to.display(), mode(&entry.from)?));
            inputs = inputs.file(&entry.from)?;
        }
        Ok(inputs)
    }

    /// Write the files below `root`, and enable the units.
    pub fn write(&self, root: &Path) -> Result<()> {
        for entry in self.entries()? {
            let to = root.join(&entry.to);
            create_parent(&to)?;
            fs::copy(&entry.from, &to)
                .with_context(|| format!("copying {} to {}", entry.from.display(), to.display()))?;
            fs::set_permissions(&to, fs::Permissions::from_mode(mode(&entry.from)?))?;
        }
        for (_, to) in EXECUTABLES.into_iter().chain(STAND_INS) {
            // The symbols of a debug build are most of its size, and the guest would download them with each
            // image.
            program::read(Command::new("strip").arg(root.join(to)))?;
        }
        enable_units(&root.join(UNITS))
    }

    fn entries(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for (name, to) in EXECUTABLES {
            entries.push(Entry { from: self.binaries.join(name), to: to.into() });
        }
        for (name, to) in STAND_INS {
            entries.push(Entry { from: self.stand_ins.join(name), to: to.into() });
        }
        collect(&self.sources.join("systemd"), Path::new(UNITS), &mut entries)?;
        collect(&self.sources.join("tests/vm/guest"), Path::new(""), &mut entries)?;
        for entry in &mut entries {
            if entry.to.extension().is_some_and(|extension| extension == "preset") {
                entry.to = Path::new(PRESETS).join(entry.to.file_name().unwrap_or_default());
            }
        }
        entries.retain(|entry| entry.from.extension().is_none_or(|extension| extension != "md"));
        // Units of hosts that have the agent as a system extension.
        entries.retain(|entry| !entry.to.starts_with(Path::new(UNITS).join("sysext")));
        for entry in &mut entries {
            // An OSTree commit carries its `/etc` as `/usr/etc`.
            if let Ok(rest) = entry.to.strip_prefix("etc") {
                entry.to = Path::new("usr/etc").join(rest);
            }
        }
        entries.sort_by(|a, b| a.to.cmp(&b.to));
        Ok(entries)
    }
}

fn collect(folder: &Path, to: &Path, entries: &mut Vec<Entry>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let from = entry?.path();
        let to = to.join(from.file_name().unwrap_or_default());
        if from.is_dir() {
            collect(&from, &to, entries)?;
        } else {
            entries.push(Entry { from, to });
        }
    }
    Ok(())
}

/// Return one of the two modes that git records.
fn mode(path: &Path) -> Result<u32> {
    let metadata = fs::metadata(path).with_context(|| format!("reading the mode of {}", path.display()))?;
    Ok(if metadata.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 })
}

fn create_parent(path: &Path) -> Result<()> {
    let parent = path.parent().with_context(|| format!("{} has no parent", path.display()))?;
    fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))
}

/// Enable each unit by its `[Install]` section, with links in `/usr` as an OS vendor ships them.
fn enable_units(units: &Path) -> Result<()> {
    for entry in fs::read_dir(units).with_context(|| format!("listing {}", units.display()))? {
        let unit = entry?.path();
        if !unit.is_file() {
            continue;
        }
        let name = unit.file_name().unwrap_or_default();
        let text = fs::read_to_string(&unit).with_context(|| format!("reading {}", unit.display()))?;
        for folder in link_folders(&text) {
            let link = units.join(folder).join(name);
            create_parent(&link)?;
            symlink(Path::new("..").join(name), &link)
                .with_context(|| format!("linking {}", link.display()))?;
        }
    }
    Ok(())
}

/// Return the folders with a link to the unit while it is enabled, such as `multi-user.target.wants`.
fn link_folders(unit: &str) -> Vec<String> {
    let install = unit.lines().map(str::trim).skip_while(|line| *line != "[Install]").skip(1);
    let mut folders = Vec::new();
    for line in install.take_while(|line| !line.starts_with('[')) {
        for (key, kind) in [("WantedBy=", "wants"), ("RequiredBy=", "requires"), ("UpheldBy=", "upholds")] {
            let names = line.strip_prefix(key).unwrap_or_default();
            folders.extend(names.split_whitespace().map(|name| format!("{name}.{kind}")));
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn install_section_determines_link_folders() {
        let unit = "[Unit]\nWantedBy=no\n[Install]\nWantedBy=a.target b.target\nRequiredBy=c.target\n[X]\nWantedBy=no\n";
        assert_eq!(link_folders(unit), ["a.target.wants", "b.target.wants", "c.target.requires"]);
        assert_eq!(link_folders("[Service]\nExecStart=true\n"), Vec::<String>::new());
    }
}

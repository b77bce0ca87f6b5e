//! The files of this project in the guest's OS: executables, units, and what tests look through.

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

/// Where the files come from.
#[derive(Debug)]
pub struct Overlay {
    /// The repository.
    pub sources: PathBuf,
    /// The folder of the executables.
    pub binaries: PathBuf,
    /// The folder of the tests' own.
    pub stand_ins: PathBuf,
}

/// One file to install.
#[derive(Debug)]
struct Entry {
    from: PathBuf,
    /// Relative to the tree's root.
    to: PathBuf,
}

impl Overlay {
    /// What the stage depends on.
    pub fn inputs(&self) -> Result<Inputs> {
        let mut inputs = Inputs::default().text(include_str!("overlay.rs"));
        for entry in self.entries()? {
            inputs = inputs.text(&format!("{} {:o}", entry.to.display(), mode(&entry.from)?));
            inputs = inputs.file(&entry.from)?;
        }
        Ok(inputs)
    }

    /// Writes the files below `root`.
    pub fn write(&self, root: &Path) -> Result<()> {
        for entry in self.entries()? {
            let to = root.join(&entry.to);
            create_parent(&to)?;
            fs::copy(&entry.from, &to)
                .with_context(|| format!("copying {} to {}", entry.from.display(), to.display()))?;
            fs::set_permissions(&to, fs::Permissions::from_mode(mode(&entry.from)?))?;
        }
        for (_, to) in EXECUTABLES.into_iter().chain(STAND_INS) {
            // A debug build is mostly symbols, which a guest would have to fetch.
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
        for entry in &mut entries {
            // An OS ships its part of /etc there.
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

/// The two modes that git knows.
fn mode(path: &Path) -> Result<u32> {
    let metadata = fs::metadata(path).with_context(|| format!("looking at {}", path.display()))?;
    Ok(if metadata.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 })
}

fn create_parent(path: &Path) -> Result<()> {
    let parent = path.parent().with_context(|| format!("{} has no parent", path.display()))?;
    fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))
}

/// Links each unit to where its `[Install]` section says, in the OS and not in `/etc`: a vendor's links.
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

/// The folders in which an enabled unit has a link, such as `multi-user.target.wants`.
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

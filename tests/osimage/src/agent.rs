//! Agent in the OS: the repository's units, and empty files in place of the executables. A test that runs
//! programs in the tree mounts the executables over these.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Context as _;

use crate::tree;

/// Folder of the units in the repository.
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../systemd");
/// Directory of units in an image.
const DIRECTORY: &str = "usr/lib/systemd/system";
const EXECUTABLES: [&str; 2] = ["usr/bin/flameholder", "usr/libexec/flameholder/flameholder-ostree"];

/// Agent that an image ships.
#[derive(Debug, Clone)]
pub(crate) struct ShippedAgent {
    /// Version that its units name.
    pub(crate) version: String,
    /// True if the image has the links that enable the units.
    pub(crate) enabled: bool,
}

impl ShippedAgent {
    pub(crate) fn write(&self, root: &Path) -> anyhow::Result<()> {
        for path in EXECUTABLES {
            tree::write(root, path, b"", 0o755)?;
        }
        let preset =
            fs::read(Path::new(UNITS).join("80-flameholder.preset")).context("reading the preset")?;
        tree::write(root, "usr/lib/systemd/system-preset/80-flameholder.preset", &preset, 0o644)?;
        for entry in fs::read_dir(UNITS).context("listing the units")? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.strip_suffix(".d").is_some() {
                let text = fs::read(path.join("50-flameholder.conf")).context("reading a drop-in")?;
                tree::write(root, &format!("{DIRECTORY}/{name}/50-flameholder.conf"), &text, 0o644)?;
            } else if path.extension().is_some_and(|extension| extension == "service") {
                self.write_unit(root, &name, &fs::read_to_string(&path).context("reading a unit")?)?;
            }
        }
        Ok(())
    }

    fn write_unit(&self, root: &Path, name: &str, text: &str) -> anyhow::Result<()> {
        let lines = text.lines().map(|line| match line.strip_prefix("Version=") {
            Some(_) => format!("Version={}\n", self.version),
            None => format!("{line}\n"),
        });
        let text: String = lines.collect();
        tree::write(root, &format!("{DIRECTORY}/{name}"), text.as_bytes(), 0o644)?;
        for line in text.lines().filter(|_| self.enabled) {
            for (key, suffix) in [("WantedBy=", "wants"), ("RequiredBy=", "requires")] {
                for target in line.strip_prefix(key).unwrap_or_default().split_whitespace() {
                    let folder = root.join(format!("usr/etc/systemd/system/{target}.{suffix}"));
                    fs::create_dir_all(&folder)?;
                    symlink(format!("/{DIRECTORY}/{name}"), folder.join(name)).context("enabling a unit")?;
                }
            }
        }
        Ok(())
    }
}

//! The part of a file system tree that enablement depends on: unit files, and the links below
//! `/etc/systemd/system`.

use std::collections::{BTreeMap, BTreeSet};

use super::name::UnitName;

/// Where links are made. Nothing else is ever changed.
pub(super) const CONFIG_DIRECTORY: &str = "/etc/systemd/system";

/// Where unit files are looked for, first match wins.
///
/// systemctl knows a few more, for generated, transient and attached units; a tree that is not
/// running has none of them.
pub const SEARCH_PATH: [&str; 4] =
    [CONFIG_DIRECTORY, "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"];

/// A mask is a link to it.
const NULL_DEVICE: &str = "/dev/null";

/// The kernel's own limit of links in one path.
const LINKS_MAX: usize = 40;

/// Symbolic links below `/etc/systemd/system`: path relative to it, to target as written.
pub type EnablementLinks = BTreeMap<String, String>;

/// What lies at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitFile {
    /// A regular file and its contents. An empty one masks the unit.
    Regular(String),
    /// A symbolic link and its target as written.
    Symlink(String),
}

/// Something that must be read before an answer can be given: read it, add it to [`UnitFiles`], ask
/// again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadFiles {
    /// Names for [`UnitFiles::add_unit`].
    pub units: BTreeSet<UnitName>,
    /// Absolute paths outside [`SEARCH_PATH`] for [`UnitFiles::add_file`]: links lead there.
    pub files: BTreeSet<String>,
}

/// The unit files of a tree, as far as somebody has read them.
///
/// A unit that does not exist is added too, with no files: only then is its absence known.
#[derive(Debug, Clone, Default)]
pub struct UnitFiles {
    units: BTreeMap<UnitName, Vec<String>>,
    read: BTreeSet<String>,
    files: BTreeMap<String, UnitFile>,
}

impl UnitFiles {
    /// Adds a unit: what [`SEARCH_PATH`] has under its name, by absolute path, and the contents of
    /// its drop-ins.
    ///
    /// A symbolic link in `/etc/systemd/system` itself belongs to [`EnablementLinks`] and is passed over
    /// here. Drop-ins come in the order in which systemctl reads them: the `*.conf` files of
    /// `NAME.d` in all directories of the search path, then for an instance those of `TEMPLATE.d`;
    /// one file per basename, the first found; sorted by basename. systemctl reads neither
    /// `service.d` nor the directories of shortened prefixes.
    pub fn add_unit(
        &mut self,
        name: UnitName,
        files: impl IntoIterator<Item = (String, UnitFile)>,
        drop_ins: Vec<String>,
    ) {
        let links_are_elsewhere = format!("{CONFIG_DIRECTORY}/{name}");
        self.files.extend(
            files
                .into_iter()
                .filter(|(path, file)| matches!(file, UnitFile::Regular(_)) || *path != links_are_elsewhere),
        );
        self.units.insert(name, drop_ins);
    }

    /// Adds what lies at an absolute path outside the search path, or that nothing does.
    pub fn add_file(&mut self, path: String, file: Option<UnitFile>) {
        if let Some(file) = file {
            self.files.insert(path.clone(), file);
        }
        self.read.insert(path);
    }

    /// The drop-ins of a unit. A unit found through a link may not have been read yet.
    pub(super) fn drop_ins(&self, name: &UnitName) -> Result<&[String], UnreadFiles> {
        self.units.get(name).map(Vec::as_slice).ok_or_else(|| UnreadFiles::unit(name.clone()))
    }
}

/// What a path leads to, one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundFile<'a> {
    Contents(&'a str),
    Mask,
    Symlink(&'a str),
}

/// Unit files that stay as they are, and links that change.
#[derive(Debug)]
pub(super) struct UnitTree<'a> {
    pub(super) units: &'a UnitFiles,
    pub(super) links: EnablementLinks,
}

impl UnitTree<'_> {
    /// What lies at an absolute path.
    pub(super) fn at(&self, path: &str) -> Result<Option<FoundFile<'_>>, UnreadFiles> {
        if path == NULL_DEVICE {
            return Ok(Some(FoundFile::Mask));
        }
        if let Some(target) = config_relative(path).and_then(|link| self.links.get(link)) {
            return Ok(Some(FoundFile::Symlink(target)));
        }
        self.ensure_read(path)?;
        Ok(self.units.files.get(path).map(|file| match file {
            UnitFile::Regular(contents) if contents.is_empty() => FoundFile::Mask,
            UnitFile::Regular(contents) => FoundFile::Contents(contents),
            UnitFile::Symlink(target) => FoundFile::Symlink(target),
        }))
    }

    fn ensure_read(&self, path: &str) -> Result<(), UnreadFiles> {
        let (directory, name) = split(path);
        if SEARCH_PATH.contains(&directory) {
            match UnitName::parse(name) {
                Ok(name) if !self.units.units.contains_key(&name) => Err(UnreadFiles::unit(name)),
                _ => Ok(()),
            }
        } else if self.units.read.contains(path) || config_relative(path).is_some() {
            Ok(())
        } else {
            Err(UnreadFiles { files: BTreeSet::from([path.to_owned()]), ..UnreadFiles::default() })
        }
    }

    /// The path of a unit file, with what lies there.
    pub(super) fn find(&self, name: &UnitName) -> Result<Option<(String, FoundFile<'_>)>, UnreadFiles> {
        for directory in SEARCH_PATH {
            let path = format!("{directory}/{name}");
            if let Some(found) = self.at(&path)? {
                return Ok(Some((path, found)));
            }
        }
        Ok(None)
    }

    /// Follows links until none is left; the result need not exist. A loop ends somewhere within
    /// it.
    pub(super) fn chase(&self, path: &str) -> Result<String, UnreadFiles> {
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            match self.at(&path)? {
                Some(FoundFile::Symlink(target)) => path = resolve(&path, target),
                _ => break,
            }
        }
        Ok(path)
    }
}

impl UnreadFiles {
    pub(super) fn unit(name: UnitName) -> Self {
        Self { units: BTreeSet::from([name]), ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.units.is_empty() && self.files.is_empty()
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.units.extend(other.units);
        self.files.extend(other.files);
    }
}

/// The absolute path of a link.
pub(super) fn config_path(link: &str) -> String {
    format!("{CONFIG_DIRECTORY}/{link}")
}

fn config_relative(path: &str) -> Option<&str> {
    path.strip_prefix(CONFIG_DIRECTORY)?.strip_prefix('/')
}

/// The absolute path that a link at `path` points to. `/lib` is `/usr/lib` on every host with a
/// merged `/usr`.
pub(super) fn resolve(path: &str, target: &str) -> String {
    let (directory, _) = split(path);
    let joined = if target.starts_with('/') { target.to_owned() } else { format!("{directory}/{target}") };
    let mut components: Vec<&str> = Vec::new();
    for component in joined.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                components.pop();
            }
            name => components.push(name),
        }
    }
    if components.first() == Some(&"lib") {
        components.insert(0, "usr");
    }
    format!("/{}", components.join("/"))
}

/// Whether a path lies anywhere below the search path.
pub(super) fn is_below_search_path(path: &str) -> bool {
    SEARCH_PATH.iter().any(|directory| path.strip_prefix(directory).is_some_and(|tail| tail.starts_with('/')))
}

/// Whether a path lies directly in a directory of the search path.
pub(super) fn is_in_search_path(path: &str) -> bool {
    SEARCH_PATH.contains(&split(path).0)
}

/// Whether a path lies directly in `/etc/systemd/system`.
pub(super) fn is_in_config_directory(path: &str) -> bool {
    split(path).0 == CONFIG_DIRECTORY
}

/// The last component of a path.
pub(super) fn basename(path: &str) -> &str {
    split(path).1
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

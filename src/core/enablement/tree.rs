//! The files that enablement depends on: unit files in the search path, and the links below
//! `/etc/systemd/system`.

use std::collections::{BTreeMap, BTreeSet};

use super::name::UnitName;

/// The directory of enablement links, the only place that operations change.
pub(super) const CONFIG_DIRECTORY: &str = "/etc/systemd/system";

/// Directories of unit files; the first match wins.
///
/// systemctl knows a few more, for generated, transient and attached units; a tree that is not running has
/// none of these.
pub const SEARCH_PATH: [&str; 4] =
    [CONFIG_DIRECTORY, "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"];

/// The link target that masks a unit.
const NULL_DEVICE: &str = "/dev/null";

/// Number of links that the kernel follows in one path.
const LINKS_MAX: usize = 40;

/// Symbolic links below `/etc/systemd/system`: from the path relative to it, to the target as written.
pub type EnablementLinks = BTreeMap<String, String>;

/// A file or link at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitFile {
    /// A regular file with its contents. An empty one masks the unit.
    Regular(String),
    /// A symbolic link with its target as written.
    Symlink(String),
}

/// Files that an operation needs: the caller must read them, add them to [`UnitFiles`] and call again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadFiles {
    /// Units for [`UnitFiles::add_unit`].
    pub units: BTreeSet<UnitName>,
    /// Absolute paths outside [`SEARCH_PATH`], to which links lead, for [`UnitFiles::add_file`].
    pub files: BTreeSet<String>,
}

/// The unit files of a tree that the caller has read so far.
///
/// A unit that does not exist must be added too, with no files: otherwise it counts as not read.
#[derive(Debug, Clone, Default)]
pub struct UnitFiles {
    units: BTreeMap<UnitName, Vec<String>>,
    read: BTreeSet<String>,
    files: BTreeMap<String, UnitFile>,
}

impl UnitFiles {
    /// Add a unit: the files and links of its name in [`SEARCH_PATH`] by absolute path, and the contents of
    /// its drop-ins.
    ///
    /// Symbolic links in `/etc/systemd/system` itself belong to [`EnablementLinks`] and are ignored here.
    /// Drop-ins must be in systemctl's order: the `*.conf` files of `NAME.d` in all directories of the search
    /// path, then for an instance those of `TEMPLATE.d`; one file per basename, the first found; sorted by
    /// basename. systemctl reads neither `service.d` nor the directories of shortened prefixes.
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

    /// Add the file or link at an absolute path outside the search path; `None` if there is none.
    pub fn add_file(&mut self, path: String, file: Option<UnitFile>) {
        if let Some(file) = file {
            self.files.insert(path.clone(), file);
        }
        self.read.insert(path);
    }

    /// The contents of a unit's drop-ins. An error if the unit was found through a link and has not been read
    /// yet.
    pub(super) fn drop_ins(&self, name: &UnitName) -> Result<&[String], UnreadFiles> {
        self.units.get(name).map(Vec::as_slice).ok_or_else(|| UnreadFiles::unit(name.clone()))
    }
}

/// The content of one path, links not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundFile<'a> {
    Contents(&'a str),
    Mask,
    Symlink(&'a str),
}

/// Unit files, which operations do not change, and links, which they do.
#[derive(Debug)]
pub(super) struct UnitTree<'a> {
    pub(super) units: &'a UnitFiles,
    pub(super) links: EnablementLinks,
}

impl UnitTree<'_> {
    /// Look up an absolute path, without following links.
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

    /// Find the file or link of a unit in the search path.
    pub(super) fn find(&self, name: &UnitName) -> Result<Option<(String, FoundFile<'_>)>, UnreadFiles> {
        for directory in SEARCH_PATH {
            let path = format!("{directory}/{name}");
            if let Some(found) = self.at(&path)? {
                return Ok(Some((path, found)));
            }
        }
        Ok(None)
    }

    /// Follow links to a path that is not a link; it need not exist. In a loop, the result is some link of
    /// the loop.
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

/// The absolute path of an enablement link.
pub(super) fn config_path(link: &str) -> String {
    format!("{CONFIG_DIRECTORY}/{link}")
}

fn config_relative(path: &str) -> Option<&str> {
    path.strip_prefix(CONFIG_DIRECTORY)?.strip_prefix('/')
}

/// Resolve the target of a link at `path` to an absolute path, by name alone. `/lib` becomes `/usr/lib`, as
/// on every host with a merged `/usr`.
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

/// True if a path lies in a directory of the search path, at any depth.
pub(super) fn is_below_search_path(path: &str) -> bool {
    SEARCH_PATH.iter().any(|directory| path.strip_prefix(directory).is_some_and(|tail| tail.starts_with('/')))
}

/// True if a path lies directly in a directory of the search path.
pub(super) fn is_in_search_path(path: &str) -> bool {
    SEARCH_PATH.contains(&split(path).0)
}

/// True if a path lies directly in `/etc/systemd/system`.
pub(super) fn is_in_config_directory(path: &str) -> bool {
    split(path).0 == CONFIG_DIRECTORY
}

pub(super) fn basename(path: &str) -> &str {
    split(path).1
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

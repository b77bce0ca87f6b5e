//! The units that one operation is about, loaded as far as it needs them.

use std::collections::{BTreeMap, VecDeque};

use super::alias;
use super::install::InstallSection;
use super::name::{NameKind, UnitName};
use super::tree::{FoundFile, UnitTree, basename, is_below_search_path, is_in_config_directory, resolve};
use super::{EnablementError, SystemdVersion};

/// As many links as systemctl follows from one name.
const LINKS_MAX: usize = 64;

/// Whether a link in `/etc/systemd/system` may stand for the unit it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfigLinks {
    Follow,
    Refuse,
}

/// Whether `[InstallSection]` matters, or only that the unit exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadDepth {
    Install,
    Existence,
}

/// What a name has turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LoadState {
    NotLoaded,
    Regular,
    Masked,
    /// A link to another unit.
    Alias {
        target: String,
    },
    /// A link to a file outside the search path, which is this unit whatever its name there.
    Linked {
        target: String,
    },
}

/// Why a name is on the agenda.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgendaOrigin {
    Asked,
    /// Another unit lists it in `Also=`: it may be missing.
    Also,
}

#[derive(Debug, Clone)]
pub(super) struct AgendaEntry {
    /// Where its file was found.
    pub(super) path: String,
    pub(super) state: LoadState,
    pub(super) install: InstallSection,
    pub(super) origin: AgendaOrigin,
}

/// Loads units and the ones that they bring along, and hands them out one by one.
#[derive(Debug)]
pub(super) struct UnitAgenda {
    version: SystemdVersion,
    entries: BTreeMap<UnitName, AgendaEntry>,
    waiting: VecDeque<UnitName>,
}

impl UnitAgenda {
    pub(super) fn new(version: SystemdVersion) -> Self {
        Self { version, entries: BTreeMap::new(), waiting: VecDeque::new() }
    }

    /// The next unit in the order of arrival.
    pub(super) fn next(&mut self) -> Option<UnitName> {
        self.waiting.pop_front()
    }

    /// An entry of its own, even of a name that has never been added.
    pub(super) fn entry(&mut self, name: &UnitName) -> &mut AgendaEntry {
        self.entries.entry(name.clone()).or_insert_with(|| AgendaEntry {
            path: String::new(),
            state: LoadState::NotLoaded,
            install: InstallSection::default(),
            origin: AgendaOrigin::Asked,
        })
    }

    pub(super) fn add(&mut self, name: &UnitName, origin: AgendaOrigin) {
        if !self.entries.contains_key(name) {
            self.waiting.push_back(name.clone());
            self.entry(name).origin = origin;
        } else if origin == AgendaOrigin::Asked {
            self.entry(name).origin = AgendaOrigin::Asked;
        }
    }

    /// Adds a unit and finds what it stands for.
    pub(super) fn discover(
        &mut self,
        tree: &UnitTree<'_>,
        name: &UnitName,
        depth: LoadDepth,
    ) -> Result<UnitName, EnablementError> {
        self.add(name, AgendaOrigin::Asked);
        self.traverse(tree, name, depth, ConfigLinks::Follow)
    }

    /// Like [`UnitAgenda::discover`], and the unit must not be masked.
    pub(super) fn discover_unmasked(
        &mut self,
        tree: &UnitTree<'_>,
        name: &UnitName,
    ) -> Result<UnitName, EnablementError> {
        let found = self.discover(tree, name, LoadDepth::Install)?;
        match self.entry(&found) {
            AgendaEntry { state: LoadState::Masked, path, .. } => {
                Err(EnablementError::Masked { unit: found, path: path.clone() })
            }
            _ => Ok(found),
        }
    }

    /// Loads a unit and follows its links to the unit that it stands for.
    pub(super) fn traverse(
        &mut self,
        tree: &UnitTree<'_>,
        start: &UnitName,
        depth: LoadDepth,
        config_links: ConfigLinks,
    ) -> Result<UnitName, EnablementError> {
        self.search(tree, start, depth)?;
        let mut unit = start.clone();
        for _ in 0..LINKS_MAX {
            let entry = self.entry(&unit);
            let is_link = matches!(entry.state, LoadState::Alias { .. } | LoadState::Linked { .. });
            if is_link && config_links == ConfigLinks::Refuse && is_in_config_directory(&entry.path) {
                return Err(EnablementError::LinkInConfig { unit });
            }
            match entry.state.clone() {
                LoadState::Linked { target } => self.load(tree, &unit, target, depth)?,
                LoadState::Alias { target } => match alias::named_by(&unit, basename(&target)) {
                    Some(other) if other == unit => self.load(tree, &unit, target, depth)?,
                    Some(other) => {
                        self.follow(tree, &unit, &other, depth)?;
                        unit = other;
                    }
                    None => return Err(EnablementError::InvalidLink { unit, target }),
                },
                LoadState::NotLoaded | LoadState::Regular | LoadState::Masked => return Ok(unit),
            }
        }
        Err(EnablementError::LinkLoop { unit })
    }

    fn follow(
        &mut self,
        tree: &UnitTree<'_>,
        alias: &UnitName,
        unit: &UnitName,
        depth: LoadDepth,
    ) -> Result<(), EnablementError> {
        self.add(unit, AgendaOrigin::Asked);
        self.search(tree, unit, depth).map_err(|error| match error {
            EnablementError::Missing { unit } => EnablementError::Dangling { alias: alias.clone(), unit },
            other => other,
        })
    }

    /// Finds the file of a unit by its name, or by its template's, and reads it with its drop-ins.
    pub(super) fn search(
        &mut self,
        tree: &UnitTree<'_>,
        name: &UnitName,
        depth: LoadDepth,
    ) -> Result<(), EnablementError> {
        if self.entry(name).state != LoadState::NotLoaded {
            return Ok(());
        }
        if name.kind() != NameKind::Plain && !name.may_be_template() {
            return Err(EnablementError::NoTemplates { unit: name.clone() });
        }
        let template = name.template().filter(|_| name.kind() == NameKind::Instance);
        let found = match (tree.find(name)?, template) {
            (None, Some(template)) => tree.find(&template)?,
            (found, _) => found,
        };
        let (path, _) = found.ok_or_else(|| EnablementError::Missing { unit: name.clone() })?;
        self.load(tree, name, path, depth)?;
        if self.entry(name).state != LoadState::Masked && depth == LoadDepth::Install {
            for drop_in in tree.units.drop_ins(name)? {
                self.read(name, drop_in)?;
            }
        }
        Ok(())
    }

    /// Reads what lies at one path as the file of a unit.
    fn load(
        &mut self,
        tree: &UnitTree<'_>,
        name: &UnitName,
        path: String,
        depth: LoadDepth,
    ) -> Result<(), EnablementError> {
        let found = tree.at(&path)?.ok_or_else(|| EnablementError::Missing { unit: name.clone() })?;
        let state = match found {
            FoundFile::Mask => LoadState::Masked,
            FoundFile::Contents(contents) => {
                if depth == LoadDepth::Install {
                    self.read(name, contents)?;
                }
                LoadState::Regular
            }
            FoundFile::Symlink(target) => load_symlink(tree, name, &path, target)?,
        };
        let entry = self.entry(name);
        (entry.path, entry.state) = (path, state);
        Ok(())
    }

    /// What stands before an error counts: `disable` goes on in spite of it.
    fn read(&mut self, name: &UnitName, contents: &str) -> Result<(), EnablementError> {
        let version = self.version;
        let entry = self.entry(name);
        let result = entry.install.read(name, contents, version);
        let also = entry.install.also.clone();
        for unit in &also {
            self.add(unit, AgendaOrigin::Also);
        }
        result.map_err(|source| EnablementError::Install { unit: name.clone(), source })
    }
}

fn load_symlink(
    tree: &UnitTree<'_>,
    name: &UnitName,
    path: &str,
    target: &str,
) -> Result<LoadState, EnablementError> {
    let target = resolve(path, target);
    if is_below_search_path(&target) {
        alias::ensure_link(name, path, &target)?;
    }
    Ok(match tree.at(&target)? {
        Some(FoundFile::Mask) => LoadState::Masked,
        _ if is_below_search_path(&target) => LoadState::Alias { target },
        _ => LoadState::Linked { target },
    })
}

//! The agenda of one operation: the named units and the ones that they refer to, loaded as far as needed.

use std::collections::{BTreeMap, VecDeque};

use super::install::InstallSection;
use super::name::{NameKind, UnitName};
use super::tree::{FoundFile, UnitTree, basename, is_below_search_path, is_in_config_directory, resolve};
use super::{EnablementError, SystemdVersion, alias};

/// Number of links that systemctl follows from one name.
const LINKS_MAX: usize = 64;

/// The treatment of a name that is a link in `/etc/systemd/system`: follow it to its unit, or refuse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfigLinks {
    Follow,
    Refuse,
}

/// The part of a unit that is loaded: its `[Install]` section, or only the fact that it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadDepth {
    Install,
    Existence,
}

/// The result of looking a name up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LoadState {
    NotLoaded,
    Regular,
    Masked,
    Alias {
        target: String,
    },
    /// A link to a file outside the search path, as made by `systemctl link`: this unit, under whichever name
    /// the file has there.
    Linked {
        target: String,
    },
}

/// The reason why a name is on the agenda.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgendaOrigin {
    Asked,
    /// Listed in another unit's `Also=`; such a unit may be missing.
    Also,
}

#[derive(Debug, Clone)]
pub(super) struct AgendaEntry {
    /// The path at which the unit's file was found.
    pub(super) path: String,
    pub(super) state: LoadState,
    pub(super) install: InstallSection,
    pub(super) origin: AgendaOrigin,
}

/// Loads units and the ones that they refer to, and returns them one by one.
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

    /// Take the next unit, in the order in which they were added.
    pub(super) fn next(&mut self) -> Option<UnitName> {
        self.waiting.pop_front()
    }

    /// The entry of a name; a new one that is not loaded if the name has never been added.
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

    /// Add a unit, load it and resolve its aliases; return the unit's own name.
    pub(super) fn discover(
        &mut self,
        tree: &UnitTree<'_>,
        name: &UnitName,
        depth: LoadDepth,
    ) -> Result<UnitName, EnablementError> {
        self.add(name, AgendaOrigin::Asked);
        self.traverse(tree, name, depth, ConfigLinks::Follow)
    }

    /// Like [`UnitAgenda::discover`], but refuse a masked unit.
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

    /// Load a unit, follow its links, and return the unit that it is an alias of, or the unit itself.
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

    /// Find the file of a unit by its name, else by its template's name, and read it with its drop-ins.
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

    /// Load the file or link at `path` as the file of a unit.
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

    /// Read `[Install]` from one file. Assignments before an error are kept, because `disable` goes on in
    /// spite of it.
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

//! Creation of the links that `[Install]` sections ask for.

use super::agenda::{AgendaEntry, AgendaOrigin, ConfigLinks, LoadDepth, LoadState, UnitAgenda};
use super::install::InstallSection;
use super::name::{NameKind, UnitName};
use super::specifier::expand;
use super::tree::{
    FoundFile, UnitTree, basename, config_path, is_below_search_path, is_in_search_path, resolve,
};
use super::{EnablementError, EnablementNote, SystemdVersion, alias};

/// The reaction to a `WantedBy=` (or sibling) that cannot be linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadTarget {
    /// Fail, as `enable` does: an operator named the unit.
    Refuse,
    /// Go on without this link, as `preset` does, for instance for a template without a default instance.
    Skip,
}

/// The reaction to another link at the path of a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occupied {
    Replace,
    ReplaceIfBroken,
    Refuse,
}

/// Create the links of every unit on the agenda.
pub(super) fn apply(
    tree: &mut UnitTree<'_>,
    mut agenda: UnitAgenda,
    version: SystemdVersion,
    bad_target: BadTarget,
    notes: &mut Vec<EnablementNote>,
) -> Result<(), EnablementError> {
    while let Some(unit) = agenda.next() {
        match agenda.traverse(tree, &unit, LoadDepth::Install, ConfigLinks::Refuse) {
            Ok(_) => {}
            Err(EnablementError::NotRead(unread)) => return Err(unread.into()),
            Err(error) if agenda.entry(&unit).origin == AgendaOrigin::Also => {
                notes.push(EnablementNote::AlsoSkipped { unit, error });
                continue;
            }
            Err(error) => return Err(error),
        }
        let AgendaEntry { path, state, install, origin } = agenda.entry(&unit).clone();
        match state {
            LoadState::Masked => notes.push(EnablementNote::MaskedSkipped { unit }),
            LoadState::Regular => {
                if install.is_empty() && origin == AgendaOrigin::Asked && bad_target == BadTarget::Refuse {
                    notes.push(EnablementNote::NothingToInstall { unit: unit.clone() });
                }
                Linking { tree, unit: &unit, path: &path, install: &install, version, bad_target }.link()?;
            }
            LoadState::NotLoaded | LoadState::Alias { .. } | LoadState::Linked { .. } => {}
        }
    }
    Ok(())
}

/// The creation of one unit's links.
struct Linking<'t, 'u, 'a> {
    tree: &'t mut UnitTree<'u>,
    unit: &'a UnitName,
    /// The unit's file: the target of most links.
    path: &'a str,
    install: &'a InstallSection,
    version: SystemdVersion,
    bad_target: BadTarget,
}

impl Linking<'_, '_, '_> {
    fn link(&mut self) -> Result<(), EnablementError> {
        if !is_in_search_path(self.path) {
            self.create(self.unit.to_string(), self.path, Occupied::Refuse)?;
        }
        self.link_aliases()?;
        let install = self.install;
        self.link_dependencies(&install.wanted_by, "wants")?;
        self.link_dependencies(&install.required_by, "requires")?;
        self.link_dependencies(&install.upheld_by, "upholds")
    }

    fn link_aliases(&mut self) -> Result<(), EnablementError> {
        let through_config = config_path(self.unit.as_str());
        let is_linked = !is_in_search_path(self.path);
        let target = if is_linked && self.version.links_aliases_to_linked_units() {
            &through_config
        } else {
            self.path
        };
        let occupied =
            if self.version.replaces_broken_aliases() { Occupied::ReplaceIfBroken } else { Occupied::Refuse };
        for word in &self.install.aliases {
            if let Some(link) = alias::link_for(self.unit, &self.expand(word)?)? {
                self.create(link, target, occupied)?;
            }
        }
        Ok(())
    }

    fn link_dependencies(&mut self, words: &[String], kind: &str) -> Result<(), EnablementError> {
        if words.is_empty() {
            return Ok(());
        }
        let name = self.dependency_name()?;
        for word in words {
            let depending = self.expand(word)?;
            match UnitName::parse(&depending) {
                Ok(depending) if name.kind() != NameKind::Template || depending.kind() != NameKind::Plain => {
                    self.create(format!("{depending}.{kind}/{name}"), self.path, Occupied::Replace)?;
                }
                _ if self.bad_target == BadTarget::Skip => {}
                _ => {
                    return Err(EnablementError::BadTarget { unit: self.unit.clone(), target: depending });
                }
            }
        }
        Ok(())
    }

    /// The name under which the unit is linked as a dependency. For a template this is its default instance,
    /// which may have a file of its own, or be masked.
    fn dependency_name(&self) -> Result<UnitName, EnablementError> {
        let default = match &self.install.default_instance {
            Some(instance) if self.unit.kind() == NameKind::Template => self.unit.with_instance(instance),
            _ => None,
        };
        let Some(name) = default else {
            return Ok(self.unit.clone());
        };
        let mut alone = UnitAgenda::new(self.version);
        alone.search(self.tree, &name, LoadDepth::Existence)?;
        match alone.entry(&name) {
            AgendaEntry { state: LoadState::Masked, path, .. } => {
                Err(EnablementError::Masked { unit: name, path: path.clone() })
            }
            _ => Ok(name),
        }
    }

    fn expand(&self, word: &str) -> Result<String, EnablementError> {
        expand(word, self.unit, self.install.default_instance.as_deref())
            .map_err(|source| EnablementError::Install { unit: self.unit.clone(), source: source.into() })
    }

    fn create(&mut self, link: String, target: &str, occupied: Occupied) -> Result<(), EnablementError> {
        let path = config_path(&link);
        let Some(existing) = self.tree.links.get(&link) else {
            if is_in_search_path(&path) && self.tree.at(&path)?.is_some() {
                return Err(EnablementError::OccupiedByFile { path });
            }
            self.tree.links.insert(link, target.to_owned());
            return Ok(());
        };
        let replace = match occupied {
            _ if self.is_equivalent(&path, existing, target)? => return Ok(()),
            Occupied::Replace => true,
            Occupied::ReplaceIfBroken => self.tree.at(&self.tree.chase(&path)?)?.is_none(),
            Occupied::Refuse => false,
        };
        if !replace {
            return Err(EnablementError::OccupiedByLink { path, target: existing.clone() });
        }
        self.tree.links.insert(link, target.to_owned());
        Ok(())
    }

    /// True if an existing link with another target serves as well: it leads to the same file, or to the same
    /// name in the search path.
    fn is_equivalent(&self, path: &str, existing: &str, target: &str) -> Result<bool, EnablementError> {
        let existing = resolve(path, existing);
        if existing == target
            || basename(&existing) == basename(target)
                && is_below_search_path(&existing)
                && is_below_search_path(target)
        {
            return Ok(true);
        }
        let (existing, target) = (self.tree.chase(&existing)?, self.tree.chase(target)?);
        Ok(existing == target
            && matches!(self.tree.at(&existing)?, Some(FoundFile::Contents(_) | FoundFile::Mask)))
    }
}

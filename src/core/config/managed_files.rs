//! Managed files of a config in one tree: every path that the config writes, with its desired state.

use std::collections::{BTreeMap, BTreeSet};

use super::accounts::AccountTable;
use super::host_config::{
    CORE_USER, FileOwner, FileSpec, HostConfig, InheritedAttributes, OwnerRef, PERMISSION_BITS,
    UNIT_DIRECTORY,
};
use crate::core::values::names::{ManagedPath, below};
use crate::core::values::profile::Profile;
use crate::core::values::refusal::{Refusal, RefusalList};
use crate::core::values::tree::{FileAttributes, FileEntry, MASK};

const UNIT_MODE: u32 = 0o644;
/// Mode of the authorized keys file.
const KEYS_MODE: u32 = 0o600;
/// Mode of the directories above the authorized keys file; sshd refuses laxer ones.
const KEYS_DIRECTORY_MODE: u32 = 0o700;

/// The desired state of every managed path, and the parts of the config that this tree cannot take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManagedFiles {
    /// Desired state by path.
    pub entries: BTreeMap<ManagedPath, FileEntry>,
    /// Directories that are created with an owner other than root if they do not exist: a user's home.
    pub owned_parents: BTreeMap<ManagedPath, FileAttributes>,
    /// Parts of the config that this tree does not support, each with its reason.
    pub unsupported: Vec<String>,
    /// Paths whose content is stored now and put in place by activation at boot, each with its reason.
    pub deferred: Vec<String>,
}

/// Files of a tree on which the desired state of managed paths depends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExistingFiles {
    /// The files, by path, that a config's `append` extends.
    pub append_bases: BTreeMap<ManagedPath, AppendBase>,
    /// Content of the authorized keys file.
    pub keys: Option<Vec<u8>>,
}

/// A file that `append` extends, as it was before it was managed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendBase {
    pub contents: Vec<u8>,
    pub attributes: FileAttributes,
}

/// The handling of an owner or group name that the tree's `passwd` or `group` does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownOwner {
    /// The config is refused: it is about to be applied.
    Refused,
    /// The path drifts, whichever number owns it: the config was applied when the name still existed.
    Drifts,
}

impl ManagedFiles {
    /// Compute the managed files of `config` in a tree with these `accounts`. With [`UnknownOwner::Refused`],
    /// a name that the tree does not have is refused with its field.
    pub fn of(
        config: &HostConfig,
        accounts: &AccountTable,
        existing: &ExistingFiles,
        profile: Profile,
        unknown: UnknownOwner,
    ) -> Result<Self, RefusalList> {
        let mut managed = Self::default();
        let mut names = Names { accounts, refused: Vec::new() };
        for (path, file) in &config.files {
            let field = format!("spec.config.storage.files[{}]", file.index);
            let base = existing.append_bases.get(path);
            let contents = contents_of(file, base);
            let attributes = names.attributes(file.mode, &file.owner, &field);
            let attributes =
                base.map_or(attributes, |base| inherit(attributes, file.inherited, base.attributes));
            managed.entries.insert(path.clone(), FileEntry::File { contents, attributes });
        }
        if profile == Profile::Native {
            managed.directories_and_links(config, &mut names);
        } else {
            managed.mcd_unsupported(config);
        }
        managed.units(config, profile);
        managed.authorized_keys(config, accounts, existing.keys.as_deref(), profile);
        if unknown == UnknownOwner::Drifts {
            names.refused.clear();
        }
        RefusalList::or(names.refused, managed)
    }

    /// The managed files outside the directory `top`.
    #[must_use]
    pub fn outside(&self, top: &str) -> Self {
        let entries = self.entries.iter().filter(|(path, _)| !path.is_within(top));
        Self {
            entries: entries.map(|(path, entry)| (path.clone(), entry.clone())).collect(),
            owned_parents: self.owned_parents.clone(),
            unsupported: Vec::new(),
            deferred: Vec::new(),
        }
    }

    /// Combine these files within `top` with the files of `others`, which lie outside of it.
    #[must_use]
    pub fn with_outside(&self, top: &str, others: &Self) -> Self {
        let within = self.entries.iter().filter(|(path, _)| path.is_within(top));
        let entries = within.chain(&others.entries);
        Self {
            entries: entries.map(|(path, entry)| (path.clone(), entry.clone())).collect(),
            owned_parents: self.owned_parents.clone(),
            unsupported: self.unsupported.clone(),
            deferred: self.deferred.clone(),
        }
    }

    /// Remove the entries outside `top` and list them as deferred with `reason`.
    pub fn keep_within(&mut self, top: &str, reason: &str) {
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.entries).into_iter().partition(|(path, _)| path.is_within(top));
        self.entries = kept;
        let is_named = |(path, entry): &(&ManagedPath, &FileEntry)| match entry {
            FileEntry::Directory { .. } => below(&gone, path.as_str()).next().is_none(),
            entry => entry.is_leaf(),
        };
        self.deferred.extend(gone.iter().filter(is_named).map(|(path, _)| format!("{path}: {reason}")));
    }

    fn directories_and_links(&mut self, config: &HostConfig, names: &mut Names<'_>) {
        for (path, directory) in &config.directories {
            let field = format!("spec.config.storage.directories[{}]", directory.index);
            let attributes = names.attributes(directory.mode, &directory.owner, &field);
            self.entries.insert(path.clone(), FileEntry::Directory { attributes });
        }
        for (path, link) in &config.links {
            let field = format!("spec.config.storage.links[{}]", link.index);
            let owner = names.attributes(0, &link.owner, &field);
            let entry = match ManagedPath::parse(&link.target) {
                Ok(target) if link.hard => FileEntry::HardLink { target },
                _ => FileEntry::Symlink { target: link.target.clone(), owner: (owner.uid, owner.gid) },
            };
            self.entries.insert(path.clone(), entry);
        }
    }

    fn mcd_unsupported(&mut self, config: &HostConfig) {
        for (what, empty) in
            [("directories", config.directories.is_empty()), ("links", config.links.is_empty())]
        {
            if !empty {
                let reason = format!("spec.config.storage.{what}: not applied with profile `mcd`");
                self.unsupported.push(reason);
            }
        }
    }

    fn units(&mut self, config: &HostConfig, profile: Profile) {
        let attributes = FileAttributes { mode: UNIT_MODE, uid: 0, gid: 0 };
        let root_file = |text: &str| FileEntry::File { contents: text.as_bytes().to_vec(), attributes };
        for (name, unit) in &config.units {
            for (drop_in, text) in &unit.drop_ins {
                let is_empty = text.is_empty();
                let entry = if is_empty { FileEntry::AbsentOrEmpty { attributes } } else { root_file(text) };
                self.entries.insert(unit_path(&format!("{name}.d/{drop_in}")), entry);
            }
            let entry = match (&unit.contents, unit.mask) {
                (_, Some(true)) => FileEntry::Symlink { target: MASK.to_owned(), owner: (0, 0) },
                (Some(text), _) => root_file(text),
                (None, Some(false)) if profile == Profile::Mcd => FileEntry::Absent,
                (None, Some(false)) => FileEntry::Unmasked,
                (None, None) => continue,
            };
            self.entries.insert(unit_path(name), entry);
        }
    }

    fn authorized_keys(
        &mut self,
        config: &HostConfig,
        accounts: &AccountTable,
        found: Option<&[u8]>,
        profile: Profile,
    ) {
        let has_keys = config.passwd.keys().next().is_some();
        // MCD empties the key file of a user without keys. Ignition writes none, and leaves one that is there.
        if !has_keys && (profile == Profile::Native || !config.passwd.lists_core()) {
            return;
        }
        let home = accounts.user(CORE_USER).map(|core| (core, ManagedPath::simplified(&core.home)));
        let (core, home) = match home {
            Some((core, Ok(home))) => (core, home),
            Some((core, Err(error))) => {
                return self.unsupported.push(format!(
                    "spec.config.passwd.users: the home directory {:?} of `{CORE_USER}` cannot hold keys: {error}",
                    core.home
                ));
            }
            None => {
                return self.unsupported.push(format!(
                    "spec.config.passwd.users: the tree has no user `{CORE_USER}`, so keys and password hash are not set"
                ));
            }
        };
        let owned = |mode| FileAttributes { mode, uid: core.uid, gid: core.gid };
        self.owned_parents.insert(home.clone(), owned(KEYS_DIRECTORY_MODE));
        let ([ssh, directory], file) = key_paths(&home);
        let attributes = owned(KEYS_MODE);
        if !has_keys {
            self.entries.insert(file, FileEntry::AbsentOrEmpty { attributes });
            return;
        }
        let contents = key_lines(config, found);
        for path in [ssh, directory] {
            self.entries.insert(path, FileEntry::Directory { attributes: owned(KEYS_DIRECTORY_MODE) });
        }
        self.entries.insert(file, FileEntry::File { contents, attributes });
    }
}

/// Directories and path of the authorized keys file in a home directory.
fn key_paths(home: &ManagedPath) -> ([ManagedPath; 2], ManagedPath) {
    let ssh = home.join(".ssh");
    let directory = ssh.join("authorized_keys.d");
    let file = directory.join("ignition");
    ([ssh, directory], file)
}

/// The path of the authorized keys file, where its content decides how the keys are spelled: where one of them ends with white space,
/// such as a newline, which Ignition and MCD keep.
#[must_use]
pub fn respelled_keys(config: &HostConfig, accounts: &AccountTable) -> Option<ManagedPath> {
    let is_respelled = config.passwd.keys().any(|key| key.trim_end() != key);
    let home = accounts.user(CORE_USER).and_then(|core| ManagedPath::simplified(&core.home).ok());
    home.filter(|_| is_respelled).map(|home| key_paths(&home).1)
}

/// Return the content of the authorized keys file: a line for each key, or the content that was found, if Ignition or MCD would have
/// written that.
fn key_lines(config: &HostConfig, found: Option<&[u8]>) -> Vec<u8> {
    let keys = || config.passwd.keys();
    let of_mcd = keys().flat_map(|key| [key, "\n"]).collect::<String>();
    // Ignition ends the file with one newline, also where the last key has one.
    let of_ignition = of_mcd.strip_suffix('\n').filter(|text| text.ends_with('\n')).unwrap_or(&of_mcd);
    match found {
        Some(found) if [of_mcd.as_bytes(), of_ignition.as_bytes()].contains(&found) => found.to_vec(),
        _ => keys().flat_map(|key| [key.trim_end(), "\n"]).collect::<String>().into_bytes(),
    }
}

/// The path of a unit, or of a drop-in given as `UNIT.d/NAME`. The name has been checked when it was decoded.
#[must_use]
pub fn unit_path(name: &str) -> ManagedPath {
    ManagedPath::parse(&format!("{UNIT_DIRECTORY}/{name}")).expect("a unit's name is a file name")
}

/// Return true if `path` is the file of the unit, or one of its drop-ins.
#[must_use]
pub fn is_of_unit(name: &str, path: &ManagedPath) -> bool {
    let file = unit_path(name);
    path == &file || path.parent().is_some_and(|parent| parent.as_str() == format!("{file}.d"))
}

/// Every path that the config writes: files, directories, links, units and drop-ins. Authorized keys are not
/// included.
#[must_use]
pub fn written_paths(host: &HostConfig) -> BTreeSet<ManagedPath> {
    let files = host.files.keys().chain(host.directories.keys()).chain(host.links.keys());
    let units = host.units.keys().map(|name| unit_path(name));
    let drop_ins = host.units.iter().flat_map(|(name, unit)| {
        unit.drop_ins.keys().map(move |drop_in| unit_path(&format!("{name}.d/{drop_in}")))
    });
    files.cloned().chain(units).chain(drop_ins).collect()
}

fn inherit(given: FileAttributes, inherited: InheritedAttributes, base: FileAttributes) -> FileAttributes {
    // A change of the owner clears special bits, as chown(2) does: they were given for the owner before.
    let keeps_owner = inherited.user && inherited.group;
    let inherited_mode = if keeps_owner { base.mode } else { base.mode & PERMISSION_BITS };
    FileAttributes {
        mode: if inherited.mode { inherited_mode } else { given.mode },
        uid: if inherited.user { base.uid } else { given.uid },
        gid: if inherited.group { base.gid } else { given.gid },
    }
}

fn contents_of(file: &FileSpec, base: Option<&AppendBase>) -> Vec<u8> {
    if file.append.is_empty() {
        return file.contents.clone();
    }
    // Given contents replace the base, also empty ones; `append` alone extends it.
    let base = match base {
        Some(base) if !file.has_contents => base.contents.clone(),
        _ => file.contents.clone(),
    };
    file.append.iter().fold(base, |mut bytes, fragment| {
        bytes.extend_from_slice(fragment);
        bytes
    })
}

struct Names<'a> {
    accounts: &'a AccountTable,
    refused: Vec<Refusal>,
}

impl Names<'_> {
    fn attributes(&mut self, mode: u32, owner: &FileOwner, field: &str) -> FileAttributes {
        let uid = match &owner.user {
            OwnerRef::Id(id) => *id,
            OwnerRef::Name(name) => match self.accounts.user(name) {
                Some(account) => account.uid,
                None => self.unknown(format!("{field}.user.name"), "user", name),
            },
        };
        let gid = match &owner.group {
            OwnerRef::Id(id) => *id,
            OwnerRef::Name(name) => match self.accounts.group(name) {
                Some(id) => id,
                None => self.unknown(format!("{field}.group.name"), "group", name),
            },
        };
        FileAttributes { mode, uid, gid }
    }

    fn unknown(&mut self, field: String, what: &str, name: &str) -> u32 {
        let reason = format!("the target has no {what} `{name}`; use an existing name or a number");
        self.refused.push(Refusal::new(field, reason));
        // No user or group has this number: chown(2) takes it for "no change".
        u32::MAX
    }
}

#[cfg(test)]
mod tests;

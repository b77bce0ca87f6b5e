//! The decoded, validated form of a `MachineConfig`: every path, mode, owner and unit name in it is known to
//! be well formed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::managed_files::{is_of_unit, unit_path};
use super::render::documents::DocumentNames;
use crate::core::values::identifiers::ConfigName;
use crate::core::values::kernel_arguments::KernelArguments;
use crate::core::values::names::ManagedPath;
use crate::core::values::refusal::Refusal;

/// The force file, as in MCD: while it exists, a config is applied over drift and over a blocked target. A
/// config must not create it.
pub const FORCE_FILE: &str = "/run/machine-config-daemon-force";
/// The directory of a config's units and drop-ins.
pub const UNIT_DIRECTORY: &str = "/etc/systemd/system";
/// The only user whose keys and password a config may set.
pub const CORE_USER: &str = "core";
pub const FILE_MODE: u32 = 0o644;
pub const DIRECTORY_MODE: u32 = 0o755;
/// Bits of a mode without those of set-user-ID, set-group-ID and sticky.
pub const PERMISSION_BITS: u32 = 0o777;

/// Everything that one config asks of a host, decoded and validated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostConfig {
    /// `metadata.name` of the `MachineConfig`.
    pub name: ConfigName,
    /// Documents that list each path, where the config was rendered here.
    pub documents: DocumentNames,
    /// `storage.files`
    pub files: BTreeMap<ManagedPath, FileSpec>,
    /// `storage.directories`
    pub directories: BTreeMap<ManagedPath, DirectorySpec>,
    /// `storage.links`
    pub links: BTreeMap<ManagedPath, LinkSpec>,
    /// `systemd.units`, by unit name.
    pub units: BTreeMap<String, UnitSpec>,
    pub passwd: PasswdSpec,
    /// Image, kernel and extensions.
    pub os: OsSpec,
    /// Sections that are compared but never applied, by their path below `spec.config`.
    pub unapplied: BTreeMap<&'static str, Value>,
    /// True if `spec` is there but names nothing, not even an Ignition version.
    pub is_blank: bool,
    /// Keys of `spec` that the API does not define.
    pub unknown: Vec<Refusal>,
    /// Sections that only Ignition acts upon; of a config that was applied already, also entries that no host takes. Each
    /// with its field and reason.
    pub left_out: Vec<String>,
}

impl HostConfig {
    /// Return the names of the documents that list `path`, or the unit that it belongs to; the one that wins is the last.
    #[must_use]
    pub fn documents_of(&self, path: &ManagedPath) -> &[String] {
        let unit = || self.units.keys().find(|name| is_of_unit(name, path)).map(|name| unit_path(name));
        let names = self.documents.get(path.as_str()).or_else(|| self.documents.get(unit()?.as_str()));
        names.map(Vec::as_slice).unwrap_or_default()
    }
}

/// An owner as a config names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerRef {
    Id(u32),
    /// A name, resolved in the target's own passwd and group files.
    Name(String),
}

/// Owner and group of a path; root where the config names none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOwner {
    pub user: OwnerRef,
    pub group: OwnerRef,
}

impl Default for FileOwner {
    fn default() -> Self {
        Self { user: OwnerRef::Id(0), group: OwnerRef::Id(0) }
    }
}

/// One item of `storage.files`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSpec {
    /// Index in the config's list; names the field in refusals, and orders the changes of a plan.
    pub index: usize,
    /// Decoded contents; empty where only `append` is given.
    pub contents: Vec<u8>,
    /// False if the config gives no `contents.source`.
    pub has_contents: bool,
    /// Decoded fragments to append, in order.
    pub append: Vec<Vec<u8>>,
    pub mode: u32,
    pub owner: FileOwner,
    /// Attributes of an existing file that `append` alone leaves, as in Ignition. `mode` and `owner` are those of a new file.
    pub inherited: InheritedAttributes,
    /// `Some(false)`: an unmanaged file that exists already must stay.
    pub overwrite: Option<bool>,
}

impl FileSpec {
    /// Return the contents and everything that is appended to them.
    #[must_use]
    pub fn with_appended(&self) -> Vec<u8> {
        [&self.contents].into_iter().chain(&self.append).flatten().copied().collect()
    }
}

/// Attributes that a file has from the one that it extends, because the config gives none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InheritedAttributes {
    pub mode: bool,
    pub user: bool,
    pub group: bool,
}

/// One item of `storage.directories`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectorySpec {
    /// Index in the config's list.
    pub index: usize,
    pub mode: u32,
    pub owner: FileOwner,
}

/// One item of `storage.links`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSpec {
    /// Index in the config's list.
    pub index: usize,
    /// The link's target as written; absolute and normalized for a hard link.
    pub target: String,
    /// True for a hard link to a file on the same file system.
    pub hard: bool,
    /// Owner of the link itself; unused for a hard link.
    pub owner: FileOwner,
}

/// One item of `systemd.units`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitSpec {
    /// Index in the config's list.
    pub index: usize,
    /// Text of the unit file; `None` if absent or empty.
    pub contents: Option<String>,
    /// Drop-ins by file name; an empty text requires the drop-in's absence.
    pub drop_ins: BTreeMap<String, String>,
    /// Desired enablement; `None` leaves it to the presets.
    pub enabled: Option<bool>,
    /// Desired mask; `Some(false)` without contents removes an existing mask.
    pub mask: Option<bool>,
}

impl UnitSpec {
    /// True if the config masks the unit.
    #[must_use]
    pub fn is_masked(&self) -> bool {
        self.mask == Some(true)
    }

    /// True if the units are equal apart from their index.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        Self { index: 0, ..self.clone() } == Self { index: 0, ..other.clone() }
    }
}

/// The passwd section: users, whose keys and password are applied, and groups, which are only compared.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PasswdSpec {
    pub users: Vec<UserSpec>,
    /// Groups as read; a change of them is irreconcilable.
    pub groups: Value,
}

impl PasswdSpec {
    /// True if the config lists the user `core`.
    #[must_use]
    pub fn lists_core(&self) -> bool {
        self.users.iter().any(|user| user.name == CORE_USER)
    }

    /// Iterate over the SSH keys of the user `core` in order: the lines of the key file. Those of other users are put in place
    /// at the installation only.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let core = self.users.iter().filter(|user| user.name == CORE_USER);
        core.flat_map(|user| user.keys.iter().map(String::as_str))
    }

    /// The password hash that the config sets for the user `core`.
    #[must_use]
    pub fn password_hash(&self) -> Option<&str> {
        let core = self.users.iter().rev().find(|user| user.name == CORE_USER)?;
        core.password_hash.as_deref()
    }
}

/// One item of `passwd.users`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UserSpec {
    pub name: String,
    /// SSH authorized keys, in order.
    pub keys: Vec<String>,
    /// Password hash as in `crypt(5)`.
    pub password_hash: Option<String>,
    /// All other fields that the config sets, by name; a change of any of them is irreconcilable.
    pub other_fields: BTreeMap<String, Value>,
}

impl std::fmt::Debug for UserSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserSpec")
            .field("name", &self.name)
            .field("keys", &self.keys.len())
            .field("password_hash", &self.password_hash.as_ref().map(|_| "…"))
            .field("other_fields", &self.other_fields.keys())
            .finish()
    }
}

/// Image, kernel and extensions of a config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OsSpec {
    /// `spec.osImageURL`; `None` if empty.
    pub image: Option<String>,
    /// `spec.baseOSExtensionsContainerImage`; `None` if empty.
    pub extensions_image: Option<String>,
    /// `spec.kernelArguments`, split into single arguments.
    pub kernel_arguments: KernelArguments,
    pub kernel_type: KernelType,
    pub extensions: Vec<String>,
    pub fips: bool,
}

/// The kernel package set of a deployment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KernelType {
    /// The kernel of the OS image.
    #[default]
    Default,
    Realtime,
    /// The kernel with 64 KiB pages (aarch64).
    Pages64k,
}

impl KernelType {
    /// All spellings.
    pub const NAMES: [&'static str; 3] = ["default", "realtime", "64k-pages"];

    /// Parse a `spec.kernelType`. An unknown type is the default one, as in MCD; [`super::decode`] refuses it
    /// beforehand.
    #[must_use]
    pub fn canonical(spelled: &str) -> Self {
        match spelled {
            "realtime" => Self::Realtime,
            "64k-pages" => Self::Pages64k,
            _ => Self::Default,
        }
    }

    /// The spelling in a `MachineConfig`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Realtime => "realtime",
            Self::Pages64k => "64k-pages",
        }
    }
}

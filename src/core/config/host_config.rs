//! What a `MachineConfig` asks of a host, decoded: plain data that cannot be malformed.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::core::values::kernel_arguments::KernelArgument;
use crate::core::values::names::ManagedPath;

/// The file whose presence makes the reference agent skip its checks; a config may not carry it.
pub const FORCE_FILE: &str = "/run/machine-config-daemon-force";
/// Where units and drop-ins of a config live.
pub const UNIT_DIRECTORY: &str = "/etc/systemd/system";
/// The one user whose keys and password a config may set.
pub const CORE_USER: &str = "core";
/// Default mode of a file.
pub const FILE_MODE: u32 = 0o644;
/// Default mode of a directory.
pub const DIRECTORY_MODE: u32 = 0o755;

/// Everything one configuration says, decoded and validated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostConfig {
    /// The `MachineConfig`'s name.
    pub name: String,
    /// Storage files by path.
    pub files: BTreeMap<ManagedPath, FileSpec>,
    /// Storage directories by path.
    pub directories: BTreeMap<ManagedPath, DirectorySpec>,
    /// Storage links by path.
    pub links: BTreeMap<ManagedPath, LinkSpec>,
    /// Units by name.
    pub units: BTreeMap<String, UnitSpec>,
    /// The passwd section.
    pub passwd: PasswdSpec,
    /// The operating system's side.
    pub os: OsSpec,
    /// Sections that are compared but never applied, by their field below `spec.config`.
    pub unapplied: BTreeMap<&'static str, Value>,
}

/// An owner as a config names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerRef {
    /// By number.
    Id(u32),
    /// By name, resolved in the target's own passwd and group files.
    Name(String),
}

/// Owner and group; root where a config says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOwner {
    /// The user.
    pub user: OwnerRef,
    /// The group.
    pub group: OwnerRef,
}

impl Default for FileOwner {
    fn default() -> Self {
        Self { user: OwnerRef::Id(0), group: OwnerRef::Id(0) }
    }
}

/// A storage file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSpec {
    /// Its position in the config's list, which orders what is ordered by listing.
    pub index: usize,
    /// Decoded bytes; empty where only `append` is given.
    pub contents: Vec<u8>,
    /// Decoded fragments to append, in order.
    pub append: Vec<Vec<u8>>,
    /// Permission bits.
    pub mode: u32,
    /// Owner and group.
    pub owner: FileOwner,
    /// `Some(false)`: a file that is there already and not ours must stay.
    pub overwrite: Option<bool>,
}

/// A storage directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectorySpec {
    /// Its position in the config's list.
    pub index: usize,
    /// Permission bits.
    pub mode: u32,
    /// Owner and group.
    pub owner: FileOwner,
}

/// A storage link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSpec {
    /// Its position in the config's list.
    pub index: usize,
    /// What it points to, as written.
    pub target: String,
    /// A hard link to a file of the same file system.
    pub hard: bool,
    /// Owner and group of a symbolic link.
    pub owner: FileOwner,
}

/// A systemd unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitSpec {
    /// Its position in the config's list.
    pub index: usize,
    /// Text of the unit file; `None` where the config has none or an empty one.
    pub contents: Option<String>,
    /// Drop-ins by file name; an empty text means that no such drop-in may exist.
    pub drop_ins: BTreeMap<String, String>,
    /// Wanted enablement; `None` leaves it to the presets.
    pub enabled: Option<bool>,
    /// Wanted mask; `Some(false)` without contents removes one.
    pub mask: Option<bool>,
}

impl UnitSpec {
    /// Whether the unit is to be masked.
    #[must_use]
    pub fn is_masked(&self) -> bool {
        self.mask == Some(true)
    }

    /// Equal in everything but the place in its list.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        Self { index: 0, ..self.clone() } == Self { index: 0, ..other.clone() }
    }
}

/// The passwd section, as far as it is applied, and the rest for comparison.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PasswdSpec {
    /// Users in the order listed.
    pub users: Vec<UserSpec>,
    /// Groups, which cannot be changed in place.
    pub groups: Value,
}

impl PasswdSpec {
    /// Every listed user's keys, in order: the whole content of the key file.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.users.iter().flat_map(|user| user.keys.iter().map(String::as_str))
    }

    /// The password hash that the config sets for the user `core`.
    #[must_use]
    pub fn password_hash(&self) -> Option<&str> {
        let core = self.users.iter().rev().find(|user| user.name == CORE_USER)?;
        core.password_hash.as_deref()
    }
}

/// One user.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UserSpec {
    /// Login name.
    pub name: String,
    /// Authorized keys, in order.
    pub keys: Vec<String>,
    /// Password hash, `crypt(5)`.
    pub password_hash: Option<String>,
    /// Fields that the config sets beside these, none of which can be changed in place.
    pub other_fields: Vec<&'static str>,
}

impl std::fmt::Debug for UserSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserSpec")
            .field("name", &self.name)
            .field("keys", &self.keys.len())
            .field("password_hash", &self.password_hash.as_ref().map(|_| "…"))
            .field("other_fields", &self.other_fields)
            .finish()
    }
}

/// What a config says about the operating system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OsSpec {
    /// `spec.osImageURL`; `None` where it is empty.
    pub image: Option<String>,
    /// `spec.baseOSExtensionsContainerImage`; `None` where it is empty.
    pub extensions_image: Option<String>,
    /// `spec.kernelArguments`, split into single arguments.
    pub kernel_arguments: Vec<KernelArgument>,
    /// `spec.kernelType`.
    pub kernel_type: KernelType,
    /// `spec.extensions`.
    pub extensions: Vec<String>,
    /// `spec.fips`.
    pub fips: bool,
}

/// The kernel that the OS runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KernelType {
    /// The image's own.
    #[default]
    Default,
    /// The realtime kernel.
    Realtime,
    /// The kernel with 64 KiB pages (aarch64).
    Pages64k,
}

impl KernelType {
    /// The canonical type of a `spec.kernelType`: anything unknown is the default, as in the
    /// reference. Whether it *may* be unknown is the parser's concern.
    #[must_use]
    pub fn canonical(spelled: &str) -> Self {
        match spelled {
            "realtime" => Self::Realtime,
            "64k-pages" => Self::Pages64k,
            _ => Self::Default,
        }
    }

    /// As a `MachineConfig` spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Realtime => "realtime",
            Self::Pages64k => "64k-pages",
        }
    }
}

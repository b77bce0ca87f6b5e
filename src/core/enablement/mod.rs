//! Enablement of systemd units: computes the symlinks that `systemctl enable`, `disable` and `preset` would
//! leave.
//!
//! [`operate`] takes the links below `/etc/systemd/system` and the unit files of a tree and returns the links
//! as `systemctl --root=TREE` would leave them. The tree need not be running, and nothing is written. The
//! rules are those of systemd.unit(5), systemd.preset(5) and systemctl(1); where these are silent, those of
//! systemctl itself: version 252 by experiment, 257 by its source.
//!
//! Units refer to other units (`Also=`, aliases, instances), so the set of needed files is not known in
//! advance. The caller reads the units that it names, calls, and reads more files on
//! [`EnablementError::NotRead`]:
//!
//! ```
//! use flameholder::core::enablement::{
//!     EnablementError, EnablementLinks, PresetRules, SystemdVersion, UnitFile, UnitFiles, UnitName, UnitOperation,
//!     operate,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let operations = [UnitOperation::Enable(UnitName::parse("crio.service")?)];
//! let mut units = UnitFiles::default();
//! let outcome = loop {
//!     match operate(&EnablementLinks::new(), &units, &PresetRules::default(), SystemdVersion(257), &operations) {
//!         Err(EnablementError::NotRead(unread)) => {
//!             for name in unread.units {
//!                 let path = format!("/usr/lib/systemd/system/{name}");
//!                 let file = UnitFile::Regular("[Install]\nWantedBy=multi-user.target\n".to_owned());
//!                 units.add_unit(name, [(path, file)], Vec::new());
//!             }
//!         }
//!         outcome => break outcome?,
//!     }
//! };
//! assert_eq!(outcome.links["multi-user.target.wants/crio.service"], "/usr/lib/systemd/system/crio.service");
//! # Ok(())
//! # }
//! ```
//!
//! RHEL 9 differs from upstream's 252 in one rule: its `disable` fails for a unit that does not exist and
//! keeps the links. Here they are removed, as by upstream's 252 and by 257.
//!
//! A call is all or nothing: where systemctl makes some links and then fails, an error is returned and no
//! links.

mod agenda;
mod alias;
mod disable;
mod enable;
mod glob;
mod install;
mod lines;
mod name;
mod preset;
mod specifier;
mod tree;

use agenda::{LoadDepth, UnitAgenda};
use enable::BadTarget;
pub use install::InstallError;
use install::InstallSection;
pub use name::{InvalidUnitName, NameKind, UnitName};
use preset::PresetVerdict;
pub use preset::{PresetRules, SkippedLine};
pub use specifier::SpecifierError;
use tree::UnitTree;
pub use tree::{EnablementLinks, SEARCH_PATH, UnitFile, UnitFiles, UnreadFiles};

/// The version of systemd in the tree, as in `systemctl --version`: a few rules have changed since 252.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SystemdVersion(pub u32);

/// One call of systemctl for one unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitOperation {
    /// `systemctl enable NAME`
    Enable(UnitName),
    /// `systemctl disable NAME`
    Disable(UnitName),
    /// `systemctl preset NAME`
    Preset(UnitName),
}

/// The links after all operations, with systemctl's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnablementOutcome {
    /// All links, including unchanged ones. Directories that are empty now are left to the caller to remove.
    pub links: EnablementLinks,
    /// The messages that systemctl would have printed.
    pub notes: Vec<EnablementNote>,
}

/// A condition that an operator may want to know and that does not stop the operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnablementNote {
    /// A unit to be enabled has no `[Install]` section.
    NothingToInstall { unit: UnitName },
    /// A unit is masked, so it was neither enabled nor disabled together with another one.
    MaskedSkipped { unit: UnitName },
    /// A unit listed in another unit's `Also=` could not be enabled.
    AlsoSkipped { unit: UnitName, error: EnablementError },
    /// A unit to be disabled cannot be loaded: links of its name were removed, units in its `Also=` are
    /// unknown.
    NotLoaded { unit: UnitName, error: EnablementError },
    /// A unit to be preset was given by an alias; presets apply to a unit's own name only.
    PresetOfAlias {
        alias: UnitName,
        /// The unit that the alias leads to.
        unit: UnitName,
    },
}

/// The reason why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnablementError {
    /// Not a failure: the caller must read these units and files and call again.
    #[error("unit files have not been read yet: {0:?}")]
    NotRead(UnreadFiles),
    /// Neither the unit nor its template has a file.
    #[error("unit {unit} does not exist")]
    Missing { unit: UnitName },
    /// A masked unit cannot be enabled; it must be unmasked first.
    #[error("unit {unit} is masked by {path}")]
    Masked {
        unit: UnitName,
        /// The empty file, or the link to `/dev/null`.
        path: String,
    },
    /// The name is only a link in `/etc/systemd/system`, made by enabling another unit; that unit must be
    /// named instead.
    #[error("{unit} is only a link in /etc/systemd/system; name the unit that it points to")]
    LinkInConfig { unit: UnitName },
    /// The name is a dangling alias.
    #[error("{alias} is an alias of {unit}, which does not exist")]
    Dangling { alias: UnitName, unit: UnitName },
    /// The name is a link that systemd does not accept as an alias, such as one to a unit of another type.
    #[error("{unit} is a link to {target}, which systemd does not accept as an alias")]
    InvalidLink {
        unit: UnitName,
        /// The link's target, as an absolute path.
        target: String,
    },
    /// A loop of links, or more links than systemctl follows.
    #[error("too many levels of symbolic links from {unit}")]
    LinkLoop {
        /// The last name that was followed.
        unit: UnitName,
    },
    /// Only services, sockets, targets, timers and paths can have templates.
    #[error("units of the type of {unit} cannot be templates")]
    NoTemplates { unit: UnitName },
    /// The unit's files cannot be used.
    #[error("reading [Install] of {unit}")]
    Install { unit: UnitName, source: InstallError },
    /// `Alias=` lists a name that cannot be an alias of the unit.
    #[error("{unit} cannot have the alias {alias:?}")]
    InvalidAlias {
        unit: UnitName,
        /// The name, with specifiers expanded.
        alias: String,
    },
    /// `WantedBy=` or a sibling lists a word that is not a unit name, or a plain unit for a template without
    /// default instance.
    #[error("{unit} cannot be a dependency of {target:?}")]
    BadTarget {
        unit: UnitName,
        /// The word, with specifiers expanded.
        target: String,
    },
    /// A file exists at the path of a new link.
    #[error("{path} already exists and is a file")]
    OccupiedByFile { path: String },
    /// A link to another unit exists at the path of a new link; that unit must be disabled first.
    #[error("{path} already exists and is a link to {target}")]
    OccupiedByLink {
        path: String,
        /// The existing link's target as written.
        target: String,
    },
}

impl From<UnreadFiles> for EnablementError {
    fn from(unread: UnreadFiles) -> Self {
        Self::NotRead(unread)
    }
}

impl SystemdVersion {
    fn knows_upheld_by(self) -> bool {
        self.0 >= 254
    }

    fn knows_preset_ignore(self) -> bool {
        self.0 >= 254
    }

    fn replaces_broken_aliases(self) -> bool {
        self.0 >= 253
    }

    /// True from 257 on. 252 does not; the versions between are treated like 252.
    fn links_aliases_to_linked_units(self) -> bool {
        self.0 >= 257
    }
}

/// Return the key and name of each unit that `[Install]` in a file of `unit` replaces, holds back, or takes along when it is
/// disabled.
#[must_use]
pub fn affected_units(
    unit: &UnitName,
    contents: &str,
    version: SystemdVersion,
) -> Vec<(&'static str, String)> {
    let mut section = InstallSection::default();
    // A damaged line is refused when the unit is enabled; the lines before it count here.
    drop(section.read(unit, contents, version));
    section.affected(unit)
}

/// Perform the operations one after the other, each like one call of systemctl.
pub fn operate(
    links: &EnablementLinks,
    units: &UnitFiles,
    presets: &PresetRules,
    version: SystemdVersion,
    operations: &[UnitOperation],
) -> Result<EnablementOutcome, EnablementError> {
    let mut tree = UnitTree { units, links: links.clone() };
    let mut notes = Vec::new();
    for operation in operations {
        match operation {
            UnitOperation::Enable(unit) => {
                let mut agenda = UnitAgenda::new(version);
                agenda.discover_unmasked(&tree, unit)?;
                enable::apply(&mut tree, agenda, version, BadTarget::Refuse, &mut notes)?;
            }
            UnitOperation::Disable(unit) => {
                let mut agenda = UnitAgenda::new(version);
                agenda.add(unit, agenda::AgendaOrigin::Asked);
                disable::apply(&mut tree, agenda, &mut notes)?;
            }
            UnitOperation::Preset(unit) => preset_unit(&mut tree, presets, version, unit, &mut notes)?,
        }
    }
    Ok(EnablementOutcome { links: tree.links, notes })
}

fn preset_unit(
    tree: &mut UnitTree<'_>,
    presets: &PresetRules,
    version: SystemdVersion,
    unit: &UnitName,
    notes: &mut Vec<EnablementNote>,
) -> Result<(), EnablementError> {
    let found = UnitAgenda::new(version).discover(tree, unit, LoadDepth::Existence)?;
    if found != *unit {
        notes.push(EnablementNote::PresetOfAlias { alias: unit.clone(), unit: found });
        return Ok(());
    }
    let mut agenda = UnitAgenda::new(version);
    match presets.verdict(unit) {
        PresetVerdict::Ignore => Ok(()),
        PresetVerdict::Disable => {
            // [Install] is not loaded: a preset that disables a unit does not disable the units in its Also=.
            agenda.discover(tree, unit, LoadDepth::Existence)?;
            disable::apply(tree, agenda, notes)
        }
        PresetVerdict::Enable(instances) => {
            for instance in &instances {
                agenda.discover_unmasked(tree, instance)?;
            }
            enable::apply(tree, agenda, version, BadTarget::Skip, notes)
        }
    }
}

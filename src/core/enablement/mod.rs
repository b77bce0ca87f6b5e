//! Which symlinks `systemctl enable`, `disable` and `preset` would leave.
//!
//! [`operate`] takes the links below `/etc/systemd/system` and the unit files of a tree and returns
//! the links as `systemctl --root=TREE` would leave them: the tree need not run, and nothing is
//! written. The rules are those of systemd.unit(5), systemd.preset(5) and systemctl(1), and where
//! these are silent, of systemctl itself: 252 by experiment, 257 by its source.
//!
//! Units bring others along (`Also=`, aliases, instances), so nobody knows in advance which files
//! matter. The caller reads the units that it names, asks, and reads more when told so:
//!
//! ```
//! use flameholder::core::enablement::{
//!     EnablementError, Links, Operation, Presets, SystemdVersion, UnitFile, UnitFiles, UnitName, operate,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let operations = [Operation::Enable(UnitName::parse("crio.service")?)];
//! let mut units = UnitFiles::default();
//! let outcome = loop {
//!     match operate(&Links::new(), &units, &Presets::default(), SystemdVersion(257), &operations) {
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
//! RHEL 9 differs from upstream's 252 in one rule: there, `disable` of a unit that does not exist
//! fails and leaves its links. Here they go, as with upstream's 252 and with 257.
//!
//! A call is all or nothing: where systemctl makes some links and then fails, there is an error and
//! no links.

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

pub use install::InstallError;
pub use name::{InvalidUnitName, NameKind, UnitName};
pub use preset::{PresetRules, SkippedLine};
pub use specifier::SpecifierError;
pub use tree::{EnablementLinks, SEARCH_PATH, UnitFile, UnitFiles, UnreadFiles};

use agenda::{LoadDepth, UnitAgenda};
use enable::BadTarget;
use preset::PresetVerdict;
use tree::UnitTree;

/// The version of systemd in the tree, as in `systemctl --version`: a few rules have changed since
/// 252.
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

/// What the operations leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnablementOutcome {
    /// All links, the untouched ones included. Directories that are empty now are the caller's to
    /// remove.
    pub links: EnablementLinks,
    /// What systemctl would have printed.
    pub notes: Vec<EnablementNote>,
}

/// Something that an operator may want to know, and that stops nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnablementNote {
    /// The unit was to be enabled and has no `[Install]`.
    NothingToInstall {
        /// The unit.
        unit: UnitName,
    },
    /// The unit is masked, so it was neither enabled nor disabled along with another one.
    MaskedSkipped {
        /// The unit.
        unit: UnitName,
    },
    /// A unit listed in `Also=` could not be enabled.
    AlsoSkipped {
        /// The unit.
        unit: UnitName,
        /// Why.
        error: EnablementError,
    },
    /// The unit was to be disabled and cannot be loaded: links of that name are gone, what its
    /// `Also=` says is unknown.
    NotLoaded {
        /// The unit.
        unit: UnitName,
        /// Why.
        error: EnablementError,
    },
    /// The name to preset is another name of a unit, and presets apply to the unit's own name only.
    PresetOfAlias {
        /// The name.
        alias: UnitName,
        /// The unit.
        unit: UnitName,
    },
}

/// Why there are no links.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnablementError {
    /// Not a failure: read these units and files, then ask again.
    #[error("unit files have not been read yet: {0:?}")]
    NotRead(UnreadFiles),
    /// Neither the unit nor its template exists.
    #[error("unit {unit} does not exist")]
    Missing {
        /// The unit.
        unit: UnitName,
    },
    /// The unit must be unmasked first.
    #[error("unit {unit} is masked by {path}")]
    Masked {
        /// The unit.
        unit: UnitName,
        /// The empty file, or the link to `/dev/null`.
        path: String,
    },
    /// The name is a link in `/etc/systemd/system`: made by enabling another unit, which is the one
    /// to name.
    #[error("{unit} is only a link in /etc/systemd/system")]
    LinkInConfig {
        /// The name.
        unit: UnitName,
    },
    /// The name is a link to a unit that does not exist.
    #[error("{alias} stands for {unit}, which does not exist")]
    Dangling {
        /// The name.
        alias: UnitName,
        /// The unit that is missing.
        unit: UnitName,
    },
    /// The name is a link that systemd does not honour, to another type for instance.
    #[error("{unit} is a link to {target}, which it cannot stand for")]
    InvalidLink {
        /// The name.
        unit: UnitName,
        /// The absolute path.
        target: String,
    },
    /// Links lead in a circle.
    #[error("too many links from {unit}")]
    LinkLoop {
        /// The last name looked at.
        unit: UnitName,
    },
    /// Only services, sockets, targets, timers and paths have templates.
    #[error("{unit} is of a type that has no templates")]
    NoTemplates {
        /// The unit.
        unit: UnitName,
    },
    /// The files of the unit cannot be used.
    #[error("reading [Install] of {unit}")]
    Install {
        /// The unit.
        unit: UnitName,
        /// What is wrong with them.
        source: InstallError,
    },
    /// `Alias=` asks for a name that cannot stand for the unit.
    #[error("{unit} cannot have the alias {alias:?}")]
    InvalidAlias {
        /// The unit.
        unit: UnitName,
        /// The name, specifiers expanded.
        alias: String,
    },
    /// `WantedBy=` or a sibling names no unit, or a template without default instance is wanted by
    /// a plain unit.
    #[error("{unit} cannot be a dependency of {target:?}")]
    BadTarget {
        /// The unit.
        unit: UnitName,
        /// The word, specifiers expanded.
        target: String,
    },
    /// A file is where a link is to be made.
    #[error("{path} exists already and is a file")]
    OccupiedByFile {
        /// Absolute path.
        path: String,
    },
    /// A link to another unit is where a link is to be made: disable that unit first.
    #[error("{path} exists already and leads to {target}")]
    OccupiedByLink {
        /// Absolute path.
        path: String,
        /// Target as written.
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

    /// 257 does and 252 does not; the versions between are taken for 252.
    fn links_aliases_to_linked_units(self) -> bool {
        self.0 >= 257
    }
}

/// Performs the operations one after the other, as single calls of systemctl.
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
            // Without [Install]: a preset that disables a unit does not disable what the unit lists
            // in Also=.
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

//! Texts of the unit files, drop-ins and presets of a tree.

use std::collections::BTreeMap;

use crate::core::enablement::UnitFile;
use crate::core::values::names::ManagedPath;

/// Directories in which systemd looks for presets, highest precedence first (`systemd.preset(5)`).
pub const PRESET_PATH: [&str; 4] = [
    "/etc/systemd/system-preset",
    "/run/systemd/system-preset",
    "/usr/local/lib/systemd/system-preset",
    "/usr/lib/systemd/system-preset",
];

/// Unit files, drop-ins and preset files, by path.
pub type UnitTexts = BTreeMap<ManagedPath, UnitFile>;

//! Where unit files and presets of a tree are read from.

use std::collections::BTreeMap;

use crate::core::enablement::UnitFile;
use crate::core::values::names::ManagedPath;

/// Where systemd looks for presets, highest precedence first (`systemd.preset(5)`).
pub const PRESET_PATH: [&str; 4] = [
    "/etc/systemd/system-preset",
    "/run/systemd/system-preset",
    "/usr/local/lib/systemd/system-preset",
    "/usr/lib/systemd/system-preset",
];

/// Unit files, drop-ins and preset files by path.
pub type UnitTexts = BTreeMap<ManagedPath, UnitFile>;

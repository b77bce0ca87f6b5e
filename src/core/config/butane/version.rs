//! Versions of Butane configs, and the Ignition version that each is translated to.

use serde_json::Value;

use crate::core::values::refusal::RefusalList;

/// Accepted variants and versions, as errors list them.
const ACCEPTED: &str =
    "`variant: fcos` with 1.0.0 to 1.7.0, and `variant: openshift` with 4.8.0 to 4.22.0 and 5.0.0";
/// Number of the first Ignition version with each key, by the key's path without indices.
const SINCE: [(&str, u32); 9] = [
    ("storage.trees", 1),
    ("storage.trees.dir_mode", 6),
    ("storage.trees.file_mode", 6),
    ("storage.trees.group", 6),
    ("storage.trees.user", 6),
    ("kernel_arguments", 3),
    ("systemd.units.contents_local", 4),
    ("systemd.units.dropins.contents_local", 4),
    ("passwd.users.ssh_authorized_keys_local", 4),
];
/// Characters of an unknown version that an error shows.
const SHOWN: usize = 32;

/// Kind of system that a config is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ButaneVariant {
    FedoraCoreOs,
    OpenShift,
}

/// Variant and version of a config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ButaneVersion {
    pub(super) variant: ButaneVariant,
    /// Second number of the Ignition version, 3.N.0.
    ignition: u32,
}

impl ButaneVersion {
    /// Read variant and version.
    pub(super) fn of(document: &Value) -> Result<Self, RefusalList> {
        let text = |key: &str| document.get(key).and_then(Value::as_str);
        let shown = |text: Option<&str>| match text {
            Some(text) => format!("`{}`", text.chars().take(SHOWN).collect::<String>()),
            None => "no text".to_owned(),
        };
        let (name, version) = (text("variant"), text("version"));
        let (variant, ignition) = match name {
            Some("fcos") => (ButaneVariant::FedoraCoreOs, version.and_then(of_fedora_coreos)),
            Some("openshift") => (ButaneVariant::OpenShift, version.and_then(of_openshift)),
            other => {
                let reason =
                    format!("{} is no variant that is translated; accepted: {ACCEPTED}", shown(other));
                return Err(RefusalList::one("variant", reason));
            }
        };
        let unknown = || {
            let reason = format!("{} is no version of this variant; accepted: {ACCEPTED}", shown(version));
            RefusalList::one("version", reason)
        };
        Ok(Self { variant, ignition: ignition.ok_or_else(unknown)? })
    }

    /// Return the Ignition version.
    pub(super) fn ignition(self) -> String {
        format!("3.{}.0", self.ignition)
    }

    /// Return true if the version defines this key, one of those that came later than the first version.
    pub(super) fn defines(self, key: &str) -> bool {
        SINCE.iter().all(|(name, since)| *name != key || self.ignition >= *since)
    }
}

fn of_fedora_coreos(version: &str) -> Option<u32> {
    Some(match version {
        "1.0.0" => 0,
        "1.1.0" => 1,
        "1.2.0" | "1.3.0" => 2,
        "1.4.0" => 3,
        "1.5.0" => 4,
        "1.6.0" => 5,
        "1.7.0" => 6,
        _ => return None,
    })
}

fn of_openshift(version: &str) -> Option<u32> {
    if version == "5.0.0" {
        return Some(6);
    }
    let minor: u32 = version.strip_prefix("4.")?.strip_suffix(".0")?.parse().ok()?;
    Some(match minor {
        8..=13 => 2,
        14..=18 => 4,
        // Butane 0.28 translated 4.22.0 to 3.6.0, which its machine-config-operator does not support.
        19..=22 => 5,
        _ => return None,
    })
}

//! Node disruption policy: the actions (reload, restart, drain, reboot) that a changed file or unit needs.
//! Rules of the cluster, or else of the host's settings, lie over the MCO's defaults; an older table applies on
//! first boot, before a policy can be read.

use std::collections::BTreeSet;

use crate::core::config::protected::is_protected_unit;
use crate::core::enablement::UnitName;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{KUBELET_PULL_SECRET, SIGNATURE_POLICY};

/// One action after a change; the change counts as applied when all of them are done.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum DisruptionAction {
    None,
    /// `systemctl daemon-reload`
    DaemonReload,
    /// Reload of this unit.
    Reload(String),
    /// Restart of this unit.
    Restart(String),
    /// Reload of CRI-O for `registries.conf`, after a drain if [`super::registries::needs_drain`] returns
    /// true.
    Special,
    /// Drain of the node before the change.
    Drain,
    Reboot,
}

impl std::fmt::Display for DisruptionAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("no disruption"),
            Self::DaemonReload => f.write_str("systemd reloads its units (daemon-reload)"),
            Self::Reload(unit) => write!(f, "{unit} is reloaded"),
            Self::Restart(unit) => write!(f, "{unit} is restarted"),
            Self::Special => write!(f, "{CONTAINER_RUNTIME} is reloaded"),
            Self::Drain => f.write_str("the node is drained"),
            Self::Reboot => f.write_str("the host reboots"),
        }
    }
}

impl DisruptionAction {
    /// Parse the name of the unit that an action reloads or restarts. The agent's own units, and those that it finalizes
    /// deployments with, are refused: a restart of the daemon ends the update that asked for it, and each attempt to undo it.
    pub fn parse_unit(name: &str) -> Result<String, String> {
        UnitName::parse(name).map_err(|error| error.to_string())?;
        if is_protected_unit(name) {
            return Err(format!(
                "{name} cannot be restarted or reloaded by an update: the agent works with it"
            ));
        }
        Ok(name.to_owned())
    }
}

/// CRI-O's unit, reloaded by [`DisruptionAction::Special`].
pub const CONTAINER_RUNTIME: &str = "crio.service";
/// The file of [`DisruptionAction::Special`].
pub const REGISTRIES: &str = "/etc/containers/registries.conf";

const CA_TRUST: &str = "coreos-update-ca-trust.service";
const KUBELET: &str = "kubelet.service";
const REGISTRY_MIRROR: &str = "iri-registry.service";
const GPG_KEY: &str = "/etc/machine-config-daemon/no-reboot/containers-gpg.pub";
const SIGNATURE_SOURCES: &str = "/etc/containers/registries.d";
const USER_CA_BUNDLE: &str = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt";
const CREDENTIAL_DROP_IN: &str =
    "/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf";

/// The paths that a rule covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cover {
    /// The path and everything below it.
    Within,
    /// Direct children of the path only.
    Children,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FileRule {
    path: String,
    cover: Cover,
    actions: Vec<DisruptionAction>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct UnitRule {
    name: String,
    actions: Vec<DisruptionAction>,
}

/// Rules for files by path, for units by name, and for SSH keys and passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionPolicy {
    files: Vec<FileRule>,
    units: Vec<UnitRule>,
    keys: Vec<DisruptionAction>,
    /// Sections of a MachineConfig whose changes are let through without being applied.
    overrides: BTreeSet<&'static str>,
}

/// Return true if the defaults have an action for this unit. A host without a cluster may have no such unit.
#[must_use]
pub fn is_unit_of_defaults(unit: &str) -> bool {
    let DisruptionPolicy { files, units, .. } = DisruptionPolicy::default();
    let actions = files.into_iter().flat_map(|rule| rule.actions);
    actions.chain(units.into_iter().flat_map(|rule| rule.actions)).any(|action| match action {
        DisruptionAction::Reload(name) | DisruptionAction::Restart(name) => name == unit,
        DisruptionAction::Special => unit == CONTAINER_RUNTIME,
        _ => false,
    })
}

impl Default for DisruptionPolicy {
    /// The defaults that the MCO ships.
    fn default() -> Self {
        let none = || vec![DisruptionAction::None];
        let reload_runtime = || vec![DisruptionAction::Reload(CONTAINER_RUNTIME.to_owned())];
        let reread_and_restart = |unit| [vec![DisruptionAction::DaemonReload], restart(&[unit])].concat();
        let mut policy = Self { keys: none(), ..Self::empty() };
        for (path, actions) in [
            (KUBELET_PULL_SECRET, none()),
            ("/etc/nmstate/openshift", none()),
            (GPG_KEY, reload_runtime()),
            (SIGNATURE_POLICY, reload_runtime()),
            (SIGNATURE_SOURCES, reload_runtime()),
            ("/etc/crio/policies", reload_runtime()),
            (REGISTRIES, vec![DisruptionAction::Special]),
            (USER_CA_BUNDLE, restart(&[CA_TRUST, CONTAINER_RUNTIME])),
            ("/etc/kubernetes/credential-providers", restart(&[KUBELET])),
            (CREDENTIAL_DROP_IN, reread_and_restart(KUBELET)),
            ("/etc/iri-registry", restart(&[REGISTRY_MIRROR])),
            ("/usr/local/bin/load-registry-image.sh", restart(&[REGISTRY_MIRROR])),
            ("/etc/pki/ca-trust/source/anchors/iri-root-ca.crt", restart(&[CA_TRUST])),
        ] {
            policy.set_file(path, actions);
        }
        policy.set_unit(REGISTRY_MIRROR, reread_and_restart(REGISTRY_MIRROR));
        policy
    }
}

fn restart(units: &[&str]) -> Vec<DisruptionAction> {
    units.iter().map(|unit| DisruptionAction::Restart((*unit).to_owned())).collect()
}

impl DisruptionPolicy {
    /// The table for a first boot, when no policy can be read from the cluster.
    #[must_use]
    pub fn legacy() -> Self {
        let reload = || vec![DisruptionAction::Reload(CONTAINER_RUNTIME.to_owned())];
        let rules = [
            ("/etc/kubernetes/kubelet-ca.crt", Cover::Within, vec![DisruptionAction::None]),
            (KUBELET_PULL_SECRET, Cover::Within, vec![DisruptionAction::None]),
            ("/etc/nmstate/openshift", Cover::Children, vec![DisruptionAction::None]),
            (REGISTRIES, Cover::Within, vec![DisruptionAction::Special]),
            (GPG_KEY, Cover::Within, reload()),
            (SIGNATURE_POLICY, Cover::Within, reload()),
            (SIGNATURE_SOURCES, Cover::Children, reload()),
            (USER_CA_BUNDLE, Cover::Within, restart(&[CA_TRUST, CONTAINER_RUNTIME])),
        ];
        let files = rules.map(|(path, cover, actions)| FileRule { path: path.to_owned(), cover, actions });
        Self { files: files.to_vec(), ..Self::empty() }
    }

    /// Let changes of a section through, by the name in `spec.irreconcilableValidationOverrides.storage`. Names that a
    /// newer operator knows are without effect.
    pub fn override_section(&mut self, name: &str) {
        self.overrides.extend(match name {
            "Disks" => Some("spec.config.storage.disks"),
            "FileSystems" => Some("spec.config.storage.filesystems"),
            "Raid" => Some("spec.config.storage.raid"),
            _ => None,
        });
    }

    /// Return true if a change of this field of a MachineConfig is let through, although no installed host applies it.
    #[must_use]
    pub fn is_overridden(&self, field: &str) -> bool {
        self.overrides.contains(field)
    }

    /// No rules: every change of a file or unit reboots the host.
    #[must_use]
    pub fn empty() -> Self {
        let keys = vec![DisruptionAction::None];
        Self { files: Vec::new(), units: Vec::new(), keys, overrides: BTreeSet::new() }
    }

    /// Set the rule for exactly this path.
    pub fn set_file(&mut self, path: &str, actions: Vec<DisruptionAction>) {
        let path = path.trim_end_matches('/');
        self.files.retain(|rule| rule.path != path);
        self.files.push(FileRule { path: path.to_owned(), cover: Cover::Within, actions });
    }

    /// Set the rule for this unit.
    pub fn set_unit(&mut self, name: &str, actions: Vec<DisruptionAction>) {
        self.units.retain(|rule| rule.name != name);
        self.units.push(UnitRule { name: name.to_owned(), actions });
    }

    /// Set the rule for SSH keys and passwords.
    pub fn set_keys(&mut self, actions: Vec<DisruptionAction>) {
        self.keys = actions;
    }

    /// The actions for a changed file, with the path of their rule: the longest path that covers the file.
    /// `None` means that the host reboots.
    #[must_use]
    pub fn of_file(&self, path: &ManagedPath) -> Option<(&str, &[DisruptionAction])> {
        let covering = self.files.iter().filter(|rule| match rule.cover {
            Cover::Within => path.is_within(&rule.path),
            Cover::Children => path.parent().is_some_and(|parent| parent.as_str() == rule.path),
        });
        let rule = covering.max_by_key(|rule| rule.path.len())?;
        Some((&rule.path, &rule.actions))
    }

    /// The actions for a changed unit, by exact name; `None` means that the host reboots.
    #[must_use]
    pub fn of_unit(&self, name: &str) -> Option<&[DisruptionAction]> {
        let rule = self.units.iter().find(|rule| rule.name == name)?;
        Some(&rule.actions)
    }

    /// The actions for changed SSH keys or passwords.
    #[must_use]
    pub fn of_keys(&self) -> &[DisruptionAction] {
        &self.keys
    }
}

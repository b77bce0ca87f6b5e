//! Which action a changed file or unit asks for: the cluster's node disruption policy over the
//! defaults that its operator ships, or the older table that holds before a policy is known.

use crate::core::values::names::ManagedPath;

/// What is done after a change, before it counts as applied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum DisruptionAction {
    /// Nothing.
    None,
    /// systemd rereads its unit files.
    DaemonReload,
    /// A unit rereads its configuration.
    Reload(String),
    /// A unit is restarted.
    Restart(String),
    /// `registries.conf`: CRI-O rereads it, after a drain where [`super::registries`] says so.
    Special,
    /// The node is drained first.
    Drain,
    /// The host reboots.
    Reboot,
}

/// The unit that serves containers, reloaded by [`DisruptionAction::Special`].
pub const CONTAINER_RUNTIME: &str = "crio.service";
/// The file that [`DisruptionAction::Special`] is about.
pub const REGISTRIES: &str = "/etc/containers/registries.conf";

const CA_TRUST: &str = "coreos-update-ca-trust.service";
const KUBELET: &str = "kubelet.service";
const REGISTRY_MIRROR: &str = "iri-registry.service";
const PULL_SECRET: &str = "/var/lib/kubelet/config.json";
const GPG_KEY: &str = "/etc/machine-config-daemon/no-reboot/containers-gpg.pub";
const SIGNATURE_POLICY: &str = "/etc/containers/policy.json";
const SIGNATURE_SOURCES: &str = "/etc/containers/registries.d";
const USER_CA_BUNDLE: &str = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt";
const CREDENTIAL_DROP_IN: &str =
    "/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf";

/// Which paths a rule covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cover {
    /// The path itself and all below it.
    Within,
    /// What lies directly in it.
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

/// Rules for files by path, for units by name, and for keys and passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionPolicy {
    files: Vec<FileRule>,
    units: Vec<UnitRule>,
    keys: Vec<DisruptionAction>,
}

impl Default for DisruptionPolicy {
    /// What the cluster's operator ships.
    fn default() -> Self {
        let none = || vec![DisruptionAction::None];
        let reload_runtime = || vec![DisruptionAction::Reload(CONTAINER_RUNTIME.to_owned())];
        let reread_and_restart = |unit| [vec![DisruptionAction::DaemonReload], restart(&[unit])].concat();
        let mut policy = Self { files: Vec::new(), units: Vec::new(), keys: none() };
        for (path, actions) in [
            (PULL_SECRET, none()),
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
    /// The table that holds where no policy can be asked for: on a first boot.
    #[must_use]
    pub fn legacy() -> Self {
        let reload = || vec![DisruptionAction::Reload(CONTAINER_RUNTIME.to_owned())];
        let rules = [
            ("/etc/kubernetes/kubelet-ca.crt", Cover::Within, vec![DisruptionAction::None]),
            (PULL_SECRET, Cover::Within, vec![DisruptionAction::None]),
            ("/etc/nmstate/openshift", Cover::Children, vec![DisruptionAction::None]),
            (REGISTRIES, Cover::Within, vec![DisruptionAction::Special]),
            (GPG_KEY, Cover::Within, reload()),
            (SIGNATURE_POLICY, Cover::Within, reload()),
            (SIGNATURE_SOURCES, Cover::Children, reload()),
            (USER_CA_BUNDLE, Cover::Within, restart(&[CA_TRUST, CONTAINER_RUNTIME])),
        ];
        let files = rules.map(|(path, cover, actions)| FileRule { path: path.to_owned(), cover, actions });
        Self { files: files.to_vec(), units: Vec::new(), keys: vec![DisruptionAction::None] }
    }

    /// No rules at all: every change of a file or unit reboots.
    #[must_use]
    pub fn empty() -> Self {
        Self { files: Vec::new(), units: Vec::new(), keys: vec![DisruptionAction::None] }
    }

    /// Replaces the rule for this very path, or adds one.
    pub fn set_file(&mut self, path: &str, actions: Vec<DisruptionAction>) {
        let path = path.trim_end_matches('/');
        self.files.retain(|rule| rule.path != path);
        self.files.push(FileRule { path: path.to_owned(), cover: Cover::Within, actions });
    }

    /// Replaces the rule for this unit, or adds one.
    pub fn set_unit(&mut self, name: &str, actions: Vec<DisruptionAction>) {
        self.units.retain(|rule| rule.name != name);
        self.units.push(UnitRule { name: name.to_owned(), actions });
    }

    /// Replaces the rule for keys and passwords.
    pub fn set_keys(&mut self, actions: Vec<DisruptionAction>) {
        self.keys = actions;
    }

    /// The actions for a changed file: those of the longest path that covers it, with that path.
    /// `None`: no rule, so the host reboots.
    #[must_use]
    pub fn of_file(&self, path: &ManagedPath) -> Option<(&str, &[DisruptionAction])> {
        let covering = self.files.iter().filter(|rule| match rule.cover {
            Cover::Within => path.is_within(&rule.path),
            Cover::Children => path.parent().is_some_and(|parent| parent.as_str() == rule.path),
        });
        let rule = covering.max_by_key(|rule| rule.path.len())?;
        Some((&rule.path, &rule.actions))
    }

    /// The actions for a changed unit, by exact name.
    #[must_use]
    pub fn of_unit(&self, name: &str) -> Option<&[DisruptionAction]> {
        let rule = self.units.iter().find(|rule| rule.name == name)?;
        Some(&rule.actions)
    }

    /// The actions for changed keys or passwords.
    #[must_use]
    pub fn of_keys(&self) -> &[DisruptionAction] {
        &self.keys
    }
}

//! Disruption of an update: the fewest actions (reload, restart, drain, reboot) that its differences need,
//! each with its reasons.

use std::iter;

use super::diff::{ChangedItem, ConfigDiff};
use crate::core::config::host_config::{HostConfig, UNIT_DIRECTORY};
use crate::core::config::policy::{CONTAINER_RUNTIME, DisruptionAction, DisruptionPolicy, REGISTRIES};
use crate::core::config::registries;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::ChangeKind;

/// Action with all its causes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredAction {
    pub action: DisruptionAction,
    /// Causes, one line each.
    pub because: Vec<String>,
}

/// Disruption of the workload by an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disruption {
    /// Actions, in the order in which they are carried out.
    pub actions: Vec<RequiredAction>,
    /// True if the node is cordoned and drained before the actions.
    pub drain: bool,
}

impl Disruption {
    /// Return true if the update needs a reboot.
    #[must_use]
    pub fn reboots(&self) -> bool {
        self.actions.iter().any(|required| required.action == DisruptionAction::Reboot)
    }

    /// Decide the disruption of `diff`, the difference between `current` and `desired`, by `policy`.
    #[must_use]
    pub fn of(
        diff: &ConfigDiff,
        current: &HostConfig,
        desired: &HostConfig,
        policy: &DisruptionPolicy,
    ) -> Self {
        let causes = causes(diff, policy);
        let reboot: Vec<String> = causes
            .iter()
            .filter(|cause| cause.actions.contains(&DisruptionAction::Reboot))
            .map(|cause| cause.because.clone())
            .collect();
        if !reboot.is_empty() {
            let required = RequiredAction { action: DisruptionAction::Reboot, because: reboot };
            return Self { actions: vec![required], drain: true };
        }
        let contents = |config: &'_ HostConfig| {
            let file = config.files.get(REGISTRIES);
            file.map(|file| file.contents.clone())
        };
        let asked = |action: &DisruptionAction| causes.iter().any(|cause| cause.actions.contains(action));
        let drain = asked(&DisruptionAction::Drain)
            || asked(&DisruptionAction::Special)
                && registries::needs_drain(contents(current).as_deref(), contents(desired).as_deref());
        Self { actions: in_order(&causes), drain }
    }
}

/// Changed item, with the actions that the policy demands for it, in order.
struct Cause {
    because: String,
    actions: Vec<DisruptionAction>,
}

fn causes(diff: &ConfigDiff, policy: &DisruptionPolicy) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (changed, what) in [
        (diff.os_image, "the OS image changes"),
        (diff.kernel_arguments, "the kernel arguments change"),
        (diff.fips, "FIPS mode changes"),
        (diff.kernel_type, "the kernel type changes"),
        (diff.extensions, "the extensions change"),
    ] {
        if changed {
            causes.push(Cause { because: what.to_owned(), actions: vec![DisruptionAction::Reboot] });
        }
    }
    for section in [&diff.files, &diff.directories, &diff.links] {
        causes.extend(listed(section).map(|(path, changed)| of_path(path, changed, policy)));
    }
    causes.extend(listed(&diff.units).map(|(name, changed)| match policy.of_unit(name) {
        Some(actions) => {
            Cause { because: format!("unit {name} {}", verb(changed.change)), actions: after_reload(actions) }
        }
        None => Cause {
            because: format!("unit {name} {} and no policy names it", verb(changed.change)),
            actions: vec![DisruptionAction::Reboot],
        },
    }));
    if diff.ssh_keys {
        causes
            .push(Cause { because: "authorized keys change".to_owned(), actions: policy.of_keys().to_vec() });
    }
    if diff.password {
        causes.push(Cause {
            because: "a password hash changes".to_owned(),
            actions: policy.of_keys().to_vec(),
        });
    }
    causes
}

/// List a section's items in the order of the config, removed items last.
fn listed<K: Ord>(
    section: &std::collections::BTreeMap<K, ChangedItem>,
) -> impl Iterator<Item = (&K, &ChangedItem)> {
    let mut items: Vec<(&K, &ChangedItem)> = section.iter().collect();
    items.sort_by_key(|(_, changed)| (changed.change == ChangeKind::Remove, changed.listed));
    items.into_iter()
}

fn of_path(path: &ManagedPath, changed: &ChangedItem, policy: &DisruptionPolicy) -> Cause {
    let verb = verb(changed.change);
    let listed = |actions: &[DisruptionAction]| {
        if path.is_within(UNIT_DIRECTORY) { after_reload(actions) } else { actions.to_vec() }
    };
    match policy.of_file(path) {
        Some((entry, actions)) if entry == path.as_str() => {
            Cause { because: format!("{path} {verb}"), actions: listed(actions) }
        }
        Some((entry, actions)) => {
            Cause { because: format!("{path} {verb} (policy for {entry})"), actions: listed(actions) }
        }
        None => Cause {
            because: format!("{path} {verb} and no policy names it"),
            actions: vec![DisruptionAction::Reboot],
        },
    }
}

/// Return the actions for a change of units: systemd reads its units again before any of them, whether or not the policy says
/// so. A restart would start the old definition; MCD gets the same from the `systemctl enable` that follows its change.
fn after_reload(actions: &[DisruptionAction]) -> Vec<DisruptionAction> {
    let others = actions.iter().filter(|action| **action != DisruptionAction::DaemonReload);
    match actions {
        [DisruptionAction::Reboot] => actions.to_vec(),
        _ => iter::once(&DisruptionAction::DaemonReload).chain(others).cloned().collect(),
    }
}

fn verb(change: ChangeKind) -> &'static str {
    match change {
        ChangeKind::Add => "is added",
        ChangeKind::Modify => "changes",
        ChangeKind::Remove => "is removed",
    }
}

/// Merge the actions of all causes. Each action occurs once, at its first mention; a restart of a unit
/// replaces its reload; the order within each cause is kept.
fn in_order(causes: &[Cause]) -> Vec<RequiredAction> {
    let restarted = |unit: &String| {
        let restart = DisruptionAction::Restart(unit.clone());
        causes.iter().any(|cause| cause.actions.contains(&restart))
    };
    let mut merged: Vec<RequiredAction> = Vec::new();
    let mut edges: Vec<(DisruptionAction, DisruptionAction)> = Vec::new();
    for cause in causes {
        let mut before: Option<DisruptionAction> = None;
        for action in &cause.actions {
            let action = match action {
                DisruptionAction::None => continue,
                DisruptionAction::Reload(unit) if restarted(unit) => DisruptionAction::Restart(unit.clone()),
                DisruptionAction::Special if restarted(&CONTAINER_RUNTIME.to_owned()) => {
                    DisruptionAction::Restart(CONTAINER_RUNTIME.to_owned())
                }
                action => action.clone(),
            };
            note(&mut merged, &action, &cause.because);
            if let Some(before) = before.replace(action.clone())
                && before != action
            {
                edges.push((before, action));
            }
        }
    }
    if merged.is_empty() {
        let because = causes.iter().map(|cause| cause.because.clone()).collect();
        return vec![RequiredAction { action: DisruptionAction::None, because }];
    }
    sorted(merged, &edges)
}

fn note(merged: &mut Vec<RequiredAction>, action: &DisruptionAction, because: &str) {
    let because = because.to_owned();
    match merged.iter_mut().find(|required| required.action == *action) {
        Some(required) if required.because.contains(&because) => {}
        Some(required) => required.because.push(because),
        None => merged.push(RequiredAction { action: action.clone(), because: vec![because] }),
    }
}

/// Sort actions topologically and stably; those in a cycle keep the order of listing. The daemon-reload comes
/// first, so that no restart runs an old unit definition.
fn sorted(
    mut waiting: Vec<RequiredAction>,
    edges: &[(DisruptionAction, DisruptionAction)],
) -> Vec<RequiredAction> {
    let mut order = Vec::with_capacity(waiting.len());
    if let Some(reload) =
        waiting.iter().position(|required| required.action == DisruptionAction::DaemonReload)
    {
        order.push(waiting.remove(reload));
    }
    while !waiting.is_empty() {
        let is_waiting =
            |action: &DisruptionAction| waiting.iter().any(|required| required.action == *action);
        let free = waiting.iter().position(|required| {
            !edges.iter().any(|(before, after)| *after == required.action && is_waiting(before))
        });
        order.push(waiting.remove(free.unwrap_or(0)));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::host_config::{FileOwner, FileSpec, InheritedAttributes};

    const CA_BUNDLE: &str = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt";
    const CREDENTIALS: &str =
        "/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf";

    fn config(files: &[(&str, &str)]) -> HostConfig {
        let mut config = HostConfig::default();
        for (index, (path, contents)) in files.iter().enumerate() {
            let spec = FileSpec {
                index,
                contents: contents.as_bytes().to_vec(),
                has_contents: true,
                append: Vec::new(),
                mode: 0o644,
                owner: FileOwner::default(),
                inherited: InheritedAttributes::default(),
                overwrite: None,
            };
            config.files.insert(ManagedPath::parse(path).unwrap(), spec);
        }
        config
    }

    fn actions(files: &[&str], policy: &DisruptionPolicy) -> (Vec<DisruptionAction>, bool) {
        let current = config(&[]);
        let listed: Vec<(&str, &str)> = files.iter().map(|path| (*path, "x=1")).collect();
        let desired = config(&listed);
        let diff = ConfigDiff::between(&current, &desired);
        let disruption = Disruption::of(&diff, &current, &desired, policy);
        (disruption.actions.into_iter().map(|required| required.action).collect(), disruption.drain)
    }

    fn restart(unit: &str) -> DisruptionAction {
        DisruptionAction::Restart(unit.to_owned())
    }

    #[test]
    fn default_policy_maps_paths_to_actions() {
        let crio = || DisruptionAction::Reload(CONTAINER_RUNTIME.to_owned());
        let trust = || restart("coreos-update-ca-trust.service");
        let rows: [(&[&str], Vec<DisruptionAction>, bool); 9] = [
            (&["/etc/anything"], vec![DisruptionAction::Reboot], true),
            (&["/var/lib/kubelet/config.json"], vec![DisruptionAction::None], false),
            (&["/etc/nmstate/openshift/deep/file.yml"], vec![DisruptionAction::None], false),
            (&["/etc/nmstate/openshift-not"], vec![DisruptionAction::Reboot], true),
            (&["/etc/containers/policy.json", "/var/lib/kubelet/config.json"], vec![crio()], false),
            (&[REGISTRIES], vec![DisruptionAction::Special], false),
            (&["/etc/containers/policy.json", CA_BUNDLE], vec![trust(), restart(CONTAINER_RUNTIME)], false),
            (
                &["/etc/kubernetes/credential-providers/x.yaml", CREDENTIALS],
                vec![DisruptionAction::DaemonReload, restart("kubelet.service")],
                false,
            ),
            (&[CA_BUNDLE, "/etc/anything"], vec![DisruptionAction::Reboot], true),
        ];
        for (files, expected, drain) in rows {
            assert_eq!(actions(files, &DisruptionPolicy::default()), (expected, drain), "{files:?}");
        }
        assert_eq!(actions(&[], &DisruptionPolicy::default()), (vec![DisruptionAction::None], false));
    }

    #[test]
    fn legacy_policy_maps_paths_to_actions() {
        let reload = || DisruptionAction::Reload(CONTAINER_RUNTIME.to_owned());
        let trust = || restart("coreos-update-ca-trust.service");
        let rows: [(&[&str], Vec<DisruptionAction>); 10] = [
            (&["/etc/random"], vec![DisruptionAction::Reboot]),
            (&["/var/lib/kubelet/config.json"], vec![DisruptionAction::None]),
            (&["/etc/kubernetes/kubelet-ca.crt"], vec![DisruptionAction::None]),
            (&["/etc/nmstate/openshift/x.yml"], vec![DisruptionAction::None]),
            (&["/etc/nmstate/openshift/deep/x.yml"], vec![DisruptionAction::Reboot]),
            (&[REGISTRIES], vec![DisruptionAction::Special]),
            (&["/etc/containers/policy.json", "/var/lib/kubelet/config.json"], vec![reload()]),
            (&["/etc/containers/registries.d/x.yaml"], vec![reload()]),
            (&[CA_BUNDLE, "/etc/containers/policy.json"], vec![trust(), restart(CONTAINER_RUNTIME)]),
            (&["/etc/crio/policies/x.json"], vec![DisruptionAction::Reboot]),
        ];
        for (files, expected) in rows {
            assert_eq!(actions(files, &DisruptionPolicy::legacy()).0, expected, "{files:?}");
        }
    }

    #[test]
    fn reboot_lists_every_cause() {
        let (current, desired) = (config(&[]), config(&[("/etc/a", ""), ("/etc/b", "")]));
        let diff = ConfigDiff::between(&current, &desired);
        let disruption = Disruption::of(&diff, &current, &desired, &DisruptionPolicy::default());
        assert!(disruption.reboots());
        assert_eq!(disruption.actions[0].because.len(), 2);
    }

    #[test]
    fn cyclic_actions_keep_the_order_of_listing() {
        let (a, b) = (restart("a.service"), restart("b.service"));
        let cause = |actions: [&DisruptionAction; 2]| Cause {
            because: "x".into(),
            actions: actions.map(Clone::clone).to_vec(),
        };
        let order = in_order(&[cause([&a, &b]), cause([&b, &a])]);
        let order: Vec<DisruptionAction> = order.into_iter().map(|required| required.action).collect();
        assert_eq!(order, [a, b]);
    }
}

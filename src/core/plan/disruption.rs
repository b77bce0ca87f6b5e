//! The least disruption that suffices for a difference, each action with its reasons.

use super::diff::{Changed, ConfigDiff};
use crate::core::config::host_config::HostConfig;
use crate::core::config::policy::{Action, CONTAINER_RUNTIME, Policy, REGISTRIES};
use crate::core::config::registries;
use crate::core::values::change::Change;
use crate::core::values::names::ManagedPath;

/// An action and everything that asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Required {
    /// What is done.
    pub action: Action,
    /// Why, one line per cause.
    pub because: Vec<String>,
}

/// What the workload on the host must bear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disruption {
    /// Actions in the order in which they are carried out.
    pub actions: Vec<Required>,
    /// Whether workloads leave first.
    pub drain: bool,
}

impl Disruption {
    /// Whether the host reboots.
    #[must_use]
    pub fn reboots(&self) -> bool {
        self.actions.iter().any(|required| required.action == Action::Reboot)
    }

    /// Decides by `policy` for `diff`, which lies between `current` and `desired`.
    #[must_use]
    pub fn of(diff: &ConfigDiff, current: &HostConfig, desired: &HostConfig, policy: &Policy) -> Self {
        let causes = causes(diff, policy);
        let reboot: Vec<String> = causes
            .iter()
            .filter(|cause| cause.actions.contains(&Action::Reboot))
            .map(|cause| cause.because.clone())
            .collect();
        if !reboot.is_empty() {
            let required = Required { action: Action::Reboot, because: reboot };
            return Self { actions: vec![required], drain: true };
        }
        let contents = |config: &'_ HostConfig| {
            let file = config.files.get(REGISTRIES);
            file.map(|file| file.contents.clone())
        };
        let asked = |action: &Action| causes.iter().any(|cause| cause.actions.contains(action));
        let drain = asked(&Action::Drain)
            || asked(&Action::Special)
                && registries::needs_drain(contents(current).as_deref(), contents(desired).as_deref());
        Self { actions: in_order(&causes), drain }
    }
}

/// One changed thing: the actions that it asks for, in order.
struct Cause {
    because: String,
    actions: Vec<Action>,
}

fn causes(diff: &ConfigDiff, policy: &Policy) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (changed, what) in [
        (diff.os_image, "the OS image changes"),
        (diff.kernel_arguments, "the kernel arguments change"),
        (diff.fips, "FIPS mode changes"),
        (diff.kernel_type, "the kernel type changes"),
        (diff.extensions, "the extensions change"),
    ] {
        if changed {
            causes.push(Cause { because: what.to_owned(), actions: vec![Action::Reboot] });
        }
    }
    for section in [&diff.files, &diff.directories, &diff.links] {
        causes.extend(listed(section).map(|(path, changed)| of_path(path, changed, policy)));
    }
    causes.extend(listed(&diff.units).map(|(name, changed)| match policy.of_unit(name) {
        Some(actions) => {
            Cause { because: format!("unit {name} {}", verb(changed.change)), actions: actions.to_vec() }
        }
        None => Cause {
            because: format!("unit {name} {} and no policy names it", verb(changed.change)),
            actions: vec![Action::Reboot],
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

/// In the order of the config's lists, removed items last.
fn listed<K: Ord>(section: &std::collections::BTreeMap<K, Changed>) -> impl Iterator<Item = (&K, &Changed)> {
    let mut items: Vec<(&K, &Changed)> = section.iter().collect();
    items.sort_by_key(|(_, changed)| (changed.change == Change::Remove, changed.listed));
    items.into_iter()
}

fn of_path(path: &ManagedPath, changed: &Changed, policy: &Policy) -> Cause {
    let verb = verb(changed.change);
    match policy.of_file(path) {
        Some((entry, actions)) if entry == path.as_str() => {
            Cause { because: format!("{path} {verb}"), actions: actions.to_vec() }
        }
        Some((entry, actions)) => {
            Cause { because: format!("{path} {verb} (policy for {entry})"), actions: actions.to_vec() }
        }
        None => {
            Cause { because: format!("{path} {verb} and no policy names it"), actions: vec![Action::Reboot] }
        }
    }
}

fn verb(change: Change) -> &'static str {
    match change {
        Change::Add => "is added",
        Change::Modify => "changes",
        Change::Remove => "is removed",
    }
}

/// Merges the causes' actions: each once, a unit's restart in place of its reload, each cause's
/// own order kept, first mentioned first.
fn in_order(causes: &[Cause]) -> Vec<Required> {
    let restarted = |unit: &String| {
        let restart = Action::Restart(unit.clone());
        causes.iter().any(|cause| cause.actions.contains(&restart))
    };
    let mut merged: Vec<Required> = Vec::new();
    let mut edges: Vec<(Action, Action)> = Vec::new();
    for cause in causes {
        let mut before: Option<Action> = None;
        for action in &cause.actions {
            let action = match action {
                Action::None => continue,
                Action::Reload(unit) if restarted(unit) => Action::Restart(unit.clone()),
                Action::Special if restarted(&CONTAINER_RUNTIME.to_owned()) => {
                    Action::Restart(CONTAINER_RUNTIME.to_owned())
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
        return vec![Required { action: Action::None, because }];
    }
    sorted(merged, &edges)
}

fn note(merged: &mut Vec<Required>, action: &Action, because: &str) {
    let because = because.to_owned();
    match merged.iter_mut().find(|required| required.action == *action) {
        Some(required) if required.because.contains(&because) => {}
        Some(required) => required.because.push(because),
        None => merged.push(Required { action: action.clone(), because: vec![because] }),
    }
}

/// A stable topological sort. What is left of a cycle keeps the order of listing. systemd rereads
/// its unit files before anything else: a restart must not run an old definition.
fn sorted(mut waiting: Vec<Required>, edges: &[(Action, Action)]) -> Vec<Required> {
    let mut order = Vec::with_capacity(waiting.len());
    if let Some(reload) = waiting.iter().position(|required| required.action == Action::DaemonReload) {
        order.push(waiting.remove(reload));
    }
    while !waiting.is_empty() {
        let is_waiting = |action: &Action| waiting.iter().any(|required| required.action == *action);
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
    use crate::core::config::host_config::{FileSpec, Owner};

    const CA_BUNDLE: &str = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt";
    const CREDENTIALS: &str =
        "/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf";

    fn config(files: &[(&str, &str)]) -> HostConfig {
        let mut config = HostConfig::default();
        for (index, (path, contents)) in files.iter().enumerate() {
            let spec = FileSpec {
                index,
                contents: contents.as_bytes().to_vec(),
                append: Vec::new(),
                mode: 0o644,
                owner: Owner::default(),
                overwrite: None,
            };
            config.files.insert(ManagedPath::parse(path).unwrap(), spec);
        }
        config
    }

    fn actions(files: &[&str], policy: &Policy) -> (Vec<Action>, bool) {
        let current = config(&[]);
        let listed: Vec<(&str, &str)> = files.iter().map(|path| (*path, "x=1")).collect();
        let desired = config(&listed);
        let diff = ConfigDiff::between(&current, &desired);
        let disruption = Disruption::of(&diff, &current, &desired, policy);
        (disruption.actions.into_iter().map(|required| required.action).collect(), disruption.drain)
    }

    fn restart(unit: &str) -> Action {
        Action::Restart(unit.to_owned())
    }

    #[test]
    fn the_default_policy() {
        let crio = || Action::Reload(CONTAINER_RUNTIME.to_owned());
        let trust = || restart("coreos-update-ca-trust.service");
        let rows: [(&[&str], Vec<Action>, bool); 9] = [
            (&["/etc/anything"], vec![Action::Reboot], true),
            (&["/var/lib/kubelet/config.json"], vec![Action::None], false),
            (&["/etc/nmstate/openshift/deep/file.yml"], vec![Action::None], false),
            (&["/etc/nmstate/openshift-not"], vec![Action::Reboot], true),
            (&["/etc/containers/policy.json", "/var/lib/kubelet/config.json"], vec![crio()], false),
            (&[REGISTRIES], vec![Action::Special], false),
            (&["/etc/containers/policy.json", CA_BUNDLE], vec![trust(), restart(CONTAINER_RUNTIME)], false),
            (
                &["/etc/kubernetes/credential-providers/x.yaml", CREDENTIALS],
                vec![Action::DaemonReload, restart("kubelet.service")],
                false,
            ),
            (&[CA_BUNDLE, "/etc/anything"], vec![Action::Reboot], true),
        ];
        for (files, expected, drain) in rows {
            assert_eq!(actions(files, &Policy::default()), (expected, drain), "{files:?}");
        }
        assert_eq!(actions(&[], &Policy::default()), (vec![Action::None], false));
    }

    #[test]
    fn the_table_before_a_policy_is_known() {
        let reload = || Action::Reload(CONTAINER_RUNTIME.to_owned());
        let trust = || restart("coreos-update-ca-trust.service");
        let rows: [(&[&str], Vec<Action>); 10] = [
            (&["/etc/random"], vec![Action::Reboot]),
            (&["/var/lib/kubelet/config.json"], vec![Action::None]),
            (&["/etc/kubernetes/kubelet-ca.crt"], vec![Action::None]),
            (&["/etc/nmstate/openshift/x.yml"], vec![Action::None]),
            (&["/etc/nmstate/openshift/deep/x.yml"], vec![Action::Reboot]),
            (&[REGISTRIES], vec![Action::Special]),
            (&["/etc/containers/policy.json", "/var/lib/kubelet/config.json"], vec![reload()]),
            (&["/etc/containers/registries.d/x.yaml"], vec![reload()]),
            (&[CA_BUNDLE, "/etc/containers/policy.json"], vec![trust(), restart(CONTAINER_RUNTIME)]),
            (&["/etc/crio/policies/x.json"], vec![Action::Reboot]),
        ];
        for (files, expected) in rows {
            assert_eq!(actions(files, &Policy::legacy()).0, expected, "{files:?}");
        }
    }

    #[test]
    fn reasons_stand_beside_the_action() {
        let (current, desired) = (config(&[]), config(&[("/etc/a", ""), ("/etc/b", "")]));
        let diff = ConfigDiff::between(&current, &desired);
        let disruption = Disruption::of(&diff, &current, &desired, &Policy::default());
        assert!(disruption.reboots());
        assert_eq!(disruption.actions[0].because.len(), 2);
    }

    #[test]
    fn a_cycle_falls_back_to_the_order_of_listing() {
        let (a, b) = (restart("a.service"), restart("b.service"));
        let cause = |actions: [&Action; 2]| Cause {
            because: "x".into(),
            actions: actions.map(Clone::clone).to_vec(),
        };
        let order = in_order(&[cause([&a, &b]), cause([&b, &a])]);
        let order: Vec<Action> = order.into_iter().map(|required| required.action).collect();
        assert_eq!(order, [a, b]);
    }
}

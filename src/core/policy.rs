//! Which action a changed file or unit asks for: the cluster's node disruption policy with the
//! defaults that its operator ships.

use super::names::ManagedPath;

/// What is done after a change, before it counts as applied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
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

/// The unit that serves containers, reloaded by [`Action::Special`].
pub const CONTAINER_RUNTIME: &str = "crio.service";
/// The file that [`Action::Special`] is about.
pub const REGISTRIES: &str = "/etc/containers/registries.conf";

/// A default entry: paths or units, and their actions in order.
type Entry<'a> = (&'a [&'a str], fn() -> Vec<Action>);

fn reload_runtime() -> Vec<Action> {
    vec![Action::Reload(CONTAINER_RUNTIME.to_owned())]
}

fn restart(units: &[&str]) -> Vec<Action> {
    units.iter().map(|unit| Action::Restart((*unit).to_owned())).collect()
}

const CA_TRUST: &str = "coreos-update-ca-trust.service";

const FILES: [Entry<'_>; 8] = [
    (&["/var/lib/kubelet/config.json", "/etc/nmstate/openshift"], || vec![Action::None]),
    (
        &[
            "/etc/machine-config-daemon/no-reboot/containers-gpg.pub",
            "/etc/containers/policy.json",
            "/etc/containers/registries.d",
            "/etc/crio/policies",
        ],
        reload_runtime,
    ),
    (&[REGISTRIES], || vec![Action::Special]),
    (&["/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt"], || {
        restart(&[CA_TRUST, CONTAINER_RUNTIME])
    }),
    (&["/etc/kubernetes/credential-providers"], || restart(&["kubelet.service"])),
    (&["/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf"], || {
        [vec![Action::DaemonReload], restart(&["kubelet.service"])].concat()
    }),
    (&["/etc/iri-registry", "/usr/local/bin/load-registry-image.sh"], || restart(&["iri-registry.service"])),
    (&["/etc/pki/ca-trust/source/anchors/iri-root-ca.crt"], || restart(&[CA_TRUST])),
];

const UNITS: [Entry<'_>; 1] = [(&["iri-registry.service"], || {
    [vec![Action::DaemonReload], restart(&["iri-registry.service"])].concat()
})];

/// The actions for a changed file: those of the longest policy path that is the file or one of
/// the directories above it. `None`: no entry, so the host reboots.
#[must_use]
pub fn of_file(path: &ManagedPath) -> Option<(&'static str, Vec<Action>)> {
    let entries = FILES.iter().flat_map(|(paths, actions)| paths.iter().map(move |path| (*path, actions)));
    let matching = entries.filter(|(entry, _)| path.is_within(entry));
    let (entry, actions) = matching.max_by_key(|(entry, _)| entry.len())?;
    Some((entry, actions()))
}

/// The actions for a changed unit, by exact name.
#[must_use]
pub fn of_unit(name: &str) -> Option<Vec<Action>> {
    let (_, actions) = UNITS.iter().find(|(names, _)| names.contains(&name))?;
    Some(actions())
}

/// The actions for changed keys or passwords.
#[must_use]
pub fn of_keys() -> Vec<Action> {
    vec![Action::None]
}

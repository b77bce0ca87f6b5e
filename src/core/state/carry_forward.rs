//! What does not go back in time with a deployment: paths below `/etc` that belong to what runs, and
//! trust material.
//!
//! An old deployment's `/etc` is frozen at the moment it was left. Whoever boots it again must not
//! get yesterday's static pods, certificates and keys with today's `/var`.

use crate::core::values::names::ManagedPath;

/// Written at run time, below `/etc`. Sources: what the kubelet, the cluster's operators, Open
/// vSwitch, CNI plugins, sshd and the account tools write on a node.
const OWNED_BY_WHAT_RUNS: [&str; 19] = [
    "/etc/kubernetes/manifests",
    "/etc/kubernetes/static-pod-resources",
    "/etc/kubernetes/kubeconfig",
    "/etc/kubernetes/kubelet-ca.crt",
    "/etc/kubernetes/ca.crt",
    "/etc/kubernetes/cni",
    "/etc/cni/net.d",
    "/etc/openvswitch",
    "/etc/docker/certs.d",
    "/etc/containers/certs.d",
    "/etc/pki/ca-trust/source/anchors",
    "/etc/iscsi/initiatorname.iscsi",
    "/etc/nvme",
    "/etc/machine-id",
    "/etc/passwd",
    "/etc/group",
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/NetworkManager/system-connections",
];

/// Host keys of the SSH server.
const HOST_KEYS: &str = "/etc/ssh/ssh_host_";

/// Trust material outside `/etc`: the pull secret, and whatever opens a user's account.
const PULL_SECRET: &str = "/var/lib/kubelet/config.json";
const AUTHORIZED_KEYS: &str = "/.ssh/authorized_keys";

/// The paths to carry into an `/etc` that is older than what ran last; directories with all below.
pub fn owned_by_what_runs() -> impl Iterator<Item = ManagedPath> {
    OWNED_BY_WHAT_RUNS.iter().map(|path| ManagedPath::constant(path))
}

/// Whether `path` is a host key, which cannot be listed by name.
#[must_use]
pub fn is_host_key(path: &ManagedPath) -> bool {
    path.as_str().starts_with(HOST_KEYS)
}

/// Whether what stands at `path` decides whom this host trusts: it is never taken from an older
/// generation.
#[must_use]
pub fn is_trust(path: &ManagedPath) -> bool {
    let anchors = ["/etc/pki/ca-trust/source/anchors", "/etc/docker/certs.d", "/etc/containers/certs.d"];
    let files = [
        PULL_SECRET,
        "/etc/kubernetes/kubelet-ca.crt",
        "/etc/kubernetes/ca.crt",
        "/etc/shadow",
        "/etc/gshadow",
    ];
    anchors.iter().any(|top| path.is_within(top))
        || files.contains(&path.as_str())
        || path.as_str().contains(AUTHORIZED_KEYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_told_by_the_path() {
        for (path, expected) in [
            ("/var/home/core/.ssh/authorized_keys.d/ignition", true),
            ("/root/.ssh/authorized_keys", true),
            ("/var/lib/kubelet/config.json", true),
            ("/etc/pki/ca-trust/source/anchors/a.crt", true),
            ("/etc/shadow", true),
            ("/etc/kubernetes/manifests/etcd.yaml", false),
            ("/etc/ssh/sshd_config", false),
        ] {
            assert_eq!(is_trust(&ManagedPath::constant(path)), expected, "{path}");
        }
        assert!(is_host_key(&ManagedPath::constant("/etc/ssh/ssh_host_rsa_key.pub")));
        assert!(owned_by_what_runs().all(|path| path.is_within("/etc")));
    }
}

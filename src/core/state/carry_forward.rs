//! Paths that do not go back in time with a rollback: run-time-owned paths below `/etc`, and trust material.
//!
//! An old deployment's `/etc` dates from the last time it was booted. When it boots again, the static pods,
//! certificates and keys of that day would meet the current `/var`; activation therefore copies the current
//! ones into it.

pub mod account_merge;
pub mod rollback;

use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{CLOUD_CA, KUBECONFIG, KUBELET_CA, MERGED_PULL_SECRET, REGISTRY_CAS};

/// Paths below `/etc` that are written at run time. Sources: the files that kubelet, cluster operators, Open
/// vSwitch, CNI plugins, sshd and the account tools (useradd, passwd) write on a node.
const RUNTIME_OWNED_PATHS: [&str; 19] = [
    "/etc/kubernetes/manifests",
    "/etc/kubernetes/static-pod-resources",
    KUBECONFIG,
    KUBELET_CA,
    "/etc/kubernetes/ca.crt",
    "/etc/kubernetes/cni",
    "/etc/cni/net.d",
    "/etc/openvswitch",
    REGISTRY_CAS,
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

/// Prefix of the SSH server's host keys.
const HOST_KEYS: &str = "/etc/ssh/ssh_host_";

/// Trust material outside `/etc`: the pull secret, and the SSH keys of users.
const PULL_SECRET: &str = "/var/lib/kubelet/config.json";
const AUTHORIZED_KEYS: &str = "/.ssh/authorized_keys";

/// List the paths to copy into the `/etc` of an older deployment; a directory stands for its whole tree.
pub fn runtime_owned_paths() -> impl Iterator<Item = ManagedPath> {
    RUNTIME_OWNED_PATHS.iter().map(|path| ManagedPath::constant(path))
}

/// Return true if `path` is an SSH host key; their number and names vary, so no list names them.
#[must_use]
pub fn is_host_key(path: &ManagedPath) -> bool {
    path.as_str().starts_with(HOST_KEYS)
}

/// Return true if the file at `path` decides whom this host trusts (keys, password hashes, pull secret, CAs).
/// Trust material is never taken from an older generation.
#[must_use]
pub fn is_trust_material(path: &ManagedPath) -> bool {
    let anchors = ["/etc/pki/ca-trust/source/anchors", REGISTRY_CAS, "/etc/containers/certs.d"];
    let files = [
        PULL_SECRET,
        MERGED_PULL_SECRET,
        KUBELET_CA,
        CLOUD_CA,
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
    fn trust_material_is_recognised_by_its_path() {
        for (path, expected) in [
            ("/var/home/core/.ssh/authorized_keys.d/ignition", true),
            ("/root/.ssh/authorized_keys", true),
            ("/var/lib/kubelet/config.json", true),
            ("/etc/pki/ca-trust/source/anchors/a.crt", true),
            ("/etc/shadow", true),
            ("/etc/kubernetes/manifests/etcd.yaml", false),
            ("/etc/ssh/sshd_config", false),
        ] {
            assert_eq!(is_trust_material(&ManagedPath::constant(path)), expected, "{path}");
        }
        assert!(is_host_key(&ManagedPath::constant("/etc/ssh/ssh_host_rsa_key.pub")));
        assert!(runtime_owned_paths().all(|path| path.is_within("/etc")));
    }
}

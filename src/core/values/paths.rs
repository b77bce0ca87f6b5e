//! Paths with a fixed meaning on a host: the agent's own, MCD's, the distribution's.

/// The record of the applied generation; see [`crate::core::state::record`].
pub const RECORD: &str = "/etc/flameholder/generation";

/// The current config: applied and verified. MCO's controllers and other tools read it too.
pub const CURRENT_CONFIG: &str = "/etc/machine-config-daemon/currentconfig";

/// The layered OS image of the current config; an empty file if the config's own image is used (MCD's
/// meaning).
pub const CURRENT_IMAGE: &str = "/etc/machine-config-daemon/currentimage";

/// Pre-images of managed paths below `/etc` that an administrator or a package wrote before they were
/// managed.
pub const ORIGINALS: &str = "/etc/flameholder/originals";

/// Pre-images of managed paths outside `/etc`.
pub const ORIGINALS_OUTSIDE_ETC: &str = "/var/lib/flameholder/originals";

/// Local versions of managed files that a change or a repair replaced, because they had drifted. Each has the version
/// that was replaced last.
pub const UNDONE: &str = "/var/lib/flameholder/undone";

/// Contents that configs name by URL and hash, each in a file that is named by its hash.
pub const FETCHED_CONTENTS: &str = "/var/lib/flameholder/fetched";

/// Environment file of the daemon's unit: source and settings that the daemon starts with.
pub const DAEMON_ENVIRONMENT: &str = "/etc/flameholder/daemon.env";

/// The kernel argument that names the generation of a boot entry, up to its value.
pub const GENERATION_ARGUMENT: &str = "flameholder.generation=";

pub const SHADOW: &str = "/etc/shadow";

/// Kubeconfig with which a kubelet joins the cluster.
pub const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";

/// Kubeconfig of the kubelet after it joined.
pub const KUBELET_KUBECONFIG: &str = "/var/lib/kubelet/kubeconfig";

/// Pull secret of the kubelet and of the container runtime.
pub const KUBELET_PULL_SECRET: &str = "/var/lib/kubelet/config.json";

/// Certificates by which the kubelet recognises its clients.
pub const KUBELET_CA: &str = "/etc/kubernetes/kubelet-ca.crt";

/// Certificates of the cloud provider's API, which static pods mount.
pub const CLOUD_CA: &str = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem";

/// Pull secret of the cluster, merged with the credentials of its own registry.
pub const MERGED_PULL_SECRET: &str = "/etc/mco/internal-registry-pull-secret.json";

/// Certificates of image registries, one directory `HOST:PORT` for each.
pub const REGISTRY_CAS: &str = "/etc/docker/certs.d";

/// What Ignition reports of the installation.
pub const IGNITION_RESULT: &str = "/etc/.ignition-result.json";

/// The `MachineConfig` without its Ignition config, written by Ignition; its presence asks for the completion of
/// the first boot.
pub const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";

/// The new name of that file after the completion, as MCD leaves it.
pub const COMPLETED: &str = "/etc/ignition-machine-config-encapsulated.json.bak";

/// The complete `MachineConfig`, as the config server sent it.
pub const CONTENT: &str = "/etc/mcs-machine-config-content.json";

/// The repository file of extensions for rpm-ostreed. No other program uses this name.
pub const EXTENSIONS_REPOSITORY: &str = "/etc/yum.repos.d/flameholder-extensions.repo";

/// The file name of the agent's drop-ins for units of other programs. No config may use it.
pub const AGENT_DROP_IN: &str = "50-flameholder.conf";

/// Policy by which signatures of images are verified, containers-policy.json(5): the host's, and not one in the home
/// directory of a user.
pub const SIGNATURE_POLICY: &str = "/etc/containers/policy.json";

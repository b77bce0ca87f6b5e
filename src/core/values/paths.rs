//! Paths and names on a host that have a meaning of their own: the agent's, the MCD's, the distribution's.

/// Where the record lives.
pub const RECORD: &str = "/etc/flameholder/generation";

/// The configuration that was applied, for us and for others to read.
pub const CURRENT_CONFIG: &str = "/etc/machine-config-daemon/currentconfig";

/// The layered OS image, empty where the config's own image is used (the reference's meaning).
pub const CURRENT_IMAGE: &str = "/etc/machine-config-daemon/currentimage";

/// Pre-images of paths below `/etc` that others wrote before we managed them.
pub const ORIGINALS: &str = "/etc/flameholder/originals";

/// Pre-images of all other paths.
pub const ORIGINALS_OUTSIDE_ETC: &str = "/var/lib/flameholder/originals";

/// The kernel argument that names the generation of a boot entry.
pub const GENERATION_ARGUMENT: &str = "flameholder.generation=";

/// The tree's shadow file.
pub const SHADOW: &str = "/etc/shadow";

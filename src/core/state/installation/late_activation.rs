//! Paths that programs read before the agent of a system extension, which starts later than that of an image, puts them in
//! place.

use crate::core::config::host_config::HostConfig;

/// Directories that systemd and its programs read in the early boot, which lead to `/var`.
const READ_EARLY: [&str; 8] = [
    "/usr/local/lib/binfmt.d",
    "/usr/local/lib/modules-load.d",
    "/usr/local/lib/sysctl.d",
    "/usr/local/lib/systemd",
    "/usr/local/lib/sysusers.d",
    "/usr/local/lib/tmpfiles.d",
    "/usr/local/lib/udev",
    "/var/lib/systemd",
];

/// Return a warning for each file and link of the config that is read too early, in the order of the paths.
#[must_use]
pub fn warnings(desired: &HostConfig) -> Vec<String> {
    let listed = desired.files.keys().chain(desired.links.keys());
    let early = listed.filter(|path| READ_EARLY.iter().any(|directory| path.is_within(directory)));
    let mut warnings: Vec<String> = early
        .map(|path| {
            format!(
                "{path}: read in the early boot, before the agent, which is a system extension, puts it in place; \
                 list a path below /etc instead"
            )
        })
        .collect();
    warnings.sort();
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::config::{decode, machine_config};

    #[test]
    fn paths_that_the_early_boot_reads_are_named() {
        let file = |path: &str| json!({"path": path, "contents": {"source": "data:,a"}});
        let document = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "metadata": {"name": "a"},
            "spec": {"config": {"ignition": {"version": "3.4.0"}, "storage": {"files": [
                file("/usr/local/lib/sysctl.d/80-a.conf"), file("/usr/local/lib/systemd-else/a"),
                file("/usr/local/bin/a"), file("/etc/sysctl.d/80-a.conf"),
            ]}}},
        });
        let config = decode::decode(&machine_config::parse_document(document).unwrap()).unwrap();
        let warnings = warnings(&config);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("/usr/local/lib/sysctl.d/80-a.conf: "), "{warnings:?}");
    }
}

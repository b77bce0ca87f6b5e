//! First boot of a node that Ignition set up: what counts as applied, and the reboot or restart that the rest
//! needs.
//!
//! Ignition writes files on behalf of the same configuration. Files on disk that match it therefore count as
//! applied, and no pre-image of them is kept.

use super::diff::ConfigDiff;
use super::disruption::Disruption;
use super::steps::PlanStep;
use crate::core::config::host_config::{HostConfig, UNIT_DIRECTORY, UnitSpec};
use crate::core::config::policy::DisruptionPolicy;
use crate::core::values::kernel_arguments::KernelArguments;
use crate::core::values::names::ManagedPath;

/// Preset file in which Ignition lists units to enable. Ignition has enabled them by now, and later configs
/// may disable them.
pub const IGNITION_PRESET: &str = "/etc/systemd/system-preset/20-ignition.preset";

/// Kernel argument that makes Ignition run in the initramfs, where it is part of the boot entry itself.
const IGNITION_ARGUMENT: &str = "ignition.firstboot";

/// Return true for kernel arguments that apply to the first boot only.
#[must_use]
pub fn is_for_first_boot_only(argument: &str) -> bool {
    argument == IGNITION_ARGUMENT
        || argument.strip_prefix(IGNITION_ARGUMENT).is_some_and(|rest| rest.starts_with('='))
}

/// OS state of the booted deployment.
#[derive(Debug, Clone, Copy)]
pub struct InstalledOs<'a> {
    /// Image reference of the deployment; `None` where the image is not compared.
    pub image: Option<&'a String>,
    /// Kernel arguments of the boot entry.
    pub kernel_arguments: &'a KernelArguments,
    /// True if the kernel runs in FIPS mode.
    pub fips: bool,
}

/// Return the configuration that counts as applied: the desired one, with the OS state that was found.
/// Packages (kernel type, extensions) are not checked here.
#[must_use]
pub fn applied(desired: &HostConfig, found: InstalledOs<'_>) -> HostConfig {
    let mut applied = desired.clone();
    let missing = found.kernel_arguments.missing(&desired.os.kernel_arguments);
    applied.os.kernel_arguments = desired.os.kernel_arguments.subtract(&missing);
    applied.os.image = found.image.cloned();
    applied.os.fips = found.fips;
    applied
}

/// Decide the disruption of completing the first boot: the difference between `applied`, less the files that
/// `steps` change on disk, and `desired`. The cluster's own policy is not known yet.
#[must_use]
pub fn disruption(
    applied: &HostConfig,
    desired: &HostConfig,
    steps: &[PlanStep],
) -> (ConfigDiff, Disruption) {
    let paths: Vec<&ManagedPath> = steps.iter().map(PlanStep::path).collect();
    let is_changed = |path: &ManagedPath| paths.contains(&path);
    let mut before = applied.clone();
    before.files.retain(|path, _| !is_changed(path));
    before.directories.retain(|path, _| !is_changed(path));
    before.links.retain(|path, _| !is_changed(path));
    before.units.retain(|name, unit| !paths.iter().any(|path| is_of_unit(path, name, unit)));
    let is_within = |top: &str| paths.iter().any(|path| path.as_str().contains(top));
    if is_within("/.ssh/") || is_within("/etc/shadow") {
        before.passwd.users.clear();
    }
    let diff = ConfigDiff::between(&before, desired);
    let disruption = Disruption::of(&diff, &before, desired, &DisruptionPolicy::legacy());
    (diff, disruption)
}

/// Return true if `path` is the unit's file, a drop-in of it, or a link that enables or masks it.
fn is_of_unit(path: &ManagedPath, name: &str, unit: &UnitSpec) -> bool {
    let drop_ins = format!("{name}.d");
    let is_drop_in = path.parent().is_some_and(|parent| parent.file_name() == drop_ins);
    path.is_within(UNIT_DIRECTORY)
        && (path.file_name() == name || is_drop_in && unit.drop_ins.contains_key(path.file_name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::{decode, machine_config};
    use crate::core::values::tree::FileAttributes;

    const CONFIG: &str = r#"{
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": "rendered-worker-1"},
        "spec": {
            "osImageURL": "reg/os@sha256:1", "kernelArguments": ["a", "b"], "fips": false,
            "config": {
                "ignition": {"version": "3.4.0"},
                "storage": {"files": [
                    {"path": "/etc/a", "contents": {"source": "data:,a"}},
                    {"path": "/var/lib/kubelet/config.json", "contents": {"source": "data:,b"}}]},
                "systemd": {"units": [{"name": "a.service", "contents": "[Service]", "enabled": true}]}
            }
        }
    }"#;

    #[test]
    fn files_already_on_disk_need_no_reboot() {
        let config = machine_config::parse(CONFIG.as_bytes()).unwrap();
        let desired = decode::decode(&config).unwrap();
        let arguments = KernelArguments::parse("rw a b ignition.platform.id=qemu");
        let found =
            InstalledOs { image: desired.os.image.as_ref(), kernel_arguments: &arguments, fips: false };
        let applied = applied(&desired, found);
        assert_eq!(applied, desired);
        let write = |path: &str| PlanStep::Write {
            path: ManagedPath::constant(path),
            contents: Vec::new(),
            attributes: FileAttributes { mode: 0o644, uid: 0, gid: 0 },
        };
        for (steps, reboots, changes) in [
            (vec![], false, false),
            (vec![write("/var/lib/kubelet/config.json")], false, true),
            (vec![write("/etc/a")], true, true),
            (vec![write("/etc/systemd/system/multi-user.target.wants/a.service")], true, true),
            (vec![write("/etc/systemd/system/b.service")], false, false),
        ] {
            let (diff, disruption) = disruption(&applied, &desired, &steps);
            assert_eq!((disruption.reboots(), !diff.is_empty()), (reboots, changes), "{steps:?}");
        }
        let found =
            InstalledOs { image: None, kernel_arguments: &KernelArguments::parse("rw b"), fips: false };
        let (diff, disruption) = disruption(&super::applied(&desired, found), &desired, &[]);
        assert!(disruption.reboots() && diff.os_image && diff.kernel_arguments);
    }

    #[test]
    fn first_boot_argument_is_recognised() {
        for (argument, expected) in [
            ("ignition.firstboot", true),
            ("ignition.firstboot=1", true),
            ("ignition.platform.id=qemu", false),
        ] {
            assert_eq!(is_for_first_boot_only(argument), expected, "{argument}");
        }
    }
}

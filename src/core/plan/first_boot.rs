//! First boot of a node that Ignition set up: the configuration to complete, and the reboot or restart that
//! this needs.
//!
//! Ignition writes files on behalf of the same configuration. Files on disk that match it therefore count as
//! applied, and no pre-image of them is kept.

use serde_json::Value;

use super::diff::ConfigDiff;
use super::disruption::Disruption;
use super::steps::PlanStep;
use crate::core::config::host_config::{HostConfig, UNIT_DIRECTORY, UnitSpec};
use crate::core::config::machine_config;
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::policy::DisruptionPolicy;
use crate::core::values::kernel_arguments::KernelArguments;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{CONTENT, ENCAPSULATED};
use crate::core::values::refusal::{Refusal, RefusalList, TextPlace};

/// Preset file in which Ignition lists units to enable. Ignition has enabled them by now, and later configs
/// may disable them.
pub const IGNITION_PRESET: &str = "/etc/systemd/system-preset/20-ignition.preset";

/// Kernel argument that makes Ignition run in the initramfs, where it is part of the boot entry itself.
const IGNITION_ARGUMENT: &str = "ignition.firstboot";

/// Members of `spec` that the config server sets per machine: a layered image replaces the config's own, and
/// the kernel arguments are those that the machine's Ignition is too old to set.
const SERVED: [&str; 6] =
    ["osImageURL", "baseOSExtensionsContainerImage", "kernelArguments", "kernelType", "extensions", "fips"];

/// Return the configuration to complete: `content`, with the per-machine members of `encapsulated`. Without
/// `content` files and units are unknown, and only `encapsulated` is returned.
pub fn configuration(encapsulated: &[u8], content: Option<&[u8]>) -> Result<Value, RefusalList> {
    let encapsulated = named(machine_config::parse(encapsulated), ENCAPSULATED)?;
    let Some(content) = content else { return Ok(encapsulated.document) };
    let content = named(machine_config::parse(content), CONTENT)?;
    if content.name != encapsulated.name {
        let (one, other) = (&encapsulated.name, &content.name);
        let reason = format!(
            "{ENCAPSULATED} holds config {one}, but {CONTENT} holds {other}; both files must be of the same config"
        );
        return Err(RefusalList::one("metadata.name", reason));
    }
    let mut document = content.document;
    let served = encapsulated.document.get("spec").cloned().unwrap_or_default();
    if let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut) {
        for key in SERVED {
            match served.get(key) {
                Some(value) => drop(spec.insert(key.to_owned(), value.clone())),
                None => drop(spec.remove(key)),
            }
        }
    }
    Ok(document)
}

fn named(parsed: Result<MachineConfig, RefusalList>, file: &str) -> Result<MachineConfig, RefusalList> {
    parsed.map_err(|refusals| {
        let named = |refusal: &Refusal| match (&refusal.place, refusal.field.as_str()) {
            (Some(TextPlace { line, column }), _) => {
                Refusal::new(format!("{file}:{line}:{column}"), &refusal.reason)
            }
            (None, "") => Refusal::new(file, &refusal.reason),
            (None, field) => Refusal::new(format!("{file}: {field}"), &refusal.reason),
        };
        let refused: Vec<Refusal> = refusals.as_slice().iter().map(named).collect();
        RefusalList::or(refused, ()).err().unwrap_or(refusals)
    })
}

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
    use serde_json::json;

    use super::*;
    use crate::core::config::decode;
    use crate::core::values::tree::FileAttributes;

    fn object(name: &str, spec: &Value) -> Value {
        json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"name": name}, "spec": spec})
    }

    fn whole() -> Value {
        object(
            "rendered-worker-1",
            &json!({"osImageURL": "reg/os@sha256:1", "kernelArguments": ["a", "b"], "fips": false,
                "config": {"ignition": {"version": "3.4.0"},
                    "storage": {"files": [{"path": "/etc/a", "contents": {"source": "data:,a"}},
                        {"path": "/var/lib/kubelet/config.json", "contents": {"source": "data:,b"}}]},
                    "systemd": {"units": [{"name": "a.service", "contents": "[Service]", "enabled": true}]}}}),
        )
    }

    fn read(encapsulated: &Value, content: Option<&Value>) -> Result<Value, RefusalList> {
        let content = content.map(|content| content.to_string().into_bytes());
        configuration(encapsulated.to_string().as_bytes(), content.as_deref())
    }

    #[test]
    fn served_members_replace_those_of_the_object() {
        let empty = json!({"ignition": {"version": "3.2.0"}});
        let served = object(
            "rendered-worker-1",
            &json!({"osImageURL": "reg/layered@sha256:2", "kernelArguments": ["a"], "config": empty}),
        );
        let read_whole = read(&served, Some(&whole())).unwrap();
        assert_eq!(read_whole["spec"]["osImageURL"], "reg/layered@sha256:2");
        assert_eq!(read_whole["spec"]["kernelArguments"], json!(["a"]));
        assert_eq!(read_whole["spec"]["config"], whole()["spec"]["config"]);
        assert!(read_whole["spec"].get("fips").is_none());
        assert_eq!(read(&served, None).unwrap(), served, "without the content file, the object alone");
        let other = object("rendered-worker-2", &json!({"config": empty}));
        let refused = read(&other, Some(&whole())).unwrap_err().to_string();
        assert!(refused.contains("rendered-worker-1") && refused.contains("rendered-worker-2"), "{refused}");
        let refused = configuration(b"{", Some(b"{")).unwrap_err().to_string();
        assert!(refused.contains(ENCAPSULATED), "{refused}");
    }

    #[test]
    fn files_already_on_disk_need_no_reboot() {
        let config = machine_config::parse(whole().to_string().as_bytes()).unwrap();
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

//! The first boot of a node: what its config server sent along with the Ignition config, and what Ignition made of that.
//!
//! What Ignition wrote, it wrote on behalf of the configuration that is to be completed. So that counts as applied as
//! far as the disk agrees, and nothing is kept as if somebody else had written it.

use serde_json::Value;

use super::diff::ConfigDiff;
use super::disruption::Disruption;
use super::steps::PlanStep;
use crate::core::config::host_config::{HostConfig, UNIT_DIRECTORY, UnitSpec};
use crate::core::config::machine_config;
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::policy::DisruptionPolicy;
use crate::core::values::kernel_arguments;
use crate::core::values::kernel_arguments::KernelArgument;
use crate::core::values::names::ManagedPath;
use crate::core::values::refusal::{Refusal, RefusalList};

/// The object without its Ignition config, which says that a first boot is to be completed.
pub const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";
/// Its name once that is done (the reference's, for others to see).
pub const COMPLETED: &str = "/etc/ignition-machine-config-encapsulated.json.bak";
/// The whole object.
pub const CONTENT: &str = "/etc/mcs-machine-config-content.json";
/// What Ignition leaves for units to be enabled; they are, and later configurations may want otherwise.
pub const IGNITION_PRESET: &str = "/etc/systemd/system-preset/20-ignition.preset";

/// Tells the initial RAM disk that Ignition is to run, where it stands in the boot entry itself.
const IGNITION_ARGUMENT: &str = "ignition.firstboot";

/// The parts of `spec` that are decided per machine when its config is served: a layered image stands in for the
/// configuration's own, and kernel arguments that an older Ignition does not know are among the object's.
const SERVED: [&str; 6] =
    ["osImageURL", "baseOSExtensionsContainerImage", "kernelArguments", "kernelType", "extensions", "fips"];

/// The configuration to complete: the whole object, with what is decided per machine from the encapsulated one. Without
/// the whole object nothing is known of files and units.
pub fn configuration(encapsulated: &[u8], content: Option<&[u8]>) -> Result<Value, RefusalList> {
    let encapsulated = named(machine_config::parse(encapsulated), ENCAPSULATED)?;
    let Some(content) = content else { return Ok(encapsulated.document) };
    let content = named(machine_config::parse(content), CONTENT)?;
    if content.name != encapsulated.name {
        let (one, other) = (&encapsulated.name, &content.name);
        let reason =
            format!("{ENCAPSULATED} is {one} and {CONTENT} is {other}; both have to be of one configuration");
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
        let named = |refusal: &Refusal| Refusal::new(format!("{file}: {}", refusal.field), &refusal.reason);
        let refused: Vec<Refusal> = refusals.as_slice().iter().map(named).collect();
        RefusalList::or(refused, ()).err().unwrap_or(refusals)
    })
}

/// Whether a kernel argument of the boot entry is about the first boot only.
#[must_use]
pub fn is_for_first_boot_only(argument: &str) -> bool {
    argument == IGNITION_ARGUMENT
        || argument.strip_prefix(IGNITION_ARGUMENT).is_some_and(|rest| rest.starts_with('='))
}

/// What is there already of the operating system's side.
#[derive(Debug, Clone, Copy)]
pub struct InstalledOs<'a> {
    /// What the image is called that is deployed, where that matters.
    pub image: Option<&'a String>,
    /// The boot entry's arguments.
    pub kernel_arguments: &'a [KernelArgument],
    /// Whether the kernel is in FIPS mode.
    pub fips: bool,
}

/// The configuration that counts as applied: the desired one, with the system as it was found. What only packages
/// change is not looked at here.
#[must_use]
pub fn applied(desired: &HostConfig, found: InstalledOs<'_>) -> HostConfig {
    let mut applied = desired.clone();
    let missing = kernel_arguments::missing(found.kernel_arguments, &desired.os.kernel_arguments);
    applied.os.kernel_arguments = kernel_arguments::less(&desired.os.kernel_arguments, &missing);
    applied.os.image = found.image.cloned();
    applied.os.fips = found.fips;
    applied
}

/// What it takes to go from `applied`, without what `steps` change on the disk, to `desired`, before a cluster's own
/// policy is known.
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

/// Whether what stands at `path` is the unit's file, a drop-in of it, or a link that enables or masks it.
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
    fn what_was_served_stands_in_for_what_the_object_says() {
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
        assert_eq!(read(&served, None).unwrap(), served, "hollow, where there is nothing else");
        let other = object("rendered-worker-2", &json!({"config": empty}));
        let refused = read(&other, Some(&whole())).unwrap_err().to_string();
        assert!(refused.contains("rendered-worker-1") && refused.contains("rendered-worker-2"), "{refused}");
        let refused = configuration(b"{", Some(b"{")).unwrap_err().to_string();
        assert!(refused.contains(ENCAPSULATED), "{refused}");
    }

    #[test]
    fn what_the_disk_has_already_takes_no_reboot() {
        let config = machine_config::parse(whole().to_string().as_bytes()).unwrap();
        let desired = decode::decode(&config).unwrap();
        let arguments = kernel_arguments::parse("rw a b ignition.platform.id=qemu");
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
            InstalledOs { image: None, kernel_arguments: &kernel_arguments::parse("rw b"), fips: false };
        let (diff, disruption) = disruption(&super::applied(&desired, found), &desired, &[]);
        assert!(disruption.reboots() && diff.os_image && diff.kernel_arguments);
    }

    #[test]
    fn the_first_boots_argument_is_told() {
        for (argument, expected) in [
            ("ignition.firstboot", true),
            ("ignition.firstboot=1", true),
            ("ignition.platform.id=qemu", false),
        ] {
            assert_eq!(is_for_first_boot_only(argument), expected, "{argument}");
        }
    }
}

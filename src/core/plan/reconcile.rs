//! Which differences can be brought about on a host that exists (the reference's table of
//! reconcilable changes; the native profile allows more).

use super::diff::ConfigDiff;
use crate::core::config::host_config::{CORE_USER, HostConfig};
use crate::core::values::profile::Profile;
use crate::core::values::refusal::Refusal;

/// Everything that stands in the way of going from `current` to `desired`; all of it, not the first.
#[must_use]
pub fn irreconcilable(
    current: &HostConfig,
    desired: &HostConfig,
    diff: &ConfigDiff,
    profile: Profile,
) -> Vec<Refusal> {
    let mut refused = Vec::new();
    passwd(current, desired, &mut refused);
    for (section, wanted) in &desired.unapplied {
        if current.unapplied.get(section).unwrap_or(&serde_json::Value::Null) != wanted {
            refused.push(Refusal::new(
                format!("spec.config.{section}"),
                "this section is only applied when a machine is installed; reinstall it, or take the change back",
            ));
        }
    }
    if diff.fips {
        refused.push(Refusal::new(
            "spec.fips",
            "FIPS mode is set when a machine is installed; reinstall it, or take the change back",
        ));
    }
    if profile == Profile::Mcd {
        mcd_storage(desired, diff, &mut refused);
    }
    refused
}

fn mcd_storage(desired: &HostConfig, diff: &ConfigDiff, refused: &mut Vec<Refusal>) {
    const WIDER: &str = "the profile `native` applies them";
    if !diff.directories.is_empty() {
        refused.push(Refusal::new(
            "spec.config.storage.directories",
            format!("directories cannot change in the profile `mcd`; {WIDER}"),
        ));
    }
    if !diff.links.is_empty() && !desired.links.is_empty() {
        refused.push(Refusal::new(
            "spec.config.storage.links",
            format!("links can only be removed, all at once, in the profile `mcd`; {WIDER}"),
        ));
    }
    for (path, file) in desired.files.iter().filter(|(_, file)| !file.append.is_empty()) {
        refused.push(Refusal::new(
            format!("spec.config.storage.files[{}].append", file.index),
            format!("{path} appends, which the profile `mcd` does not take; the profile `native` does"),
        ));
    }
}

fn passwd(current: &HostConfig, desired: &HostConfig, refused: &mut Vec<Refusal>) {
    if current.passwd.groups != desired.passwd.groups {
        refused.push(Refusal::new(
            "spec.config.passwd.groups",
            "groups are only made when a machine is installed",
        ));
    }
    let users = &desired.passwd.users;
    if current.passwd.users == *users {
        return;
    }
    let mut core = None;
    for (index, user) in users.iter().enumerate() {
        if user.name == CORE_USER {
            core = Some((index, user));
        } else {
            refused.push(Refusal::new(
                format!("spec.config.passwd.users[{index}].name"),
                format!("only the user `{CORE_USER}` can be changed on an installed machine"),
            ));
        }
    }
    let Some((index, core)) = core else { return };
    if core.keys.is_empty() && core.password_hash.is_none() {
        refused.push(Refusal::new(
            format!("spec.config.passwd.users[{index}]"),
            format!("`{CORE_USER}` would have neither a key nor a password; list at least one"),
        ));
    }
    for field in &core.other_fields {
        refused.push(Refusal::new(
            format!("spec.config.passwd.users[{index}].{field}"),
            "only keys and the password hash can be changed on an installed machine",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::{decode, machine_config};
    use serde_json::{Value, json};

    fn config(fips: bool, ignition: &Value) -> HostConfig {
        let mut ignition = ignition.clone();
        ignition["ignition"] = json!({"version": "3.4.0"});
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"name": "t"}, "spec": {"config": ignition, "fips": fips},
        });
        let parsed = machine_config::parse(object.to_string().as_bytes()).unwrap();
        decode::decode(&parsed).unwrap()
    }

    fn fields(current: &Value, desired: &Value, profile: Profile) -> Vec<String> {
        let (current, desired) = (config(false, current), config(false, desired));
        let diff = ConfigDiff::between(&current, &desired);
        let refused = irreconcilable(&current, &desired, &diff, profile);
        refused.into_iter().map(|refusal| refusal.field).collect()
    }

    fn core(extra: &Value) -> Value {
        let mut user = json!({"name": "core", "sshAuthorizedKeys": ["k"]});
        user.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"passwd": {"users": [user]}})
    }

    /// From nothing to `desired`: the fields that are refused.
    fn refused(desired: &Value, profile: Profile) -> Vec<String> {
        fields(&json!({}), desired, profile)
    }

    #[test]
    fn what_both_profiles_refuse() {
        let rows = [
            (core(&json!({"homeDir": "/x"})), "spec.config.passwd.users[0].homeDir"),
            (json!({"passwd": {"users": [{"name": "core"}]}}), "spec.config.passwd.users[0]"),
            (
                json!({"passwd": {"users": [{"name": "eve", "sshAuthorizedKeys": ["k"]}]}}),
                "spec.config.passwd.users[0].name",
            ),
            (json!({"passwd": {"groups": [{"name": "g"}]}}), "spec.config.passwd.groups"),
            (json!({"kernelArguments": {"shouldExist": ["a"]}}), "spec.config.kernelArguments"),
            (json!({"storage": {"disks": [{"device": "/dev/x"}]}}), "spec.config.storage.disks"),
        ];
        for (desired, field) in rows {
            assert_eq!(refused(&desired, Profile::Mcd), [field], "{desired}");
            assert_eq!(refused(&desired, Profile::Native), [field], "{desired}");
        }
        let (current, desired) = (config(false, &json!({})), config(true, &json!({})));
        let diff = ConfigDiff::between(&current, &desired);
        assert_eq!(irreconcilable(&current, &desired, &diff, Profile::Mcd)[0].field, "spec.fips");
    }

    #[test]
    fn what_only_the_reference_refuses() {
        let links = json!({"storage": {"links": [{"path": "/etc/l", "target": "x"}]}});
        let directories = json!({"storage": {"directories": [{"path": "/etc/d"}]}});
        let append = json!({"storage": {"files": [{"path": "/etc/a", "append": [{"source": "data:,x"}]}]}});
        for (desired, field) in [
            (&links, "spec.config.storage.links"),
            (&directories, "spec.config.storage.directories"),
            (&append, "spec.config.storage.files[0].append"),
        ] {
            assert_eq!(refused(desired, Profile::Mcd), [field]);
            assert!(refused(desired, Profile::Native).is_empty());
        }
        assert!(fields(&links, &json!({}), Profile::Mcd).is_empty(), "links may be removed");
    }

    #[test]
    fn what_nobody_refuses() {
        let luks = json!({"storage": {"luks": [{"name": "x", "device": "/dev/x"}]}});
        for desired in [luks, core(&json!({}))] {
            assert!(refused(&desired, Profile::Mcd).is_empty(), "{desired}");
        }
        assert!(fields(&core(&json!({})), &json!({}), Profile::Mcd).is_empty(), "no users: not managed");
    }
}

//! Reconcilability: differences that cannot be applied to an installed host, by MCD's rules. The profile
//! `native` allows more.

use super::diff::ConfigDiff;
use crate::core::config::host_config::{CORE_USER, HostConfig};
use crate::core::values::profile::Profile;
use crate::core::values::refusal::Refusal;

/// Field of a config with FIPS mode.
pub const FIPS_FIELD: &str = "spec.fips";

/// Return all reasons for which the host cannot change from `current` to `desired`.
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
                "this section is applied only at installation; reinstall the machine, or revert the change",
            ));
        }
    }
    if diff.fips {
        refused.push(Refusal::new(
            FIPS_FIELD,
            "FIPS mode is set only at installation; reinstall the machine, or revert the change",
        ));
    }
    if profile == Profile::Mcd {
        mcd_storage(desired, diff, &mut refused);
    }
    refused
}

/// Refuse a config for another FIPS mode than that of the running kernel. Like MCD, the profile `mcd` also refuses a config
/// without FIPS mode for a kernel that is in it; nothing is weakened by such a config.
#[must_use]
pub fn refuse_fips(mode: bool, desired: bool, profile: Profile) -> Option<Refusal> {
    let reason = match (mode, desired) {
        (false, true) => {
            "the kernel is not in FIPS mode, which is set only at installation; reinstall the machine, or revert the change"
        }
        (true, false) if profile == Profile::Mcd => {
            "the kernel is in FIPS mode, but the config is for one that is not; set it to true, or reinstall the machine"
        }
        _ => return None,
    };
    Some(Refusal::new(FIPS_FIELD, reason))
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
            format!("the profile `mcd` cannot append to {path}; the profile `native` can"),
        ));
    }
}

fn passwd(current: &HostConfig, desired: &HostConfig, refused: &mut Vec<Refusal>) {
    if current.passwd.groups != desired.passwd.groups {
        refused.push(Refusal::new(
            "spec.config.passwd.groups",
            "groups are created only at installation; reinstall the machine, or revert the change",
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
                format!("only the user `{CORE_USER}` can be changed after installation"),
            ));
        }
    }
    let Some((index, core)) = core else { return };
    if core.keys.is_empty() && core.password_hash.is_none() {
        refused.push(Refusal::new(
            format!("spec.config.passwd.users[{index}]"),
            format!("user `{CORE_USER}` would have neither an SSH key nor a password; list at least one"),
        ));
    }
    for field in &core.other_fields {
        refused.push(Refusal::new(
            format!("spec.config.passwd.users[{index}].{field}"),
            "only SSH keys and the password hash can be changed after installation",
        ));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::core::config::policy::DisruptionPolicy;
    use crate::core::config::{decode, machine_config};
    use crate::core::plan::Plan;

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

    /// Return the refused fields of a change from an empty config to `desired`.
    fn refused(desired: &Value, profile: Profile) -> Vec<String> {
        fields(&json!({}), desired, profile)
    }

    #[test]
    fn fields_refused_by_both_profiles() {
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
    fn overridden_section_is_a_warning() {
        let desired =
            config(false, &json!({"storage": {"raid": [{"name": "r"}], "disks": [{"device": "/dev/x"}]}}));
        let current = config(false, &json!({}));
        let mut policy = DisruptionPolicy::default();
        policy.override_section("Raid");
        let mut plan = Plan::between(Some(&current), &desired, Profile::Mcd).unwrap();
        assert_eq!(plan.irreconcilable.len(), 2);
        plan.apply_policy(&policy, Some(&current), &desired);
        assert_eq!(plan.irreconcilable.len(), 1, "disks are not overridden: {:?}", plan.irreconcilable);
        assert_eq!(
            plan.warnings,
            ["spec.config.storage.raid: changed, and not applied to this host; only a new installation does"]
        );
    }

    #[test]
    fn fields_refused_by_mcd_only() {
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
    fn fields_accepted_by_both_profiles() {
        let luks = json!({"storage": {"luks": [{"name": "x", "device": "/dev/x"}]}});
        for desired in [luks, core(&json!({}))] {
            assert!(refused(&desired, Profile::Mcd).is_empty(), "{desired}");
        }
        assert!(fields(&core(&json!({})), &json!({}), Profile::Mcd).is_empty(), "no users: not managed");
    }
}

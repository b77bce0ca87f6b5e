//! Reconcilability: differences that cannot be applied to an installed host, by MCD's rules. The profile
//! `native` allows more.

use std::collections::BTreeSet;

use super::diff::ConfigDiff;
use crate::core::config::host_config::{CORE_USER, HostConfig, PERMISSION_BITS, UserSpec};
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
    passwd(current, desired, profile, &mut refused);
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
    for (path, file) in desired.files.iter().filter(|(_, file)| file.mode & !PERMISSION_BITS != 0) {
        refused.push(Refusal::new(
            format!("spec.config.storage.files[{}].mode", file.index),
            format!(
                "the profile `mcd` sets no set-user-ID, set-group-ID or sticky bit of {path}; the profile `native` does"
            ),
        ));
    }
    for (path, file) in desired.files.iter().filter(|(_, file)| !file.append.is_empty()) {
        refused.push(Refusal::new(
            format!("spec.config.storage.files[{}].append", file.index),
            format!("the profile `mcd` cannot append to {path}; the profile `native` can"),
        ));
    }
}

/// Reason for which a user or a field of one is refused.
const ONLY_CORE: &str = "only the user `core` can be changed after installation";
const ONLY_SECRETS: &str = "only SSH keys and the password hash can be changed after installation";

fn passwd(current: &HostConfig, desired: &HostConfig, profile: Profile, refused: &mut Vec<Refusal>) {
    if current.passwd.groups != desired.passwd.groups {
        refused.push(Refusal::new(
            "spec.config.passwd.groups",
            "groups are created only at installation; reinstall the machine, or revert the change",
        ));
    }
    if current.passwd.users == desired.passwd.users {
        return;
    }
    match profile {
        Profile::Mcd => every_user(&desired.passwd.users, refused),
        Profile::Native => changed_users(&current.passwd.users, &desired.passwd.users, refused),
    }
}

/// Refuse every entry that no host applies, also unchanged ones, as MCD does as soon as anything changes.
fn every_user(users: &[UserSpec], refused: &mut Vec<Refusal>) {
    for (index, _) in users.iter().enumerate().filter(|(_, user)| user.name != CORE_USER) {
        refused.push(Refusal::new(format!("spec.config.passwd.users[{index}].name"), ONLY_CORE));
    }
    let Some((index, core)) = users.iter().enumerate().rfind(|(_, user)| user.name == CORE_USER) else {
        return;
    };
    refused.extend(locked_out(index, core));
    for field in core.other_fields.keys() {
        refused.push(Refusal::new(format!("spec.config.passwd.users[{index}].{field}"), ONLY_SECRETS));
    }
}

/// Refuse users and fields that are new or differ. Users, and fields of core, that are no longer listed stay as they are, as in MCD.
fn changed_users(current: &[UserSpec], desired: &[UserSpec], refused: &mut Vec<Refusal>) {
    let nothing = UserSpec::default();
    for (index, user) in desired.iter().enumerate() {
        let before = current.iter().rfind(|before| before.name == user.name);
        if before == Some(user) {
            continue;
        }
        let mut refuse = |field: &str, reason: &str| {
            refused.push(Refusal::new(format!("spec.config.passwd.users[{index}].{field}"), reason));
        };
        if user.name == CORE_USER {
            let known = &before.unwrap_or(&nothing).other_fields;
            let changed = user.other_fields.iter().filter(|(field, value)| known.get(*field) != Some(value));
            for (field, _) in changed {
                refuse(field, ONLY_SECRETS);
            }
            refused.extend(locked_out(index, user));
        } else if let Some(before) = before {
            for field in differing_fields(before, user) {
                refuse(field, ONLY_CORE);
            }
        } else {
            refuse("name", ONLY_CORE);
        }
    }
}

/// Name the fields of a user in which two entries differ.
fn differing_fields<'a>(one: &'a UserSpec, other: &'a UserSpec) -> BTreeSet<&'a str> {
    let secrets = [
        ("sshAuthorizedKeys", one.keys != other.keys),
        ("passwordHash", one.password_hash != other.password_hash),
    ];
    let secrets = secrets.into_iter().filter(|(_, differs)| *differs).map(|(field, _)| field);
    let fields = one.other_fields.keys().chain(other.other_fields.keys());
    let differing = fields.filter(|field| one.other_fields.get(*field) != other.other_fields.get(*field));
    secrets.chain(differing.map(String::as_str)).collect()
}

/// Refuse an entry of core that leaves it without a way to log in.
fn locked_out(index: usize, core: &UserSpec) -> Option<Refusal> {
    (core.keys.is_empty() && core.password_hash.is_none()).then(|| {
        Refusal::new(
            format!("spec.config.passwd.users[{index}]"),
            format!("user `{CORE_USER}` would have neither an SSH key nor a password; list at least one"),
        )
    })
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
        ignition["ignition"] = json!({"version": "3.6.0"});
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
        let special = json!({"storage": {"files": [{"path": "/usr/local/bin/a", "mode": 0o4755,
            "contents": {"source": "data:,x"}}]}});
        for (desired, field) in [
            (&links, "spec.config.storage.links"),
            (&directories, "spec.config.storage.directories"),
            (&append, "spec.config.storage.files[0].append"),
            (&special, "spec.config.storage.files[0].mode"),
        ] {
            assert_eq!(refused(desired, Profile::Mcd), [field]);
            assert!(refused(desired, Profile::Native).is_empty());
        }
        assert!(fields(&links, &json!({}), Profile::Mcd).is_empty(), "links may be removed");
    }

    #[test]
    fn changed_value_of_a_field_is_refused_by_both_profiles() {
        let wheel = json!({"groups": ["wheel"], "uid": 1000});
        for changed in
            [json!({"groups": ["wheel", "docker"], "uid": 1000}), json!({"groups": ["docker"], "uid": 1000})]
        {
            let refused = |profile| fields(&core(&wheel), &core(&changed), profile);
            assert_eq!(refused(Profile::Native), ["spec.config.passwd.users[0].groups"]);
            let of_mcd = ["spec.config.passwd.users[0].groups", "spec.config.passwd.users[0].uid"];
            assert_eq!(refused(Profile::Mcd), of_mcd);
        }
        let eve = |exists: bool| json!({"passwd": {"users": [{"name": "eve", "shouldExist": exists}]}});
        let refused = |profile| fields(&eve(true), &eve(false), profile);
        assert_eq!(refused(Profile::Native), ["spec.config.passwd.users[0].shouldExist"]);
        assert_eq!(refused(Profile::Mcd), ["spec.config.passwd.users[0].name"]);
    }

    #[test]
    fn key_of_core_changes_beside_unchanged_users_and_fields_in_native_only() {
        let users = |key: &str, of_eve: &Value, order: [usize; 2]| {
            let core = json!({"name": "core", "sshAuthorizedKeys": [key], "groups": ["wheel"]});
            let both = [core, of_eve.clone()];
            json!({"passwd": {"users": [both[order[0]], both[order[1]]]}})
        };
        let eve = json!({"name": "eve", "sshAuthorizedKeys": ["e"], "shell": "/bin/zsh"});
        let before = users("one", &eve, [0, 1]);
        for order in [[0, 1], [1, 0]] {
            assert!(fields(&before, &users("two", &eve, order), Profile::Native).is_empty(), "{order:?}");
        }
        let of_mcd = ["spec.config.passwd.users[1].name", "spec.config.passwd.users[0].groups"];
        assert_eq!(fields(&before, &users("two", &eve, [0, 1]), Profile::Mcd), of_mcd);
        let other = json!({"name": "eve", "sshAuthorizedKeys": ["f"]});
        let refused = ["spec.config.passwd.users[1].shell", "spec.config.passwd.users[1].sshAuthorizedKeys"];
        assert_eq!(fields(&before, &users("two", &other, [0, 1]), Profile::Native), refused);
        for rest in [core(&json!({})), json!({})] {
            assert!(fields(&before, &rest, Profile::Native).is_empty(), "what is not listed stays: {rest}");
        }
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

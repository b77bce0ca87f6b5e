//! Keys of Butane configs. An Ignition config has the same ones, in another spelling, but for those that name local files.

use serde_json::{Map, Value};

use super::version::{ButaneVariant, ButaneVersion};
use crate::core::values::nearest_name::nearest;

/// Keys by their paths, without the indices of lists.
const KEYS: &[&str] = &[
    "ignition",
    "ignition.config",
    "ignition.config.merge",
    "ignition.config.replace",
    "ignition.proxy",
    "ignition.security",
    "ignition.timeouts",
    "kernel_arguments",
    "kernel_arguments.should_exist",
    "kernel_arguments.should_not_exist",
    "metadata",
    "openshift",
    "openshift.extensions",
    "openshift.fips",
    "openshift.kernel_arguments",
    "openshift.kernel_type",
    "passwd",
    "passwd.groups",
    "passwd.groups.gid",
    "passwd.groups.name",
    "passwd.groups.password_hash",
    "passwd.groups.should_exist",
    "passwd.groups.system",
    "passwd.users",
    "passwd.users.gecos",
    "passwd.users.groups",
    "passwd.users.home_dir",
    "passwd.users.name",
    "passwd.users.no_create_home",
    "passwd.users.no_log_init",
    "passwd.users.no_user_group",
    "passwd.users.password_hash",
    "passwd.users.primary_group",
    "passwd.users.shell",
    "passwd.users.should_exist",
    "passwd.users.ssh_authorized_keys",
    "passwd.users.ssh_authorized_keys_local",
    "passwd.users.system",
    "passwd.users.uid",
    "storage",
    "storage.directories",
    "storage.files",
    "storage.files.append",
    "storage.files.contents",
    "storage.links",
    "storage.links.hard",
    "storage.links.target",
    "storage.trees",
    "storage.trees.dir_mode",
    "storage.trees.file_mode",
    "storage.trees.group",
    "storage.trees.group.id",
    "storage.trees.group.name",
    "storage.trees.local",
    "storage.trees.path",
    "storage.trees.user",
    "storage.trees.user.id",
    "storage.trees.user.name",
    "systemd",
    "systemd.units",
    "systemd.units.contents",
    "systemd.units.contents_local",
    "systemd.units.dropins",
    "systemd.units.dropins.contents",
    "systemd.units.dropins.contents_local",
    "systemd.units.dropins.name",
    "systemd.units.enabled",
    "systemd.units.mask",
    "systemd.units.name",
    "variant",
    "version",
];
/// Sections that only a first boot can apply.
pub(super) const AT_FIRST_BOOT: [&str; 6] =
    ["boot_device", "grub", "storage.disks", "storage.filesystems", "storage.luks", "storage.raid"];
/// Keys of each file, directory and link.
const OF_NODES: [&str; 8] =
    ["group", "group.id", "group.name", "overwrite", "path", "user", "user.id", "user.name"];
const NODES: [&str; 3] = ["storage.directories.", "storage.files.", "storage.links."];
/// Keys of the contents of a file, of each fragment that is appended, and of another config.
const OF_RESOURCES: [&str; 7] =
    ["compression", "http_headers", "inline", "local", "source", "verification", "verification.hash"];
const RESOURCES: [&str; 4] = [
    "ignition.config.merge.",
    "ignition.config.replace.",
    "storage.files.append.",
    "storage.files.contents.",
];
/// Sections whose keys are left to the reader of the result.
const PASSED_ON: [&str; 8] = [
    "ignition.config.merge.http_headers",
    "ignition.config.replace.http_headers",
    "ignition.proxy",
    "ignition.security",
    "ignition.timeouts",
    "metadata",
    "storage.files.append.http_headers",
    "storage.files.contents.http_headers",
];

/// Return true if the keys of the section are not looked at.
pub(super) fn is_passed_on(path: &str) -> bool {
    PASSED_ON.contains(&path) || AT_FIRST_BOOT.contains(&path)
}

/// Return the reason why a config of this version must not have the key.
pub(super) fn problem_of(path: &str, version: ButaneVersion) -> Option<String> {
    let is_one_of = |above: &[&str], keys: &[&str]| {
        above.iter().any(|above| path.strip_prefix(above).is_some_and(|key| keys.contains(&key)))
    };
    let has_mode = ["storage.files.mode", "storage.directories.mode"].contains(&path);
    let is_known = KEYS.contains(&path)
        || AT_FIRST_BOOT.contains(&path)
        || has_mode
        || is_one_of(&NODES, &OF_NODES)
        || is_one_of(&RESOURCES, &OF_RESOURCES);
    let is_of_other_variant = match version.variant {
        ButaneVariant::FedoraCoreOs => ["metadata", "openshift"].contains(&path),
        ButaneVariant::OpenShift => path == "kernel_arguments",
    };
    if !is_known {
        return Some(match nearest_key(path) {
            Some(key) => format!("unknown key; did you mean `{key}`?"),
            None => "unknown key; the version does not define it".to_owned(),
        });
    }
    let reason = if is_of_other_variant {
        "unknown key; another variant defines it"
    } else if version.defines(path) {
        return None;
    } else {
        "unknown key; a later version of the variant defines it"
    };
    Some(reason.to_owned())
}

/// Return the key of the same section that was probably meant.
fn nearest_key(path: &str) -> Option<&'static str> {
    let (section, name) = path.rsplit_once('.').map_or(("", path), |(above, name)| (above, name));
    let below = |known: &'static str| match section {
        "" => Some(known),
        section => known.strip_prefix(section)?.strip_prefix('.'),
    };
    let keys = KEYS.iter().chain(&AT_FIRST_BOOT).filter_map(|key| below(key));
    let of_kind = |sections: &[&str], keys: &'static [&'static str]| {
        let is_one = sections.iter().any(|known| known.trim_end_matches('.') == section);
        keys.iter().copied().filter(move |_| is_one)
    };
    let keys = keys.chain(of_kind(&NODES, &OF_NODES)).chain(of_kind(&RESOURCES, &OF_RESOURCES));
    nearest(name, keys.filter(|key| !key.contains('.')))
}

/// Spell the keys as Ignition does.
pub(super) fn camel_case(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members =
                members.into_iter().map(|(name, member)| (camel_case_key(&name), camel_case(member)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(camel_case).collect(),
        other => other,
    }
}

fn camel_case_key(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut key, word| {
        let mut characters = word.chars();
        key.extend(characters.next().map(|first| first.to_ascii_uppercase()));
        key.push_str(characters.as_str());
        key
    })
}

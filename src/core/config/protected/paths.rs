//! Protected paths: what no config can write, what describes one host, and the agent's own files.

use super::{StorageKind, units};
use crate::core::config::decode::STAGING_NAME;
use crate::core::config::host_config::FORCE_FILE;
use crate::core::config::settings::FRAGMENT_DIRECTORIES;
use crate::core::config::settings::hooks::PROGRAM_DIRECTORIES;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{
    COMPLETED, CONTENT, CURRENT_CONFIG, CURRENT_IMAGE, ENCAPSULATED, EXTENSIONS_REPOSITORY, SHADOW,
};

/// Directories that no config can write, each with the reason and the way out.
const UNWRITABLE: [(&str, &str); 7] = [
    ("/proc", "the kernel makes it; remove the entry, or list a file below /etc/sysctl.d instead"),
    ("/sys", "the kernel makes it; remove the entry, or list a file below /etc/tmpfiles.d instead"),
    ("/dev", "the kernel makes it; remove the entry, or list a file below /etc/udev/rules.d instead"),
    (
        "/boot",
        "all deployments share it; remove the entry, and list kernel arguments in spec.kernelArguments",
    ),
    ("/efi", "all deployments share it; remove the entry"),
    ("/sysroot", "it holds the deployments and their repository; remove the entry"),
    ("/ostree", "it holds the deployments and their repository; remove the entry"),
];

/// Files that describe one host and that its own programs change.
const IDENTITY: [(&str, &str); 5] = [
    ("/etc/passwd", ACCOUNTS),
    ("/etc/group", ACCOUNTS),
    (SHADOW, ACCOUNTS),
    ("/etc/gshadow", ACCOUNTS),
    ("/etc/machine-id", "it identifies this host alone; remove the entry"),
];
const ACCOUNTS: &str = "the image and programs of the host add their accounts to it; remove the entry, and use \
                        spec.config.passwd or a file below /etc/sysusers.d";

/// Directory of the agent's record and settings.
const OWN_DIRECTORY: &str = "/etc/flameholder";

/// Files and directories of the agent, by the path that aliases resolve to.
const OWN: [(&str, &str); 11] = [
    ("/var/lib/flameholder", "the agent keeps its state there"),
    ("/run/flameholder", "the agent keeps its state there"),
    ("/var/usrlocal/bin/flameholder", "it is the agent's executable"),
    ("/var/usrlocal/sbin/flameholder", "it would be run in place of the agent's executable"),
    ("/var/usrlocal/libexec/flameholder", "it holds the agent's executables"),
    (CURRENT_CONFIG, "the agent writes the current config there"),
    (CURRENT_IMAGE, "the agent writes the current image there"),
    (EXTENSIONS_REPOSITORY, "the agent writes and removes it during an update"),
    (ENCAPSULATED, FIRST_BOOT),
    (COMPLETED, FIRST_BOOT),
    (CONTENT, FIRST_BOOT),
];
const FIRST_BOOT: &str = "it marks the progress of the first boot";

/// Directories that are links on OSTree hosts, with the directory that they lead to, longest first.
const ALIASES: [(&str, &str); 13] = [
    ("/usr/local", "/var/usrlocal"),
    ("/var/run", "/run"),
    ("/var/lock", "/run/lock"),
    ("/root", "/var/roothome"),
    ("/home", "/var/home"),
    ("/opt", "/var/opt"),
    ("/srv", "/var/srv"),
    ("/mnt", "/var/mnt"),
    ("/media", "/run/media"),
    ("/bin", "/usr/bin"),
    ("/sbin", "/usr/sbin"),
    ("/lib", "/usr/lib"),
    ("/lib64", "/usr/lib64"),
];

/// Resolve the links at the top of OSTree hosts by name.
pub(super) fn canonical(path: &ManagedPath) -> ManagedPath {
    let alias = ALIASES.iter().find(|(alias, _)| path.is_within(alias));
    let resolved = alias.and_then(|(alias, target)| {
        let rest = path.as_str().strip_prefix(alias)?;
        ManagedPath::parse(&format!("{target}{rest}")).ok()
    });
    resolved.unwrap_or_else(|| path.clone())
}

/// Return the reason for which no host takes an entry at `path`.
pub(super) fn refusal(path: &ManagedPath, kind: StorageKind<'_>) -> Option<String> {
    let resolved = canonical(path);
    if path.as_str() == FORCE_FILE || resolved.as_str() == FORCE_FILE {
        return Some(format!("{path} is the force file, which a config must not write; remove the entry"));
    }
    if path.relative().split('/').any(|name| name == STAGING_NAME) {
        return Some(format!("{path} is reserved for files that the agent prepares; remove the entry"));
    }
    if let Some((top, why)) = UNWRITABLE.iter().find(|(top, _)| resolved.is_within(top)) {
        return Some(format!(
            "{path} cannot be managed: {top} is no place for files of a config, since {why}"
        ));
    }
    if let Some((file, why)) = IDENTITY.iter().find(|(file, _)| resolved.is_within(file)) {
        return Some(format!("{path} cannot be managed as a file: {file} belongs to the host, and {why}"));
    }
    if let Some((_, why)) = OWN.iter().find(|(own, _)| resolved.is_within(own)) {
        return Some(format!("{path} belongs to the agent: {why}; remove the entry"));
    }
    own_directory(path, &resolved, kind)
        .or_else(|| units::path_refusal(path, &resolved, kind))
        .or_else(|| above_own(path, &resolved, kind))
}

/// Refuse all of `/etc/flameholder` but settings, health checks, hooks and the directories that hold them.
fn own_directory(path: &ManagedPath, resolved: &ManagedPath, kind: StorageKind<'_>) -> Option<String> {
    if !resolved.is_within(OWN_DIRECTORY) {
        return None;
    }
    let open = [FRAGMENT_DIRECTORIES.as_slice(), &PROGRAM_DIRECTORIES].concat();
    let is_top = resolved.as_str() == OWN_DIRECTORY || open.contains(&resolved.as_str());
    if is_top && kind == StorageKind::Directory || !is_top && open.iter().any(|top| resolved.is_within(top)) {
        return None;
    }
    if is_top {
        return Some(must_be_directory(path, OWN_DIRECTORY));
    }
    Some(format!(
        "{path} belongs to the agent: a config can list files below its directories config.d, health.d, \
         before-drain.d, after-confirmation.d and notify.d only; remove the entry"
    ))
}

/// Refuse a file or link in the place of a directory above the agent's files.
fn above_own(path: &ManagedPath, resolved: &ManagedPath, kind: StorageKind<'_>) -> Option<String> {
    if kind == StorageKind::Directory {
        return None;
    }
    let own = OWN.iter().map(|(own, _)| *own).chain([OWN_DIRECTORY]).chain(units::UNIT_DIRECTORIES);
    let below = |own: &&str| ManagedPath::constant(own).is_within(resolved.as_str());
    own.into_iter().find(below).map(|own| must_be_directory(path, own))
}

fn must_be_directory(path: &ManagedPath, own: &str) -> String {
    format!("{path} must be a directory: {own} lies there; remove the entry")
}

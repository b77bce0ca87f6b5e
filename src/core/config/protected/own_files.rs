//! Files that a config may write for the agent: settings, which must be valid together, and health checks and hooks,
//! which must be able to run.

use super::{ConfigItem, ProtectedEntry};
use crate::core::config::host_config::{FileSpec, HostConfig, OwnerRef};
use crate::core::config::settings::hooks::PROGRAM_DIRECTORIES;
use crate::core::config::settings::{FragmentFile, Settings, is_fragment};
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::refusal::Refusal;

/// Target of a link that masks a fragment of the image.
const NULL_DEVICE: &str = "/dev/null";
/// First bytes of programs: scripts and executables.
const PROGRAMS: [&[u8]; 2] = [b"#!", b"\x7fELF"];

/// Find settings and programs of `config` that the agent could not use.
pub(super) fn invalid(config: &HostConfig) -> Vec<ProtectedEntry> {
    let fragments: Vec<_> = config.files.iter().filter(|(path, _)| is_fragment(path)).collect();
    let mut found = Vec::new();
    let mut parsed = Vec::new();
    for (path, file) in fragments {
        if let Some((part, reason)) = unreadable(path, file) {
            found.push(entry(path, file, part, reason));
            continue;
        }
        parsed.push(FragmentFile { path: path.clone(), bytes: file.with_appended() });
    }
    if let Err(error) = Settings::of(&parsed) {
        for (path, fault) in error.faults() {
            if let Some(file) = config.files.get(path) {
                let reason = format!("{path} is not valid as settings of the agent: {fault}");
                found.push(entry(path, file, "contents.source", reason));
            }
        }
    }
    found.extend(misplaced(config));
    let programs = config.files.iter().filter(|(path, _)| is_program(path));
    let unusable = programs.filter_map(|(path, file)| {
        unusable_program(path, file).map(|(part, reason)| entry(path, file, part, reason))
    });
    found.extend(unusable);
    found
}

/// Find directories and links in the place of a fragment, and entries below one: what is no file there, and no link to one,
/// stops every command, also the one that would bring the corrected config.
fn misplaced(config: &HostConfig) -> impl Iterator<Item = ProtectedEntry> {
    let files = config.files.iter().map(|(path, file)| (path, "files", file.index, false));
    let directories =
        config.directories.iter().map(|(path, directory)| (path, "directories", directory.index, true));
    let links = config.links.iter();
    let links =
        links.map(|(path, link)| (path, "links", link.index, link.hard || link.target != NULL_DEVICE));
    files.chain(directories).chain(links).filter_map(|(path, list, index, is_no_file)| {
        let fragment = path.ancestors().find(is_fragment).or_else(|| {
            let is_misplaced = is_no_file && is_fragment(path);
            is_misplaced.then(|| path.clone())
        })?;
        let reason = format!(
            "settings of the agent are read from {fragment}, which must be a file, or a link to {NULL_DEVICE}; remove the entry"
        );
        let refusal = Refusal::new(format!("spec.config.storage.{list}[{index}].path"), reason);
        Some(ProtectedEntry { item: ConfigItem::Storage(path.clone()), refusal })
    })
}

fn entry(path: &ManagedPath, file: &FileSpec, part: &str, reason: String) -> ProtectedEntry {
    let refusal = Refusal::new(format!("spec.config.storage.files[{}].{part}", file.index), reason);
    ProtectedEntry { item: ConfigItem::Storage(path.clone()), refusal }
}

/// Return true if `path` lies directly in a directory of health checks or hooks and is not hidden.
fn is_program(path: &ManagedPath) -> bool {
    let is_listed = path.parent().is_some_and(|parent| PROGRAM_DIRECTORIES.contains(&parent.as_str()));
    is_listed && !path.file_name().starts_with('.')
}

/// Return the reason for which the settings in `file` cannot be checked.
fn unreadable(path: &ManagedPath, file: &FileSpec) -> Option<(&'static str, String)> {
    if !file.has_contents && !file.append.is_empty() {
        let reason = format!("{path} holds settings of the agent and cannot be appended to; list it whole");
        return Some(("append", reason));
    }
    let size = file.contents.len() + file.append.iter().map(Vec::len).sum::<usize>();
    (size > limits::FRAGMENT_BYTES).then(|| {
        let reason = format!("{path} has {size} bytes; the limit for settings is {}", limits::FRAGMENT_BYTES);
        ("contents.source", reason)
    })
}

/// Return the reason for which the agent would not run the program in `file`, or would count it as failed.
fn unusable_program(path: &ManagedPath, file: &FileSpec) -> Option<(&'static str, String)> {
    let is_executable = file.mode & 0o111 != 0;
    if !is_executable && PROGRAMS.iter().any(|start| file.contents.starts_with(start)) {
        let reason = format!(
            "the agent would not run {path}, whose mode {:04o} is not executable; set it to 0755 \
             (493 in JSON)",
            file.mode
        );
        return Some(("mode", reason));
    }
    let root = [OwnerRef::Id(0), OwnerRef::Name("root".to_owned())];
    if is_executable && (file.mode & 0o022 != 0 || !root.contains(&file.owner.user)) {
        let reason = format!(
            "the agent would not run {path}, which users other than root can write; set the mode to \
             0755 (493 in JSON) and the owner to root"
        );
        let part = if file.mode & 0o022 != 0 { "mode" } else { "user" };
        return Some((part, reason));
    }
    None
}

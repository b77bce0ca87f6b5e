//! Boot entries of the bootloader, read without libostree.

use std::fs;
use std::path::{Path, PathBuf};

use crate::core::values::deployment::DeploymentId;
use crate::core::values::kernel_arguments::KernelArguments;

/// Argument by which a boot entry names its deployment, through links.
const LINK: &str = "ostree=";

/// Find the boot entry that leads to `deployment` in the first of the directories that has it. Returns its kernel
/// arguments without `ostree=`; `None` without such an entry, as where `/boot` is not mounted yet.
pub(super) fn arguments_of(
    deployment: &DeploymentId,
    sysroot: &Path,
    directories: &[&Path],
) -> Option<KernelArguments> {
    directories.iter().find_map(|directory| {
        let mut arguments = entries(directory).map(|(_, text)| arguments(&text));
        let mut found =
            arguments.find(|arguments| linked(sysroot, arguments).as_ref() == Some(deployment))?;
        found.retain(|argument| !argument.as_str().starts_with(LINK));
        Some(found)
    })
}

/// Find the deployment of the default boot entry: libostree gives it the highest version.
pub(super) fn default(sysroot: &Path, directories: &[&Path]) -> Option<DeploymentId> {
    directories.iter().find_map(|directory| {
        let versions = entries(directory).filter_map(|(path, text)| Some((version(&text)?, path, text)));
        let (_, _, text) = versions.max()?;
        linked(sysroot, &arguments(&text))
    })
}

/// Read the boot entries of a directory, with their paths; unreadable ones are left out.
fn entries(directory: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    let paths = directory.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let entries = paths.filter(|path| path.extension().is_some_and(|kind| kind == "conf"));
    entries.filter_map(|path| {
        let text = fs::read_to_string(&path).ok()?;
        Some((path, text))
    })
}

fn version(text: &str) -> Option<u32> {
    text.lines().find_map(|line| line.strip_prefix("version")?.trim().parse().ok())
}

fn arguments(text: &str) -> KernelArguments {
    let options = text.lines().filter_map(|line| line.strip_prefix("options")?.strip_prefix([' ', '\t']));
    KernelArguments::parse_all(&options.collect::<Vec<_>>())
}

/// Find the deployment that the argument `ostree=` links to.
pub(super) fn linked(sysroot: &Path, arguments: &KernelArguments) -> Option<DeploymentId> {
    let link = arguments.value(LINK)?;
    let target = fs::read_link(sysroot.join(link.trim_start_matches('/'))).ok()?;
    let mut parts = target.iter().rev().map(|part| part.to_string_lossy());
    let (directory, _deploy, stateroot) = (parts.next()?, parts.next()?, parts.next()?);
    DeploymentId::from_directory(&stateroot, &directory)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Link the boot entry `number` to a deployment, and return the link's value.
    fn link(sysroot: &Path, number: u32) -> (String, DeploymentId) {
        let (commit, boot) = ("a".repeat(64), format!("ostree/boot.1/os/b/{number}"));
        fs::create_dir_all(sysroot.join(&boot).parent().unwrap()).unwrap();
        symlink(format!("../../../deploy/os/deploy/{commit}.{number}"), sysroot.join(&boot)).unwrap();
        (format!("ostree=/{boot}"), DeploymentId { stateroot: "os".into(), commit, serial: number })
    }

    #[test]
    fn deployment_is_found_by_the_link_of_the_boot_entry() {
        let sysroot = tempfile::tempdir().unwrap();
        let (argument, deployment) = link(sysroot.path(), 2);
        let linked = |line: &str| linked(sysroot.path(), &KernelArguments::parse(line));
        assert_eq!(linked(&format!("ro {argument}")), Some(deployment));
        assert_eq!(linked("ro ostree=/ostree/boot.0/os/b/0"), None);
        assert_eq!(linked("ro"), None);
    }

    #[test]
    fn arguments_are_those_of_the_entry_that_leads_to_the_deployment() {
        let sysroot = tempfile::tempdir().unwrap();
        let entries = sysroot.path().join("boot/loader/entries");
        fs::create_dir_all(&entries).unwrap();
        let (one, two) = (link(sysroot.path(), 1), link(sysroot.path(), 2));
        let text =
            |link: &str, rest: &str| format!("title x\nversion 1\noptions root=/x \"a b\" {link} {rest}\n");
        fs::write(entries.join("ostree-1.conf"), text(&one.0, "app=one")).unwrap();
        fs::write(entries.join("ostree-2.conf"), text(&two.0, "app=two\noptions more")).unwrap();
        fs::write(entries.join("ostree-2.conf.old"), text(&one.0, "app=old")).unwrap();
        let missing = sysroot.path().join("missing");
        let found = |deployment: &DeploymentId| {
            arguments_of(deployment, sysroot.path(), &[&missing, &entries]).map(|found| found.to_string())
        };
        assert_eq!(found(&one.1).as_deref(), Some("root=/x \"a b\" app=one"));
        assert_eq!(found(&two.1).as_deref(), Some("root=/x \"a b\" app=two more"));
        assert_eq!(found(&DeploymentId { serial: 3, ..one.1.clone() }), None);
        assert_eq!(arguments_of(&one.1, sysroot.path(), &[&missing]), None);
    }

    #[test]
    fn default_is_the_entry_with_the_highest_version() {
        let sysroot = tempfile::tempdir().unwrap();
        let entries = sysroot.path().join("boot/loader/entries");
        fs::create_dir_all(&entries).unwrap();
        let (one, two) = (link(sysroot.path(), 1), link(sysroot.path(), 2));
        for (name, version, link) in [("ostree-1.conf", 10, &one.0), ("ostree-2.conf", 9, &two.0)] {
            fs::write(entries.join(name), format!("title x\nversion {version}\noptions ro {link}\n"))
                .unwrap();
        }
        fs::write(entries.join("ostree-3.conf.old"), format!("version 11\noptions {}\n", two.0)).unwrap();
        let missing = sysroot.path().join("missing");
        assert_eq!(default(sysroot.path(), &[&missing, &entries]), Some(one.1));
        assert_eq!(default(sysroot.path(), &[&missing]), None);
    }
}

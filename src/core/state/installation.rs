//! Files of the agent on a host whose image does not ship it: the executables in a directory per version, a
//! link to the version in use, and the enabled units that run it. `adopt` installs them from a pod.

pub mod ignition_result;
pub mod image_agent;
pub mod late_activation;

use std::collections::{BTreeMap, BTreeSet};

use crate::core::config::host_config::UNIT_DIRECTORY;
use crate::core::config::managed_files;
use crate::core::enablement;
use crate::core::enablement::{
    EnablementError, EnablementLinks, PresetRules, SystemdVersion, UnitFile, UnitFiles, UnitName,
    UnitOperation,
};
use crate::core::state::installation::image_agent::{FINALIZE_DROP_IN, IMAGE_UNITS, VERSION_UNIT};
use crate::core::values::names::ManagedPath;

/// Parent of the executables' directories, one per version. Stock SELinux policies allow services to run
/// files here.
pub const EXECUTABLES: &str = "/usr/local/libexec/flameholder";
/// Link to the executable of the version in use, for units and operators.
pub const COMMAND: &str = "/usr/local/bin/flameholder";
pub const DAEMON_UNIT: &str = "flameholder-daemon.service";

/// Units to install and enable, with their texts.
const UNITS: [(&str, &str); 6] = [
    ("flameholder-activate.service", include_str!("../../../systemd/flameholder-activate.service")),
    (
        "flameholder-activate-mounts.service",
        include_str!("../../../systemd/flameholder-activate-mounts.service"),
    ),
    (DAEMON_UNIT, include_str!("../../../systemd/flameholder-daemon.service")),
    ("flameholder-firstboot.service", include_str!("../../../systemd/flameholder-firstboot.service")),
    ("flameholder-recover.service", include_str!("../../../systemd/flameholder-recover.service")),
    ("flameholder-confirm-boot.service", include_str!("../../../systemd/flameholder-confirm-boot.service")),
];

/// Drop-ins for units of ostree and MCD, with their texts.
const DROP_INS: [(&str, &str); 3] = [
    (
        "machine-config-daemon-firstboot.service.d/50-flameholder.conf",
        include_str!("../../../systemd/machine-config-daemon-firstboot.service.d/50-flameholder.conf"),
    ),
    (
        "machine-config-daemon-pull.service.d/50-flameholder.conf",
        include_str!("../../../systemd/machine-config-daemon-pull.service.d/50-flameholder.conf"),
    ),
    (
        "ostree-finalize-staged.service.d/50-flameholder.conf",
        include_str!("../../../systemd/ostree-finalize-staged.service.d/50-flameholder.conf"),
    ),
];

/// Units and drop-ins whose order differs where the agent is a system extension, with their texts.
const EXTENSION_UNITS: [(&str, &str); 2] = [
    (VERSION_UNIT, include_str!("../../../systemd/sysext/flameholder-activate.service")),
    (
        FINALIZE_DROP_IN,
        include_str!("../../../systemd/sysext/ostree-finalize-staged.service.d/50-flameholder.conf"),
    ),
];

/// Line of the units that wait for the merge of system extensions.
pub const AFTER_EXTENSION: &str = "After=systemd-sysext.service";

/// File of a system extension with the agent, while it is merged into `/usr` (`systemd-sysext(8)`).
pub const EXTENSION_RELEASE: &str = "/usr/lib/extension-release.d/extension-release.flameholder";

/// List the units and drop-ins with their paths below `/etc/systemd/system`, and their texts.
pub fn unit_files() -> impl Iterator<Item = (ManagedPath, &'static str)> {
    UNITS.iter().chain(&DROP_INS).map(|(name, text)| (managed_files::unit_path(name), *text))
}

/// List the same for a host that has the agent as a system extension.
pub fn extension_unit_files() -> impl Iterator<Item = (ManagedPath, &'static str)> {
    let other = |name: &str| EXTENSION_UNITS.iter().find(|(unit, _)| *unit == name).map(|(_, text)| *text);
    let files = UNITS.iter().chain(&DROP_INS);
    files.map(move |(name, text)| (managed_files::unit_path(name), other(name).unwrap_or(text)))
}

/// List the names of the units.
pub fn unit_names() -> impl Iterator<Item = &'static str> {
    UNITS.iter().map(|(name, _)| *name)
}

/// Return the links that enable the units, with their targets.
#[must_use]
pub fn unit_links() -> BTreeMap<ManagedPath, String> {
    links_to(UNIT_DIRECTORY, &UNITS).expect("our own units can be enabled")
}

/// Return the links that enable an image's units with these names and texts, with their targets.
pub fn image_unit_links(units: &[(&str, String)]) -> Result<BTreeMap<ManagedPath, String>, EnablementError> {
    links_to(IMAGE_UNITS, units)
}

fn links_to<T: AsRef<str>>(
    directory: &str,
    units: &[(&str, T)],
) -> Result<BTreeMap<ManagedPath, String>, EnablementError> {
    let mut files = UnitFiles::default();
    let mut operations = Vec::new();
    for (name, text) in units {
        let unit = UnitName::parse(name).expect("a constant unit name is one");
        let path = format!("{directory}/{name}");
        files.add_unit(unit.clone(), [(path, UnitFile::Regular(text.as_ref().to_owned()))], Vec::new());
        operations.push(UnitOperation::Enable(unit));
    }
    let (links, version) = (EnablementLinks::new(), SystemdVersion(252));
    let enabled = enablement::operate(&links, &files, &PresetRules::default(), version, &operations)?;
    Ok(enabled.links.into_iter().map(|(path, target)| (managed_files::unit_path(&path), target)).collect())
}

/// Return the directory of one version's executables.
#[must_use]
pub fn executables(version: &str) -> ManagedPath {
    ManagedPath::constant(EXECUTABLES).join(version)
}

/// Return all paths below the unit directory that belong to the agent alone.
#[must_use]
pub fn paths() -> BTreeSet<ManagedPath> {
    unit_files().map(|(path, _)| path).chain(unit_links().into_keys()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::host_config::{FileOwner, HostConfig, LinkSpec};
    use crate::core::config::protected;
    use crate::core::values::paths::DAEMON_ENVIRONMENT;
    use crate::core::values::tree::MASK;

    #[test]
    fn config_cannot_list_an_installed_path() {
        let executables = executables("1").join("flameholder-ostree");
        let others =
            [COMMAND, DAEMON_ENVIRONMENT].map(ManagedPath::constant).into_iter().chain([executables]);
        let mut config = HostConfig::default();
        for path in paths().into_iter().chain(others) {
            let link =
                LinkSpec { index: 0, target: MASK.to_owned(), hard: false, owner: FileOwner::default() };
            config.links.insert(path, link);
        }
        let refused = protected::entries(&config).len();
        assert_eq!(refused, config.links.len());
        assert_eq!(UNITS.map(|(name, _)| name), protected::AGENT_UNITS);
    }

    #[test]
    fn every_unit_is_enabled() {
        let links = unit_links();
        for (name, _) in UNITS {
            let target = format!("{UNIT_DIRECTORY}/{name}");
            assert!(links.values().any(|found| *found == target), "{name}: {links:?}");
        }
        assert_eq!(paths().len(), UNITS.len() + DROP_INS.len() + links.len());
    }

    #[test]
    fn units_of_an_extension_are_the_same_files_in_another_order() {
        let usual: Vec<_> = unit_files().collect();
        let extension: Vec<_> = extension_unit_files().collect();
        assert_eq!(usual.len(), extension.len());
        let differing: Vec<_> = usual.iter().zip(&extension).filter(|(one, two)| one.1 != two.1).collect();
        assert_eq!(differing.len(), EXTENSION_UNITS.len());
        for (one, two) in differing {
            assert_eq!(one.0, two.0);
            assert!(two.1.lines().any(|line| line == AFTER_EXTENSION), "{}", two.0);
        }
    }

    #[test]
    fn links_to_an_image_replace_the_installed_ones() {
        let shipped = UNITS.map(|(name, text)| (name, text.to_owned()));
        let links = image_unit_links(&shipped).unwrap();
        let expected = unit_links().into_iter().map(|(path, target)| {
            let (_, name) = target.rsplit_once('/').unwrap();
            (path, format!("{IMAGE_UNITS}/{name}"))
        });
        assert_eq!(links, expected.collect());
    }
}

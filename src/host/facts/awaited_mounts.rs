//! Mounts that this boot has yet to make: mount points of enabled mount and automount units that are no mount points yet.
//! Early in a boot, a file written below such a directory would be hidden by the mount.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::core::values::names::ManagedPath;
use crate::host::fs::error::HostError;
use crate::host::fs::root::Root;

/// Directories of units, with those of the generators, which read `/etc/fstab` (`systemd.unit(5)`).
const UNIT_DIRECTORIES: [&str; 7] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/run/systemd/generator",
    "/run/systemd/generator.late",
    "/usr/lib/systemd/system",
];
/// Interval at which a mount is looked for.
const PACE: Duration = Duration::from_millis(200);
/// Most links on the way to a path; more are a loop.
const LINKS: usize = 40;

/// Directories in which a link to `/dev/null` masks a unit.
const MASK_DIRECTORIES: [&str; 2] = ["/etc/systemd/system", "/run/systemd/system"];

/// Mount points of the mounts that this boot has yet to make, with the names of their units.
#[derive(Debug)]
pub(crate) struct AwaitedMounts(BTreeMap<ManagedPath, BTreeSet<String>>);

impl AwaitedMounts {
    pub(crate) fn look(root: &Root) -> Result<Self, HostError> {
        mount_points(root).map(Self)
    }

    /// Leave out the mounts of which a unit is one that the generation to come has otherwise.
    #[must_use]
    pub(crate) fn without(mut self, is_changed: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|_, units| !units.iter().any(|unit| is_changed(unit)));
        self
    }

    /// Return the point at or above `path`, by the links of `root`.
    pub(crate) fn above(&self, root: &Root, path: &ManagedPath) -> Option<&ManagedPath> {
        let resolved = resolve_links_above(root, path);
        self.0.keys().find(|point| resolved.is_within(point.as_str()))
    }

    /// Say that `path` cannot be put in place, if a mount above it is awaited.
    pub(crate) fn obstruction(&self, root: &Root, path: &ManagedPath) -> Option<String> {
        let point = self.above(root, path)?;
        Some(format!("{path} lies below {point}, which is not mounted; mount it, or mask its unit"))
    }

    /// Look again until no mount above one of `paths` is awaited, for at most `limit`. A mount with the option `nofail` is ordered
    /// before no target, and may come after all others.
    pub(crate) fn look_until_made(
        root: &Root,
        paths: &BTreeSet<ManagedPath>,
        limit: Duration,
    ) -> Result<Self, HostError> {
        let end = Instant::now() + limit;
        loop {
            let awaited = Self::look(root)?;
            if Instant::now() >= end || !paths.iter().any(|path| awaited.above(root, path).is_some()) {
                return Ok(awaited);
            }
            std::thread::sleep(PACE);
        }
    }
}

fn mount_points(root: &Root) -> Result<BTreeMap<ManagedPath, BTreeSet<String>>, HostError> {
    let mut points: BTreeMap<ManagedPath, BTreeSet<String>> = BTreeMap::new();
    for directory in UNIT_DIRECTORIES.map(ManagedPath::constant) {
        for target in root.list(&directory)?.iter().filter(|name| is_dependencies(name)) {
            let units = root.list(&directory.join(target))?;
            for unit in units {
                if let Some(point) = mount_point(&unit)
                    && !is_masked(root, &unit)
                {
                    points.entry(point).or_default().insert(unit);
                }
            }
        }
    }
    if !points.is_empty() {
        let mounted = root.mount_points()?;
        points.retain(|point, _| !mounted.contains(point));
    }
    Ok(points)
}

/// Resolve the links above `path`, as far as they can be read.
fn resolve_links_above(root: &Root, path: &ManagedPath) -> ManagedPath {
    let mut resolved = path.clone();
    for _ in 0..LINKS {
        let mut above: Vec<ManagedPath> = resolved.ancestors().collect();
        above.reverse();
        let followed = above.iter().find_map(|link| {
            let target = root.link_target(link).ok()??;
            let target = link.leads_to(&target).or_else(|| ManagedPath::parse(&target).ok())?;
            let rest = resolved.as_str().strip_prefix(link.as_str())?;
            ManagedPath::parse(&format!("{target}{rest}")).ok()
        });
        match followed {
            Some(followed) => resolved = followed,
            None => break,
        }
    }
    resolved
}

fn is_masked(root: &Root, unit: &str) -> bool {
    let leads_nowhere = |directory: &str| {
        let link = ManagedPath::constant(directory).join(unit);
        root.link_target(&link).is_ok_and(|target| target.as_deref() == Some("/dev/null"))
    };
    MASK_DIRECTORIES.iter().any(|directory| leads_nowhere(directory))
}

fn is_dependencies(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, suffix)| ["wants", "requires"].contains(&suffix))
}

/// Return the mount point that a unit name stands for (`systemd-escape --path`); `None` for another unit.
fn mount_point(unit: &str) -> Option<ManagedPath> {
    let name = unit.strip_suffix(".mount").or_else(|| unit.strip_suffix(".automount"))?;
    let mut bytes = Vec::with_capacity(name.len() + 1);
    bytes.push(b'/');
    let mut rest = name.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'-', _) => bytes.push(b'/'),
            (b'\\', [b'x', high, low, more @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                rest = more;
            }
            (other, _) => bytes.push(*other),
        }
    }
    ManagedPath::parse(std::str::from_utf8(&bytes).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_point_is_unescaped_from_the_unit_name() {
        for (unit, expected) in [
            ("var-home.mount", Some("/var/home")),
            ("var-home.automount", Some("/var/home")),
            ("var-lib-my\\x2ddata.mount", Some("/var/lib/my-data")),
            ("-.mount", None),
            ("var-home.service", None),
            ("var-\\xzz.mount", None),
        ] {
            assert_eq!(mount_point(unit).as_ref().map(ManagedPath::as_str), expected, "{unit}");
        }
    }

    #[test]
    fn masked_and_changed_mounts_are_not_awaited() {
        let top = tempfile::tempdir().unwrap();
        let units = top.path().join("etc/systemd/system");
        let wants = units.join("local-fs.target.wants");
        std::fs::create_dir_all(&wants).unwrap();
        for unit in ["var-a.mount", "var-b.mount", "var-c.mount"] {
            std::os::unix::fs::symlink(format!("../{unit}"), wants.join(unit)).unwrap();
        }
        std::os::unix::fs::symlink("/dev/null", units.join("var-b.mount")).unwrap();
        let root = Root::open(top.path()).unwrap();
        let awaited = AwaitedMounts::look(&root).unwrap().without(|unit| unit == "var-c.mount");
        let is_awaited = |path| awaited.above(&root, &ManagedPath::constant(path)).is_some();
        assert!(is_awaited("/var/a/cfg") && !is_awaited("/var/b/cfg") && !is_awaited("/var/c/cfg"));
    }

    #[test]
    fn links_above_a_path_are_resolved() {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(top.path().join("var/home/core")).unwrap();
        std::os::unix::fs::symlink("var/home", top.path().join("home")).unwrap();
        std::os::unix::fs::symlink("/home/core", top.path().join("var/me")).unwrap();
        let root = Root::open(top.path()).unwrap();
        let resolve = |path| resolve_links_above(&root, &ManagedPath::constant(path));
        assert_eq!(resolve("/var/me/cfg").as_str(), "/var/home/core/cfg");
        assert_eq!(resolve("/home").as_str(), "/home", "the last name is not followed");
    }
}

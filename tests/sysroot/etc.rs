//! The `/etc` that a new deployment must have: the image's files, an administrator's edits, and the config's files.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::model::config::{Config, Owner, Unit};
use testbed::model::snapshot::{self, Body, Node};

const UNITS: &str = "/etc/systemd/system";

/// The nodes of an `/etc`, by path relative to it.
pub(crate) type Etc = BTreeMap<String, Node>;

/// Edits an `/etc` as administrators do: changes a file that the next image changes too and one that it does not,
/// removes a file, changes a mode, and adds files.
pub(crate) fn administrate(etc: &Path) {
    identify(etc);
    fs::write(etc.join("hosts"), "127.0.0.1 localhost here\n").unwrap();
    fs::write(etc.join("chrony.conf"), "server by.hand\n").unwrap();
    fs::remove_file(etc.join("sysctl.conf")).unwrap();
    fs::set_permissions(etc.join("crio/crio.conf"), Permissions::from_mode(0o600)).unwrap();
    fs::create_dir_all(etc.join("local.d")).unwrap();
    fs::write(etc.join("local.d/own.conf"), "kept\n").unwrap();
    chown(etc.join("local.d/own.conf"), Some(1000), Some(10)).unwrap();
    symlink("own.conf", etc.join("local.d/link.conf")).unwrap();
}

/// Writes a machine ID, as after a first boot: without one, systemd applies presets at boot.
pub(crate) fn identify(etc: &Path) {
    fs::write(etc.join("machine-id"), "0123456789abcdef0123456789abcdef\n").unwrap();
}

/// The `/etc` of a deployment, without the product's own records.
pub(crate) fn found(root: &Path) -> Etc {
    let seen = snapshot::take(&root.join("etc")).into_iter().map(|(path, (node, _))| (path, node));
    let own = ["flameholder", "machine-config-daemon"];
    let foreign = seen.filter(|(path, _)| !own.contains(&path.split('/').next().unwrap()));
    foreign.map(|(path, node)| (path.clone(), undated(&path, node))).collect()
}

/// The expected `/etc` of a deployment with `config` as its first config, where `edit` was made on the deployment
/// before it.
pub(crate) fn expected(deployment: &Path, edit: impl Fn(&Path), config: &Config) -> Etc {
    let scratch = tempfile::tempdir().unwrap();
    let tree = Tree(scratch.path().to_owned());
    for (from, to) in [("usr", "usr"), ("usr/etc", "etc")] {
        let copied = Command::new("cp").arg("-a").arg(deployment.join(from)).arg(tree.0.join(to)).status();
        assert!(copied.unwrap().success());
    }
    edit(&tree.0.join("etc"));
    tree.write_storage(config);
    for unit in &config.units {
        tree.write_unit(unit);
    }
    tree.set_password(config);
    tree.set_enablement(config);
    found(&tree.0)
}

/// One line for each path that differs from the expected one.
pub(crate) fn differences(found: &Etc, expected: &Etc) -> Vec<String> {
    let mut paths: Vec<&String> = found.keys().chain(expected.keys()).collect();
    paths.sort();
    paths.dedup();
    let differ = paths.into_iter().filter(|path| found.get(*path) != expected.get(*path));
    differ.map(|path| format!("/etc/{path} is {:?}, not {:?}", found.get(path), expected.get(path))).collect()
}

/// A root to which this test applies a config independently of the product.
struct Tree(PathBuf);

impl Tree {
    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// Removes the node at a path below `/etc`; `None` for any other path.
    fn clear(&self, path: &str) -> Option<PathBuf> {
        path.strip_prefix("/etc/")?;
        let at = self.at(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        if at.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
            fs::remove_file(&at).unwrap();
        }
        Some(at)
    }

    fn write_storage(&self, config: &Config) {
        for (path, directory) in &config.directories {
            if let Some(at) = self.clear(path) {
                fs::create_dir_all(&at).unwrap();
                self.own(&at, &directory.user, &directory.group, directory.mode);
            }
        }
        for (path, file) in &config.files {
            if let Some(at) = self.clear(path) {
                fs::write(&at, &file.bytes).unwrap();
                self.own(&at, &file.user, &file.group, file.mode);
            }
        }
        for (path, target) in &config.links {
            if let Some(at) = self.clear(path) {
                symlink(target, at).unwrap();
            }
        }
    }

    fn own(&self, at: &Path, user: &Owner, group: &Owner, mode: u32) {
        chown(at, Some(self.id_of(user, "passwd")), Some(self.id_of(group, "group"))).unwrap();
        fs::set_permissions(at, Permissions::from_mode(mode)).unwrap();
    }

    /// The numeric ID from the tree's own databases: `/etc` precedes `/usr/lib`.
    fn id_of(&self, owner: &Owner, database: &str) -> u32 {
        let name = match owner {
            Owner::Id(id) => return *id,
            Owner::Name(name) => name,
        };
        let texts = ["etc", "usr/lib"]
            .map(|directory| fs::read_to_string(self.at(&format!("{directory}/{database}"))).unwrap());
        let entry = texts.iter().flat_map(|text| text.lines()).find_map(|line| {
            let mut fields = line.split(':');
            (fields.next() == Some(name)).then(|| fields.nth(1).unwrap())
        });
        entry.expect("a known owner").parse().unwrap()
    }

    fn write_unit(&self, unit: &Unit) {
        let path = format!("{UNITS}/{}", unit.name);
        for (name, contents) in unit.dropins.iter().filter(|(_, contents)| !contents.is_empty()) {
            self.write_text(&format!("{path}.d/{name}"), contents);
        }
        if unit.mask {
            symlink("/dev/null", self.clear(&path).unwrap()).unwrap();
        } else if unit.is_written() {
            self.write_text(&path, &unit.contents);
        }
    }

    fn write_text(&self, path: &str, text: &str) {
        let at = self.clear(path).unwrap();
        fs::write(&at, text).unwrap();
        fs::set_permissions(at, Permissions::from_mode(0o644)).unwrap();
    }

    fn set_password(&self, config: &Config) {
        let Some(hash) = &config.hash else { return };
        let at = self.at("etc/shadow");
        let lines = fs::read_to_string(&at).unwrap();
        let lines = lines.lines().map(|line| match line.strip_prefix("core:") {
            Some(fields) => format!("core:{hash}:{}\n", fields.split_once(':').unwrap().1),
            None => format!("{line}\n"),
        });
        fs::write(&at, lines.collect::<String>()).unwrap();
    }

    /// Enables units with `systemctl`: presets those that the config leaves open, then enables and disables.
    fn set_enablement(&self, config: &Config) {
        for (verb, enabled) in [("preset", None), ("enable", Some(true)), ("disable", Some(false))] {
            for unit in config.units.iter().filter(|unit| unit.enabled == enabled && self.has(unit)) {
                let mut systemctl = Command::new("systemctl");
                systemctl.arg("--root").arg(&self.0).args(["--quiet", verb, "--", &unit.name]);
                // Units without a preset operation, such as masked ones, stay unchanged.
                let done = systemctl.output().unwrap().status.success();
                assert!(done || enabled.is_none(), "systemctl {verb} {}", unit.name);
            }
        }
    }

    /// `true` where the tree has this unit or, for an instance, its template.
    fn has(&self, unit: &Unit) -> bool {
        let template = unit.name.split_once('@').and_then(|(prefix, instance)| {
            let (_, kind) = instance.rsplit_once('.')?;
            Some(format!("{prefix}@.{kind}"))
        });
        let names = [Some(unit.name.clone()), template];
        names.iter().flatten().any(|name| {
            [UNITS, "/usr/lib/systemd/system"]
                .iter()
                .any(|directory| self.at(&format!("{directory}/{name}")).symlink_metadata().is_ok())
        })
    }
}

/// Removes the date of the last change from `core`'s line of the shadow file, which is the day of the test.
fn undated(path: &str, mut node: Node) -> Node {
    if let ("shadow", Body::File(bytes)) = (path, &mut node.body) {
        let text = String::from_utf8(std::mem::take(bytes)).unwrap();
        let lines = text.lines().map(|line| match line.split(':').collect::<Vec<_>>().as_slice() {
            ["core", hash, _, rest @ ..] => format!("core:{hash}::{}\n", rest.join(":")),
            _ => format!("{line}\n"),
        });
        *bytes = lines.collect::<String>().into_bytes();
    }
    node
}

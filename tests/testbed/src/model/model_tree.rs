//! Tree to which the model itself applies configs: the expected tree of the product.
//!
//! Enablement is not modelled: the real `systemctl` works on this tree.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use super::config::{Config, Owner, Unit};
use super::snapshot::{self, Body, Node, Snapshot};
use super::tree::{CORE, Tree};

const UNITS: &str = "/etc/systemd/system";
const KEYS: &str = "/var/home/core/.ssh/authorized_keys.d/ignition";

/// Expected node at a path.
enum ExpectedNode {
    File { bytes: Vec<u8>, mode: u32, owner: (u32, u32) },
    Directory { mode: u32, owner: (u32, u32) },
    Link(String),
    HardLink(String),
    Absent,
}

/// Tree of the model, and its history.
pub struct ModelTree {
    tree: Tree,
    /// Tree before any config.
    before: Snapshot,
    applied: Config,
}

impl ModelTree {
    /// Create a tree without a config.
    pub fn new() -> Self {
        let tree = Tree::new();
        let before = snapshot::take(tree.root());
        Self { tree, before, applied: Config::default() }
    }

    /// Apply `config` to the tree.
    pub fn apply(&mut self, config: Config) {
        let was = std::mem::replace(&mut self.applied, config);
        self.disable_departing(&was);
        let stale = self.expected(&was);
        let wanted = self.expected(&self.applied);
        for path in stale.keys().rev().filter(|path| !wanted.contains_key(*path)) {
            self.restore(path);
        }
        // A hard link is made after its target.
        let is_hard_link = |node: &ExpectedNode| matches!(node, ExpectedNode::HardLink(_));
        for are_hard_links in [false, true] {
            for (path, node) in wanted.iter().filter(|(_, node)| is_hard_link(node) == are_hard_links) {
                self.write(path, node);
            }
        }
        self.set_password(&was);
        self.set_enablement(&was);
    }

    /// Present state of the tree.
    pub fn snapshot(&self) -> Snapshot {
        snapshot::take(self.tree.root())
    }

    /// Managed paths of the applied config, in the spelling of snapshots.
    pub fn managed(&self) -> Vec<String> {
        self.expected(&self.applied).keys().map(|path| self.resolved_name(path)).collect()
    }

    fn expected(&self, config: &Config) -> BTreeMap<String, ExpectedNode> {
        let mut expected = BTreeMap::new();
        for (path, file) in &config.files {
            let owner = (self.id_of(&file.user, "passwd"), self.id_of(&file.group, "group"));
            expected.insert(
                path.clone(),
                ExpectedNode::File { bytes: file.bytes.clone(), mode: file.mode, owner },
            );
        }
        for (path, directory) in &config.directories {
            let owner = (self.id_of(&directory.user, "passwd"), self.id_of(&directory.group, "group"));
            expected.insert(path.clone(), ExpectedNode::Directory { mode: directory.mode, owner });
        }
        for (path, target) in &config.links {
            expected.insert(path.clone(), ExpectedNode::Link(target.clone()));
        }
        for (path, target) in &config.hard_links {
            expected.insert(path.clone(), ExpectedNode::HardLink(target.clone()));
        }
        for unit in &config.units {
            let path = format!("{UNITS}/{}", unit.name);
            for (name, contents) in &unit.dropins {
                expected.insert(format!("{path}.d/{name}"), expected_text(contents));
            }
            if unit.mask {
                expected.insert(path, ExpectedNode::Link("/dev/null".to_owned()));
            } else if unit.is_written() {
                expected.insert(path, expected_text(&unit.contents));
            }
        }
        if let Some(keys) = config.keys.as_ref().filter(|keys| !keys.is_empty()) {
            let bytes = keys.iter().flat_map(|key| [key, "\n"]).collect::<String>().into_bytes();
            expected.insert(KEYS.to_owned(), ExpectedNode::File { bytes, mode: 0o600, owner: (CORE, CORE) });
        }
        expected
    }

    /// ID of an owner, from the tree's databases: the local one first, then the image's.
    fn id_of(&self, owner: &Owner, database: &str) -> u32 {
        let name = match owner {
            Owner::Id(id) => return *id,
            Owner::Name(name) => name,
        };
        let lines = ["etc", "usr/lib"].map(|directory| {
            fs::read_to_string(self.tree.at(&format!("{directory}/{database}"))).expect("a database")
        });
        let mut entries =
            lines.iter().flat_map(|text| text.lines()).map(|line| line.split(':').collect::<Vec<_>>());
        let entry = entries.find(|fields| fields[0] == name).expect("a known owner");
        entry[2].parse().expect("an id")
    }

    fn write(&self, path: &str, node: &ExpectedNode) {
        match node {
            ExpectedNode::Absent => self.restore_absence(path),
            ExpectedNode::Link(target) => self.tree.link(path, target),
            ExpectedNode::HardLink(target) => {
                self.tree.file(path, 0o600, (0, 0), b"");
                fs::remove_file(self.tree.at(path)).expect("the path of the hard link can be removed");
                fs::hard_link(self.tree.at(target), self.tree.at(path)).expect("the hard link can be made");
            }
            ExpectedNode::Directory { mode, owner } => self.directory(path, *mode, *owner),
            ExpectedNode::File { bytes, mode, owner } => {
                if path == KEYS {
                    for directory in ["/var/home/core/.ssh", "/var/home/core/.ssh/authorized_keys.d"] {
                        self.directory(directory, 0o700, (CORE, CORE));
                    }
                }
                self.tree.file(path, *mode, *owner, bytes);
            }
        }
    }

    fn directory(&self, path: &str, mode: u32, (uid, gid): (u32, u32)) {
        self.tree.directory(path);
        let at = self.tree.at(path);
        chown(&at, Some(uid), Some(gid)).expect("the directory's owner");
        fs::set_permissions(at, Permissions::from_mode(mode)).expect("the directory's mode");
    }

    /// Restore the node that was at `path` before any config.
    fn restore(&self, path: &str) {
        match self.before.get(&self.resolved_name(path)) {
            Some((Node { body: Body::File(bytes), mode, owner }, _)) => {
                self.tree.file(path, *mode, *owner, bytes);
            }
            Some((node, _)) => panic!("the tree has no {node:?} to restore at {path}"),
            None => self.restore_absence(path),
        }
    }

    /// Remove the node at `path`, then every directory above it that is now empty and that did not exist
    /// before.
    fn restore_absence(&self, path: &str) {
        let at = self.tree.at(path);
        if at.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
            fs::remove_file(&at).expect("a managed file can be removed");
        }
        for parent in Path::new(&self.resolved_name(path)).ancestors().skip(usize::from(!at.is_dir())) {
            let ours = !self.before.contains_key(parent.to_str().expect("UTF-8"));
            if !ours || fs::remove_dir(self.tree.root().join(parent)).is_err() {
                break;
            }
        }
    }

    /// `path` relative to the root, with links above its last component resolved.
    fn resolved_name(&self, path: &str) -> String {
        let at = self.tree.at(path);
        let there = at.ancestors().skip(1).find(|parent| parent.is_dir()).expect("the root at least");
        let root = self.tree.root().canonicalize().expect("the root");
        let below = at.strip_prefix(there).expect("an ancestor");
        let resolved = there.canonicalize().expect("a directory").join(below);
        resolved.strip_prefix(root).expect("a path in the tree").to_str().expect("UTF-8").to_owned()
    }

    /// Set the password hash. A hash of the last config that this one does not have is locked; a hash that no
    /// config set stays.
    fn set_password(&self, was: &Config) {
        let hash = match (&self.applied.hash, &was.hash) {
            (Some(hash), _) => hash.as_str(),
            (None, Some(_)) => "*",
            (None, None) => return,
        };
        let at = self.tree.at("etc/shadow");
        let shadow = fs::read_to_string(&at).expect("shadow");
        let lines = shadow.lines().map(|line| match line.strip_prefix("core:") {
            Some(fields) => format!("core:{hash}:{}\n", fields.split_once(':').expect("fields").1),
            None => format!("{line}\n"),
        });
        self.tree.file("etc/shadow", 0o000, (0, 0), lines.collect::<String>().as_bytes());
    }

    /// Remove the links of units that lose their file or whose `[Install]` section changes.
    fn disable_departing(&self, was: &Config) {
        for unit in was.units.iter().filter(|unit| unit.is_written()) {
            let stays = self.applied.unit(&unit.name).filter(|next| next.is_written());
            if stays.is_none_or(|next| next.install() != unit.install()) {
                self.systemctl("disable", &[unit]);
            }
        }
    }

    fn set_enablement(&self, was: &Config) {
        let units = &self.applied.units;
        let departed = was.units.iter().filter(|unit| self.applied.unit(&unit.name).is_none());
        let unset = units.iter().filter(|unit| unit.enabled.is_none());
        let preset: Vec<&Unit> = departed.chain(unset).filter(|unit| self.has(&unit.name)).collect();
        // One call for all units is fast; one call per unit is specified, so that an error affects only its
        // own unit.
        if !preset.is_empty() && !self.systemctl("preset", &preset) {
            for unit in &preset {
                self.systemctl("preset", &[unit]);
            }
        }
        for (verb, wanted) in [("enable", true), ("disable", false)] {
            let known =
                |unit: &&Unit| unit.enabled == Some(wanted) && (unit.is_written() || self.has(&unit.name));
            let listed: Vec<&Unit> = units.iter().filter(known).collect();
            if !listed.is_empty() {
                let done = self.systemctl(verb, &listed);
                assert!(done, "systemctl {verb} refused one of {listed:?}");
            }
        }
    }

    /// True if the tree has this unit, or the template of this instance.
    fn has(&self, name: &str) -> bool {
        let template =
            name.split_once('@').and_then(|(prefix, rest)| Some((prefix, rest.rsplit_once('.')?.1)));
        let template = template.map(|(prefix, kind)| format!("{prefix}@.{kind}"));
        let names = [Some(name.to_owned()), template];
        names.iter().flatten().any(|name| {
            [UNITS, "/usr/lib/systemd/system"]
                .iter()
                .any(|directory| self.tree.at(&format!("{directory}/{name}")).symlink_metadata().is_ok())
        })
    }

    fn systemctl(&self, verb: &str, units: &[&Unit]) -> bool {
        let mut command = Command::new("systemctl");
        command.arg("--root").arg(self.tree.root()).args(["--quiet", verb, "--"]);
        command.args(units.iter().map(|unit| &unit.name));
        command.output().expect("systemctl").status.success()
    }
}

fn expected_text(contents: &str) -> ExpectedNode {
    if contents.is_empty() {
        ExpectedNode::Absent
    } else {
        ExpectedNode::File { bytes: contents.as_bytes().to_vec(), mode: 0o644, owner: (0, 0) }
    }
}

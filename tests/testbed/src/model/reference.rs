//! A tree that the model itself brings from config to config: what the product's tree must look like.
//!
//! Enablement is not modelled: the real `systemctl` works on this tree.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::Command,
};

use super::{
    config::{Config, Owner, Unit},
    snapshot::{self, Body, Node, Snapshot},
    tree::{CORE, Tree},
};

const UNITS: &str = "/etc/systemd/system";
const KEYS: &str = "/var/home/core/.ssh/authorized_keys.d/ignition";

/// What a config wants at a path.
enum Want {
    File { bytes: Vec<u8>, mode: u32, owner: (u32, u32) },
    Directory { mode: u32, owner: (u32, u32) },
    Link(String),
    SecondName(String),
    Nothing,
}

/// The model's tree and what it knows of its past.
pub struct Reference {
    tree: Tree,
    /// The tree before any config.
    before: Snapshot,
    applied: Config,
}

impl Reference {
    /// A tree to which nothing has been applied.
    pub fn new() -> Self {
        let tree = Tree::new();
        let before = snapshot::take(tree.root());
        Self { tree, before, applied: Config::default() }
    }

    /// Makes the tree what `config` says.
    pub fn bring_to(&mut self, config: Config) {
        let was = std::mem::replace(&mut self.applied, config);
        self.disable_departing(&was);
        let stale = self.wants(&was);
        let wanted = self.wants(&self.applied);
        for path in stale.keys().rev().filter(|path| !wanted.contains_key(*path)) {
            self.restore(path);
        }
        // A second name comes after the file that it is one of.
        for are_names in [false, true] {
            let turn = |want: &Want| matches!(want, Want::SecondName(_)) == are_names;
            wanted.iter().filter(|(_, want)| turn(want)).for_each(|(path, want)| self.write(path, want));
        }
        self.set_password(&was);
        self.set_enablement(&was);
    }

    /// What is there now.
    pub fn sight(&self) -> Snapshot {
        snapshot::take(self.tree.root())
    }

    /// The managed paths of the applied config, as snapshots spell them.
    pub fn managed(&self) -> Vec<String> {
        self.wants(&self.applied).keys().map(|path| self.spell(path)).collect()
    }

    fn wants(&self, config: &Config) -> BTreeMap<String, Want> {
        let mut wants = BTreeMap::new();
        for (path, file) in &config.files {
            let owner = (self.id_of(&file.user, "passwd"), self.id_of(&file.group, "group"));
            wants.insert(path.clone(), Want::File { bytes: file.bytes.clone(), mode: file.mode, owner });
        }
        for (path, directory) in &config.directories {
            let owner = (self.id_of(&directory.user, "passwd"), self.id_of(&directory.group, "group"));
            wants.insert(path.clone(), Want::Directory { mode: directory.mode, owner });
        }
        for (path, target) in &config.links {
            wants.insert(path.clone(), Want::Link(target.clone()));
        }
        for (path, target) in &config.hard_links {
            wants.insert(path.clone(), Want::SecondName(target.clone()));
        }
        for unit in &config.units {
            let path = format!("{UNITS}/{}", unit.name);
            for (name, contents) in &unit.dropins {
                wants.insert(format!("{path}.d/{name}"), want_text(contents));
            }
            if unit.mask {
                wants.insert(path, Want::Link("/dev/null".to_owned()));
            } else if unit.is_written() {
                wants.insert(path, want_text(&unit.contents));
            }
        }
        if let Some(keys) = &config.keys {
            let bytes = keys.iter().flat_map(|key| [key, "\n"]).collect::<String>().into_bytes();
            wants.insert(KEYS.to_owned(), Want::File { bytes, mode: 0o600, owner: (CORE, CORE) });
        }
        wants
    }

    /// The id of an owner, by the tree's own databases: the local one first, then the image's.
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

    fn write(&self, path: &str, want: &Want) {
        match want {
            Want::Nothing => self.restore_nothing(path),
            Want::Link(target) => self.tree.link(path, target),
            Want::SecondName(target) => {
                self.tree.file(path, 0o600, (0, 0), b"");
                fs::remove_file(self.tree.at(path)).expect("to make room for a second name");
                fs::hard_link(self.tree.at(target), self.tree.at(path)).expect("a second name");
            }
            Want::Directory { mode, owner } => self.directory(path, *mode, *owner),
            Want::File { bytes, mode, owner } => {
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

    /// Puts back what was at `path` before any config.
    fn restore(&self, path: &str) {
        match self.before.get(&self.spell(path)) {
            Some((Node { body: Body::File(bytes), mode, owner }, _)) => {
                self.tree.file(path, *mode, *owner, bytes);
            }
            Some((node, _)) => panic!("the tree has no {node:?} to restore at {path}"),
            None => self.restore_nothing(path),
        }
    }

    /// Removes what is at `path`, then every directory above it that is now empty and was not there before.
    fn restore_nothing(&self, path: &str) {
        let at = self.tree.at(path);
        if at.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
            fs::remove_file(&at).expect("to remove a managed file");
        }
        for parent in Path::new(&self.spell(path)).ancestors().skip(usize::from(!at.is_dir())) {
            let ours = !self.before.contains_key(parent.to_str().expect("UTF-8"));
            if !ours || fs::remove_dir(self.tree.root().join(parent)).is_err() {
                break;
            }
        }
    }

    /// `path` relative to the root, with the links on the way to its last part resolved.
    fn spell(&self, path: &str) -> String {
        let at = self.tree.at(path);
        let there = at.ancestors().skip(1).find(|parent| parent.is_dir()).expect("the root at least");
        let root = self.tree.root().canonicalize().expect("the root");
        let below = at.strip_prefix(there).expect("an ancestor");
        let resolved = there.canonicalize().expect("a directory").join(below);
        resolved.strip_prefix(root).expect("a path in the tree").to_str().expect("UTF-8").to_owned()
    }

    /// A hash that the last config brought and this one does not is locked; one that no config brought stays.
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

    /// Takes away the links of units that lose their file or change their `[Install]` section.
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
        // All at once is what is quick; one by one is what is specified, an error of one being none of the others'.
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

    /// Whether the tree has this unit, or the template that it is an instance of.
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

fn want_text(contents: &str) -> Want {
    if contents.is_empty() {
        Want::Nothing
    } else {
        Want::File { bytes: contents.as_bytes().to_vec(), mode: 0o644, owner: (0, 0) }
    }
}

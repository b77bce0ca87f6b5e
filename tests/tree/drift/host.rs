//! Tree with an applied config that has entries of every kind, and means to damage and inspect it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;

use flameholder::core::state::objects::{ACTIVE, OBJECTS};
use flameholder::core::values::tree::ContentDigest;
use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use serde_json::{Value, json};
use testbed::model::document::{file, with_files};
use testbed::model::run::{Outcome, flameholder};
use testbed::model::snapshot::{self, Snapshot};
use testbed::model::tree::{CORE, Tree};

pub(super) const UNITS: &str = "/etc/systemd/system";
pub(super) const WANTS: &str = "/etc/systemd/system/multi-user.target.wants/own.service";
pub(super) const RECORD: &str = "/etc/flameholder/generation";
pub(super) const CONFIG: &str = "/etc/machine-config-daemon/currentconfig";
pub(super) const KEYS: &str = "/var/home/core/.ssh/authorized_keys.d/ignition";

/// Drift: path, kind and policy.
pub(super) type Found = Vec<(String, String, String)>;

pub(super) struct Host {
    pub tree: Tree,
    documents: tempfile::TempDir,
}

/// MachineConfig with files, a directory, links of both kinds, units, keys and a password.
pub(super) fn many_sided() -> Value {
    let unit = json!({"name": "own.service", "enabled": true,
        "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
        "dropins": [{"name": "10-a.conf", "contents": "[Service]\nNice=1\n"},
                    {"name": "20-gone.conf", "contents": ""}]});
    let masked = json!({"name": "rpcbind.socket", "mask": true});
    let disabled = json!({"name": "zincati.service", "enabled": false});
    let files = ["/etc/a", "/etc/b", "/etc/deep/er/c", "/etc/admin.conf"].map(|path| file(path, "ours\n"));
    let mut config = with_files("rendered-many", &files);
    let ignition = &mut config["spec"]["config"];
    ignition["systemd"] = json!({"units": [unit, masked, disabled]});
    ignition["passwd"] = json!({"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-rsa AAAAkey"],
        "passwordHash": "$6$salt$hash"}]});
    ignition["storage"]["directories"] = json!([{"path": "/etc/dir", "mode": 0o750}]);
    ignition["storage"]["links"] = json!([{"path": "/etc/soft", "target": "a"},
        {"path": "/etc/hard", "target": "/etc/a", "hard": true}]);
    config
}

impl Host {
    /// Create a tree with [`many_sided`] applied and without drift.
    pub(super) fn new() -> Self {
        let host = Self { tree: Tree::new(), documents: tempfile::tempdir().unwrap() };
        host.apply(&many_sided());
        assert_eq!(host.found(), []);
        host
    }

    pub(super) fn apply(&self, config: &Value) {
        let outcome = self.run_with("apply", config, &[]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }

    /// Run a command with this desired config.
    pub(super) fn run_with(&self, verb: &str, config: &Value, more: &[&str]) -> Outcome {
        let desired = self.documents.path().join("desired.json");
        fs::write(&desired, config.to_string()).unwrap();
        let place = [verb.as_ref(), "--root".as_ref(), self.tree.root().as_os_str(), "--desired".as_ref()];
        let more = more.iter().map(AsRef::as_ref);
        flameholder(place.into_iter().chain([desired.as_os_str()]).chain(more))
    }

    pub(super) fn verify(&self, more: &[&str]) -> Outcome {
        let line = ["verify".as_ref(), "--root".as_ref(), self.tree.root().as_os_str()];
        flameholder(line.into_iter().chain(more.iter().map(AsRef::as_ref)))
    }

    /// Document of `verify`; panics if the exit code does not match it.
    pub(super) fn document(&self, more: &[&str]) -> Value {
        let outcome = self.verify(&[&["-o", "json"], more].concat());
        let document: Value =
            serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
        let counts = document["drift"].as_array().unwrap().iter().any(|item| item["counts"] == true);
        assert_eq!(outcome.code, Some(if counts { 2 } else { 0 }), "{outcome:?}");
        document
    }

    pub(super) fn found(&self) -> Found {
        triples(&self.document(&[])["drift"])
    }

    /// Path and kind of every drift.
    pub(super) fn kinds(&self) -> Vec<(String, String)> {
        self.found().into_iter().map(|(path, kind, _)| (path, kind)).collect()
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.tree.at(path)
    }

    pub(super) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_else(|error| format!("{path}: {error}"))
    }

    /// Name of the only kept local version.
    pub(super) fn kept_name(&self) -> std::ffi::OsString {
        let kept = fs::read_dir(self.at("/var/lib/flameholder/undone")).unwrap().next();
        kept.unwrap().unwrap().file_name()
    }

    /// Contents of the local versions that a change or a repair replaced.
    pub(super) fn kept_versions(&self) -> Vec<String> {
        let kept = fs::read_dir(self.at("/var/lib/flameholder/undone")).into_iter().flatten();
        kept.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
    }

    pub(super) fn put(&self, path: &str, text: &str) {
        self.tree.file(path, 0o644, (0, 0), text.as_bytes());
    }

    /// Write a fragment of the agent's settings in `/etc`.
    pub(super) fn settings(&self, name: &str, text: &str) {
        self.put(&format!("/etc/flameholder/config.d/{name}"), text);
    }

    pub(super) fn xattr(&self, path: &str, name: &str, value: &[u8]) {
        lsetxattr(self.at(path), name, value, XattrFlags::empty()).unwrap();
    }

    pub(super) fn has_xattr(&self, path: &str, name: &str) -> bool {
        lgetxattr(self.at(path), name, &mut [0; 256]).is_ok()
    }

    pub(super) fn label(&self, path: &str) -> String {
        let mut buffer = [0; 256];
        let length = lgetxattr(self.at(path), "security.selinux", &mut buffer).unwrap_or_default();
        String::from_utf8_lossy(&buffer[..length]).trim_end_matches('\0').to_owned()
    }

    /// Label these paths and add the labels to the record, as an apply on a host with SELinux does.
    pub(super) fn labelled(&self, labels: &[(&str, &str)]) {
        let mut record: Value = serde_json::from_str(&self.text(RECORD)).unwrap();
        for (path, label) in labels {
            self.xattr(path, "security.selinux", &[label.as_bytes(), b"\0"].concat());
            record["labels"][*path] = json!(label);
        }
        fs::write(self.at(RECORD), record.to_string() + "\n").unwrap();
    }

    /// Label these paths outside `/etc`, and add the labels to the manifest, as an activation on a host with
    /// SELinux does.
    pub(super) fn labelled_outside(&self, labels: &[(&str, &str)]) {
        let mut record: Value = serde_json::from_str(&self.text(RECORD)).unwrap();
        let object = |digest: &str| format!("{OBJECTS}/{}", digest.trim_start_matches("sha256:"));
        let old = record["manifest"].as_str().unwrap().to_owned();
        let mut manifest: Value = serde_json::from_str(&self.text(&object(&old))).unwrap();
        for (path, label) in labels {
            self.xattr(path, "security.selinux", &[label.as_bytes(), b"\0"].concat());
            manifest["labels"][*path] = json!(label);
        }
        let text = manifest.to_string() + "\n";
        let new = ContentDigest::of(text.as_bytes()).to_string();
        fs::write(self.at(&object(&new)), text).unwrap();
        record["manifest"] = json!(new);
        fs::write(self.at(RECORD), record.to_string() + "\n").unwrap();
        let active = self.text(ACTIVE).replace(&old, &new);
        fs::write(self.at(ACTIVE), active).unwrap();
    }

    pub(super) fn edit(&self, path: &str) {
        fs::write(self.at(path), "foreign\n").unwrap();
    }

    pub(super) fn remove(&self, path: &str) {
        let at = self.at(path);
        let is_directory = at.symlink_metadata().unwrap().is_dir();
        if is_directory { fs::remove_dir_all(at).unwrap() } else { fs::remove_file(at).unwrap() }
    }

    pub(super) fn link(&self, path: &str, target: &str) {
        self.remove(path);
        symlink(target, self.at(path)).unwrap();
    }

    pub(super) fn mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.at(path), Permissions::from_mode(mode)).unwrap();
    }

    pub(super) fn give(&self, path: &str, owner: u32) {
        std::os::unix::fs::lchown(self.at(path), Some(owner), Some(owner)).unwrap();
    }

    pub(super) fn inode(&self, path: &str) -> u64 {
        self.at(path).symlink_metadata().unwrap().ino()
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        snapshot::take(self.tree.root())
    }

    /// Cause drift of every kind.
    pub(super) fn damage(&self) {
        self.edit("/etc/b");
        self.mode("/etc/admin.conf", 0o600);
        self.give("/etc/soft", CORE);
        self.remove("/etc/deep");
        self.mode("/etc/dir", 0o700);
        self.link("/var/home/core/.ssh", "/etc");
        self.remove(&format!("{UNITS}/rpcbind.socket"));
        self.put(&format!("{UNITS}/rpcbind.socket"), "[Socket]\nListenStream=/run/x\n");
        self.put(&format!("{UNITS}/own.service.d/20-gone.conf"), "[Service]\nNice=2\n");
        self.xattr(&format!("{UNITS}/own.service"), "user.note", b"mine");
        self.remove(WANTS);
        self.tree.link(
            &format!("{UNITS}/multi-user.target.wants/zincati.service"),
            "/usr/lib/systemd/system/zincati.service",
        );
        self.remove("/etc/hard");
        self.put("/etc/hard", "ours\n");
        let shadow = self.text("/etc/shadow").replace("$6$salt$hash", "$6$salt$other");
        fs::write(self.at("/etc/shadow"), shadow).unwrap();
        chown(self.at("/etc/a"), Some(7), Some(8)).unwrap();
    }
}

/// Path, kind and policy of each item.
pub(super) fn triples(items: &Value) -> Found {
    let text = |item: &Value, member: &str| item[member].as_str().unwrap_or_default().to_owned();
    let items = items.as_array().unwrap().iter();
    items.map(|item| (text(item, "path"), text(item, "kind"), text(item, "policy"))).collect()
}

//! File tree of a host in the `CoreOS` layout, small enough to be built for every case.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// UID and GID of `core` in the tree's passwd.
pub const CORE: u32 = 1000;

/// Path, mode, owner (UID and GID), contents. Directories above are made with mode 0755, root:root.
const FILES: &[(&str, u32, (u32, u32), &str)] = &[
    (
        "etc/passwd",
        0o644,
        (0, 0),
        "root:x:0:0:Super User:/root:/bin/bash\ncore:x:1000:1000:CoreOS Admin:/var/home/core:/bin/bash\n",
    ),
    ("etc/group", 0o644, (0, 0), "root:x:0:\nwheel:x:10:core\ncore:x:1000:\n"),
    // Every host has it since its first user was added.
    ("etc/.pwd.lock", 0o600, (0, 0), ""),
    ("etc/shadow", 0o000, (0, 0), "root:*:19700:0:99999:7:::\ncore:!!:19800:0:99999:7:::\n"),
    ("usr/lib/passwd", 0o644, (0, 0), "chrony:x:994:993:chrony:/var/lib/chrony:/sbin/nologin\n"),
    ("usr/lib/group", 0o644, (0, 0), "chrony:x:993:\n"),
    ("usr/lib/os-release", 0o644, (0, 0), "ID=rhcos\nVARIANT_ID=coreos\nVERSION_ID=\"4.20\"\n"),
    ("etc/chrony.conf", 0o644, (0, 0), "pool vendor.example iburst\n"),
    ("usr/etc/chrony.conf", 0o644, (0, 0), "pool vendor.example iburst\n"),
    ("etc/login.defs", 0o600, (0, 0), "UMASK 077 # by the administrator\n"),
    ("usr/etc/login.defs", 0o644, (0, 0), "UMASK 022\n"),
    ("etc/admin.conf", 0o640, (CORE, 10), "written by an administrator\n"),
    ("etc/unmanaged.conf", 0o604, (7, 8), "not managed\n"),
    ("etc/systemd/system/local.service", 0o640, (0, 10), "[Service]\nExecStart=/bin/true\n"),
    ("var/home/core/.bashrc", 0o600, (CORE, CORE), "alias ll='ls -l'\n"),
    ("var/usrlocal/bin/by-hand", 0o755, (0, 0), "#!/bin/sh\n"),
    (
        "usr/lib/systemd/system-preset/90-default.preset",
        0o644,
        (0, 0),
        "enable crio.service\nenable chrony-wait.service\nenable zincati.service\n",
    ),
    ("usr/lib/systemd/system-preset/99-default-disable.preset", 0o644, (0, 0), "disable *\n"),
];

/// Units of the image, and the target that wants each.
const VENDOR_UNITS: &[(&str, &str)] = &[
    ("chrony-wait.service", "multi-user.target"),
    ("dbus.socket", "sockets.target"),
    ("crio.service", "multi-user.target"),
    ("docker.socket", "sockets.target"),
    ("ipsec.service", "multi-user.target"),
    ("openvswitch.service", "multi-user.target"),
    ("ovs-vswitchd.service", "multi-user.target"),
    ("ovsdb-server.service", "multi-user.target"),
    ("rpcbind.service", "multi-user.target"),
    ("rpcbind.socket", "sockets.target"),
    ("rpm-ostreed.service", "multi-user.target"),
    ("sshd.service", "multi-user.target"),
    ("zincati.service", "multi-user.target"),
];

/// Path and target of the initial links. No config of the tests touches `dbus.socket` and `sshd.service`, so
/// that the directories of their links are never empty.
const LINKS: &[(&str, &str)] = &[
    ("home", "var/home"),
    ("opt", "var/opt"),
    ("root", "var/roothome"),
    ("usr/local", "../var/usrlocal"),
    ("etc/os-release", "../usr/lib/os-release"),
    ("etc/systemd/system/multi-user.target.wants/crio.service", "/usr/lib/systemd/system/crio.service"),
    ("etc/systemd/system/multi-user.target.wants/sshd.service", "/usr/lib/systemd/system/sshd.service"),
    ("etc/systemd/system/sockets.target.wants/dbus.socket", "/usr/lib/systemd/system/dbus.socket"),
    ("etc/systemd/system/multi-user.target.wants/zincati.service", "/usr/lib/systemd/system/zincati.service"),
    ("etc/systemd/system/sockets.target.wants/rpcbind.socket", "/usr/lib/systemd/system/rpcbind.socket"),
];

/// Tree in a temporary directory, removed when dropped.
pub struct Tree(TempDir);

impl Tree {
    /// Build the tree; every call builds an equal one. Needs root to change owners.
    pub fn new() -> Self {
        let tree = Self(tempfile::tempdir().expect("a temporary directory"));
        tree.populate();
        tree.age();
        tree
    }

    /// Root of the tree, for `--root`.
    pub fn root(&self) -> &Path {
        self.0.path()
    }

    /// Real path of `path` in the tree; the leading slash is optional.
    pub fn at(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    /// Make a directory and those above it, mode 0755, root:root whatever the umask.
    pub fn directory(&self, path: &str) {
        let mut at = self.root().to_path_buf();
        for name in Path::new(path.trim_start_matches('/')) {
            at.push(name);
            if !at.exists() {
                fs::create_dir(&at).expect("a directory");
                fs::set_permissions(&at, Permissions::from_mode(0o755)).expect("its mode");
            }
        }
    }

    /// Write a file at `path`, replacing a file or link there.
    pub fn file(&self, path: &str, mode: u32, (uid, gid): (u32, u32), contents: &[u8]) {
        let at = self.vacate(path);
        fs::write(&at, contents).expect("a file");
        chown(&at, Some(uid), Some(gid)).expect("its owner");
        fs::set_permissions(&at, Permissions::from_mode(mode)).expect("its mode");
    }

    /// Make a symbolic link at `path`, replacing a file or link there.
    pub fn link(&self, path: &str, target: &str) {
        symlink(target, self.vacate(path)).expect("a link");
    }

    fn vacate(&self, path: &str) -> PathBuf {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.directory(parent);
        }
        let at = self.at(path);
        if at.symlink_metadata().is_ok() {
            fs::remove_file(&at).expect("the old file can be removed");
        }
        at
    }

    fn populate(&self) {
        fs::set_permissions(self.root(), Permissions::from_mode(0o755)).expect("the root's mode");
        for directory in ["etc/empty.d", "run", "var/home/core", "var/lib", "var/opt", "var/usrlocal/sbin"] {
            self.directory(directory);
        }
        self.directory("var/roothome");
        for (path, mode, owner, contents) in FILES {
            self.file(path, *mode, *owner, contents.as_bytes());
        }
        for (name, wanted_by) in VENDOR_UNITS {
            let main = if name.ends_with(".socket") {
                "[Socket]\nListenStream=/run/test.sock"
            } else {
                "[Service]\nExecStart=/bin/true"
            };
            let unit = format!("[Unit]\nDescription={name}\n{main}\n[Install]\nWantedBy={wanted_by}\n");
            self.file(&format!("usr/lib/systemd/system/{name}"), 0o644, (0, 0), unit.as_bytes());
        }
        for (path, target) in LINKS {
            self.link(path, target);
        }
        let home = self.at("var/home/core");
        chown(&home, Some(CORE), Some(CORE)).expect("the home's owner");
        fs::set_permissions(&home, Permissions::from_mode(0o700)).expect("the home's mode");
        fs::set_permissions(self.at("etc/empty.d"), Permissions::from_mode(0o750)).expect("a mode");
    }

    /// Set old modification times, so that a rewritten file is noticed whatever the resolution of the clock.
    fn age(&self) {
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for (path, ..) in FILES {
            let file = File::open(self.at(path)).expect("a file of the tree");
            file.set_modified(then).expect("its time");
        }
    }
}

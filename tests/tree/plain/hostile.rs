//! Trees that a hostile user or an administrator's mistake prepared: no foreign file is removed, no foreign
//! link is followed, and no command panics.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};
use testbed::model::applied_tree::apply;
use testbed::model::document::{file, machine_config, with_files};
use testbed::model::run::{Outcome, flameholder, launch, program};
use testbed::model::tree::Tree;

pub(super) const UNITS: &str = "/etc/systemd/system";

/// Tree, and a folder for configs.
pub(super) struct Host(pub Tree, tempfile::TempDir);

impl Host {
    pub(super) fn new() -> Self {
        Self(Tree::new(), tempfile::tempdir().expect("a temporary directory"))
    }

    pub(super) fn written(&self, config: &Value) -> std::path::PathBuf {
        let path = self.1.path().join("desired.json");
        fs::write(&path, config.to_string()).expect("a document");
        path
    }

    pub(super) fn apply(&self, config: &Value) -> Outcome {
        apply(self.0.root(), &self.written(config))
    }

    pub(super) fn applies(&self, config: &Value) {
        let outcome = self.apply(config);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }

    /// Panics unless the config fails to apply with exit code 1 and `named` in the error.
    pub(super) fn assert_obstructed(&self, config: &Value, named: &str) {
        let outcome = self.apply(config);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        assert!(outcome.stderr.contains(named), "the error does not name {named}: {}", outcome.stderr);
    }

    pub(super) fn verify(&self) -> Option<i32> {
        flameholder(["verify".as_ref(), "--root".as_ref(), self.0.root().as_os_str()]).code
    }

    pub(super) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.at(path)).unwrap_or_else(|error| format!("{path}: {error}"))
    }

    pub(super) fn put(&self, path: &str, text: &str) {
        self.0.file(path, 0o644, (0, 0), text.as_bytes());
    }
}

pub(super) fn files(files: &[Value]) -> Value {
    with_files("rendered-x", files)
}

pub(super) fn empty() -> Value {
    with_files("rendered-empty", &[])
}

pub(super) fn ignition(name: &str, part: &Value) -> Value {
    let mut config = json!({"ignition": {"version": "3.4.0"}});
    config[name] = part.clone();
    machine_config("rendered-x", &config)
}

pub(super) fn units(units: &Value) -> Value {
    ignition("systemd", &json!({"units": units}))
}

pub(super) fn keys() -> Value {
    ignition("passwd", &json!({"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-rsa AAAAkey"]}]}))
}

#[test]
fn foreign_directory_is_an_obstacle_and_kept() {
    let host = Host::new();
    let inside = format!("{UNITS}/foo.service.d/10-a.conf/precious");
    host.put(&inside, "data");
    let absent = units(&json!([{"name": "foo.service", "dropins": [{"name": "10-a.conf", "contents": ""}]}]));
    host.assert_obstructed(&absent, "10-a.conf");
    assert_eq!(host.text(&inside), "data");

    let host = Host::new();
    host.put("/etc/foo", "admin");
    host.applies(&files(&[file("/etc/foo", "ours")]));
    fs::remove_file(host.0.at("/etc/foo")).unwrap();
    host.put("/etc/foo/precious", "data");
    host.assert_obstructed(&empty(), "/etc/foo");
    assert_eq!(host.text("/etc/foo/precious"), "data");

    let host = Host::new();
    host.put("/etc/machine-config-daemon/currentconfig/precious", "data");
    assert_eq!(host.apply(&files(&[file("/etc/a", "x")])).code, Some(1));
    assert_eq!(host.text("/etc/machine-config-daemon/currentconfig/precious"), "data");
}

#[test]
fn file_moved_between_two_spellings_of_its_path_is_kept() {
    let host = Host::new();
    host.applies(&files(&[file("/root/.x", "1")]));
    host.applies(&files(&[file("/var/roothome/.x", "2")]));
    assert_eq!((host.text("/var/roothome/.x").as_str(), host.verify()), ("2", Some(0)));
    let both = files(&[file("/root/.y", "1"), file("/var/roothome/.y", "2")]);
    host.assert_obstructed(&both, ".y");
}

#[test]
fn link_in_place_of_a_managed_directory_is_replaced() {
    for target in [".ssh2", "/etc", ".ssh"] {
        let host = Host::new();
        host.applies(&keys());
        let ssh = host.0.at("/var/home/core/.ssh");
        fs::rename(&ssh, ssh.with_file_name(".ssh2")).unwrap();
        symlink(target, &ssh).unwrap();
        assert_eq!(host.verify(), Some(2), "{target}");
        host.applies(&keys());
        assert!(ssh.symlink_metadata().unwrap().is_dir(), "{target}");
        assert_eq!(host.text("/var/home/core/.ssh/authorized_keys.d/ignition"), "ssh-rsa AAAAkey\n");
        assert_eq!(host.verify(), Some(0), "{target}");
    }
}

#[test]
fn links_under_control_of_other_users_are_not_followed() {
    let host = Host::new();
    host.put("/etc/sudoers.d/app", "root's rule");
    let home = host.0.at("/var/home/core");
    std::os::unix::fs::chown(&home, Some(1000), Some(1000)).unwrap();
    symlink("../../../etc/sudoers.d", home.join(".config")).unwrap();
    host.assert_obstructed(&files(&[file("/home/core/.config/app", "core's")]), ".config");
    assert_eq!(host.text("/etc/sudoers.d/app"), "root's rule");

    fs::create_dir_all(host.0.at(UNITS)).unwrap();
    symlink("../..", host.0.at(UNITS).join("foo.service.d")).unwrap();
    let drop_in =
        units(&json!([{"name": "foo.service", "dropins": [{"name": "z.conf", "contents": "[Unit]\n"}]}]));
    host.assert_obstructed(&drop_in, "foo.service.d");
    assert!(!host.0.at("/etc/z.conf").exists());
}

#[test]
fn apply_without_the_current_config_fails() {
    let host = Host::new();
    host.applies(&files(&[file("/etc/a", "1"), file("/etc/b", "2")]));
    fs::write(host.0.at("/etc/machine-config-daemon/currentconfig"), "").unwrap();
    host.assert_obstructed(&files(&[file("/etc/a", "3")]), "currentconfig");
    assert_eq!((host.text("/etc/a").as_str(), host.verify()), ("1", Some(1)));
}

#[test]
fn removed_user_does_not_block_the_next_config() {
    let host = Host::new();
    let passwd = host.text("/etc/passwd");
    fs::write(host.0.at("/etc/passwd"), format!("{passwd}guest:x:777:777::/:/bin/sh\n")).unwrap();
    let mut owned = file("/etc/b", "2");
    owned["user"] = json!({"name": "guest"});
    host.applies(&files(&[file("/etc/a", "1"), owned]));
    fs::write(host.0.at("/etc/passwd"), &passwd).unwrap();
    assert_eq!(host.verify(), Some(2));
    host.applies(&files(&[file("/etc/a", "3")]));
    assert_eq!(host.text("/etc/a"), "3");
    assert!(!host.0.at("/etc/b").exists());
}

#[test]
fn pre_images_are_restored_after_several_configs() {
    let host = Host::new();
    host.put("/etc/a", "admin");
    host.applies(&files(&[file("/etc/a", "1")]));
    host.applies(&files(&[file("/etc/a/b", "2")]));
    host.applies(&empty());
    assert_eq!(host.text("/etc/a"), "admin");

    host.put("/etc/d/b", "admin");
    host.applies(&files(&[file("/etc/d/b", "1")]));
    host.applies(&files(&[file("/etc/d", "2")]));
    host.applies(&empty());
    assert_eq!((host.text("/etc/d/b").as_str(), host.verify()), ("admin", Some(0)));
}

#[test]
fn unmasking_removes_a_managed_unit_and_restores_a_foreign_mask() {
    let host = Host::new();
    host.applies(&units(&json!([{"name": "v.service", "contents": "[Service]\nExecStart=/evil\n"}])));
    host.applies(&units(&json!([{"name": "v.service", "mask": false}])));
    assert!(!host.0.at(UNITS).join("v.service").exists());
    assert_eq!(host.verify(), Some(0));

    let mask = host.0.at(UNITS).join("w.service");
    symlink("/dev/null", &mask).unwrap();
    for _ in 0..2 {
        host.applies(&units(&json!([{"name": "w.service", "mask": false}])));
        assert!(mask.symlink_metadata().is_err());
    }
    host.applies(&empty());
    assert_eq!(fs::read_link(&mask).unwrap(), Path::new("/dev/null"));
}

#[test]
fn preexisting_directories_are_kept() {
    let host = Host::new();
    host.0.directory("/etc/adm");
    fs::set_permissions(host.0.at("/etc/adm"), fs::Permissions::from_mode(0o700)).unwrap();
    let config = ignition("storage", &json!({"directories": [{"path": "/etc/adm"}, {"path": "/etc/new"}]}));
    let (root, desired) = (host.0.root().as_os_str().to_owned(), host.written(&config));
    let line = ["plan".as_ref(), "--root".as_ref(), root.as_os_str(), "--desired".as_ref()];
    let plan = flameholder(line.into_iter().chain([desired.as_os_str()])).stdout;
    let changes = "~ /etc/adm  0755; changes mode or owner of an existing directory, for good";
    assert!(plan.contains(changes) && plan.contains("+ /etc/new  0755\n"), "{plan}");
    host.applies(&config);
    host.applies(&empty());
    assert!(host.0.at("/etc/adm").is_dir());
    assert!(!host.0.at("/etc/new").exists());
}

#[test]
fn unit_of_the_image_is_enabled_without_contents() {
    let host = Host::new();
    fs::remove_dir_all(host.0.at(UNITS)).unwrap();
    host.applies(&units(&json!([{"name": "ipsec.service", "enabled": true}])));
    assert_eq!(host.verify(), Some(0));
    let unit = host.0.at(UNITS).join("ipsec.service");
    symlink("/dev/null", unit).unwrap();
    assert_eq!(host.verify(), Some(2), "the unit is masked");
}

#[test]
fn unusual_names_and_bytes_are_harmless() {
    let host = Host::new();
    fs::create_dir_all(host.0.at(UNITS)).unwrap();
    symlink("x", host.0.at(UNITS).join("ev\nil.service")).unwrap();
    let mut passwd = fs::read(host.0.at("/etc/passwd")).unwrap();
    passwd.extend_from_slice(b"odd:x:1234:1234:\xf6:/:/bin/sh\n");
    fs::write(host.0.at("/etc/passwd"), passwd).unwrap();
    host.applies(&units(&json!([{"name": "y.service", "contents": "[Service]\nExecStart=/bin/true\n"}])));
    let wanted = "t".repeat(243);
    let install = format!("[Install]\nWantedBy={wanted}.target\n");
    host.assert_obstructed(
        &units(&json!([{"name": "y.service", "enabled": true, "contents": install}])),
        UNITS,
    );
    let long = format!("{}.service", "n".repeat(247));
    assert_eq!(host.apply(&units(&json!([{"name": long, "dropins": [{"name": "a.conf"}]}]))).code, Some(78));

    host.0.directory("/etc/foo");
    let odd = host.0.at("/etc/foo").join(std::ffi::OsStr::from_bytes(b"\xff"));
    fs::write(&odd, "data").unwrap();
    host.assert_obstructed(&files(&[file("/etc/foo", "x")]), "/etc/foo");
    assert_eq!(fs::read(&odd).unwrap(), b"data");
    host.applies(&files(&[file("/etc/bar", "x")]));
}

#[test]
fn verify_finds_drift_beyond_content() {
    let host = Host::new();
    let links = json!({
        "files": [file("/etc/f", "x")],
        "links": [{"path": "/etc/l", "target": "f"}, {"path": "/etc/h", "target": "/etc/f", "hard": true}]});
    host.applies(&ignition("storage", &links));
    assert_eq!(host.verify(), Some(0));
    std::os::unix::fs::lchown(host.0.at("/etc/l"), Some(7), None).unwrap();
    assert_eq!(host.verify(), Some(2), "the link has another owner");
    host.applies(&ignition("storage", &links));
    fs::remove_file(host.0.at("/etc/h")).unwrap();
    fs::copy(host.0.at("/etc/f"), host.0.at("/etc/h")).unwrap();
    assert_eq!(host.verify(), Some(2), "the hard link is a copy");
    host.applies(&ignition("storage", &links));
    let inode = |path: &str| host.0.at(path).metadata().unwrap().ino();
    assert_eq!(inode("/etc/h"), inode("/etc/f"));
    let config = host.0.at("/etc/machine-config-daemon/currentconfig");
    fs::set_permissions(config, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(host.verify(), Some(2), "the config is readable by all users");
}

#[test]
fn overwrite_false_is_honoured() {
    let host = Host::new();
    host.put("/etc/mine", "mine");
    let mut wish = file("/etc/mine", "yours");
    wish["overwrite"] = json!(false);
    host.assert_obstructed(&files(&[wish]), "/etc/mine");
    let mut same = file("/etc/mine", "mine");
    same["overwrite"] = json!(false);
    host.applies(&files(&[same]));
    assert_eq!(host.text("/etc/mine"), "mine");
}

#[test]
fn plan_prints_no_control_characters_and_no_passwords() {
    let host = Host::new();
    let mut config = files(&[file("/etc/proxy.env", "P=http://u:hunter2@p:1/\n")]);
    config["spec"]["osImageURL"] = json!("quay.io/x\u{202e}");
    host.applies(&files(&[file("/etc/proxy.env", "P=http://u:other@p:1/\n")]));
    let (root, desired) = (host.0.root().as_os_str().to_owned(), host.written(&config));
    let plan = |more: &[&str]| {
        let line =
            ["plan".as_ref(), "--root".as_ref(), root.as_os_str(), "--desired".as_ref(), desired.as_os_str()];
        flameholder(line.into_iter().chain(more.iter().map(AsRef::as_ref)))
    };
    let shown = plan(&[]);
    let steering = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    assert!(!shown.stdout.contains(steering) && !shown.stderr.contains(steering), "{shown:?}");
    assert!(!shown.stdout.contains("hunter2"), "{}", shown.stdout);
    assert!(plan(&["--show-contents=yes"]).stdout.contains("hunter2"));
    let mut named = config.clone();
    named["metadata"]["name"] = json!("x\u{1b}[2J");
    assert_eq!(host.apply(&named).code, Some(78));
}

#[test]
fn kernel_arguments_of_deployments_are_refused() {
    let host = Host::new();
    for argument in ["ostree=/x", "a flameholder.generation=1", "dyndbg=\"file x"] {
        let mut config = empty();
        config["spec"]["kernelArguments"] = json!(["quiet", argument]);
        let outcome = host.apply(&config);
        assert_eq!(outcome.code, Some(78), "{argument}");
        assert!(outcome.stderr.contains("spec.kernelArguments[1]"), "{}", outcome.stderr);
    }
    let deep = format!("/etc{}", "/a".repeat(80));
    assert_eq!(host.apply(&files(&[file(&deep, "x")])).code, Some(78));
}

/// Limit of the memory of a plan, in KiB, whatever a document of 16 MiB holds.
const PLAN_MEMORY: u32 = 128 << 10;

/// Plan a document as its only input, with limited memory.
fn plan_with_limited_memory(document: &str) -> Outcome {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("desired.json");
    fs::write(&path, document).expect("a document");
    let limited = format!("ulimit -d {PLAN_MEMORY} && exec \"$@\"");
    let (tree, program) = (Tree::new(), program());
    let plan = ["-c", &limited, "sh", &program, "plan", "--root"].map(std::ffi::OsStr::new);
    let plan = [plan.as_slice(), &[tree.root().as_os_str(), "--desired".as_ref(), path.as_os_str()]].concat();
    launch("sh", plan)
}

/// Document of objects in objects, each of which has keys of this length and repeats its last one.
fn nested(levels: usize, key: usize, repeated: usize) -> String {
    let key = "k".repeat(key);
    let open = format!("{{\"{key}\":").repeat(levels);
    let repeated = "\"a\":1,".repeat(repeated);
    format!("{open}{{{repeated}\"a\":1}}{}", "}".repeat(levels))
}

#[test]
fn hostile_documents_cost_little_memory() {
    let long = plan_with_limited_memory(&nested(120, 128 << 10, 0));
    assert_eq!(long.code, Some(78), "{long:?}");
    assert!(long.stderr.contains("a key has 131072 bytes and begins with \"kkk"), "{}", long.stderr);
    assert!(long.stderr.len() < 1024, "{}", long.stderr);
    let objects = format!("[{}0]", r#"{"a":0},"#.repeat(1_900_000));
    let many = plan_with_limited_memory(&objects);
    assert_eq!(many.code, Some(78), "{many:?}");
    assert!(many.stderr.contains("more than 240000 values"), "{}", many.stderr);
    // Each refusal names all keys above it.
    let repeated = plan_with_limited_memory(&nested(120, 4 << 10, 2_000_000));
    assert_eq!(repeated.code, Some(78), "the error has {} bytes", repeated.stderr.len());
    assert!(repeated.stderr.contains("duplicate key"), "the error has {} bytes", repeated.stderr.len());
}

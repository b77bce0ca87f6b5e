//! A generation's files outside `/etc`: stored beside the deployments, written by `activate`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use serde_json::{Value, json};
use testbed::model::run::Outcome;
use testbed::model::snapshot;
use testbed::offline::{Host, run, small_config};

const TOOL: &str = "/usr/local/bin/tool";

/// A config with a tool whose content is `text`, a secret, keys, and a file that only this config has.
fn config(name: &str, text: &str) -> Value {
    let own = format!("/usr/local/bin/only-{name}");
    let files = [(TOOL, text), (own.as_str(), text), ("/var/lib/kubelet/config.json", "secret")];
    let mut config = small_config(name, &files, &[]);
    config["spec"]["config"]["storage"]["files"][0]["mode"] = json!(0o755);
    config["spec"]["config"]["storage"]["files"][2]["mode"] = json!(0o600);
    config["spec"]["config"]["passwd"] =
        json!({"users": [{"name": "core", "sshAuthorizedKeys": [format!("ssh-rsa AAAA{name}")]}]});
    config
}

/// The host's `/var`, and the files that activation writes there.
trait Activated {
    fn activate(&self) -> Outcome;
    fn at_var(&self, path: &str) -> PathBuf;
    fn text(&self, path: &str) -> Option<String>;
    fn objects(&self) -> BTreeSet<String>;
    /// `/var` without the agent's own directory, which has the lock and the object store.
    fn var_of_others(&self) -> snapshot::Snapshot;
    /// `key` names the generation whose SSH keys are in place: a rollback does not restore older keys.
    fn assert_active(&self, name: &str, text: &str, key: &str);
}

impl Activated for Host {
    fn activate(&self) -> Outcome {
        let outcome = run(self.command("activate"));
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome
    }

    fn at_var(&self, path: &str) -> PathBuf {
        self.var().join(path)
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at_var(path)).ok()
    }

    fn objects(&self) -> BTreeSet<String> {
        let objects = fs::read_dir(self.at_var("lib/flameholder/objects")).into_iter().flatten();
        objects.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn var_of_others(&self) -> snapshot::Snapshot {
        let mut seen = snapshot::take(&self.var());
        seen.retain(|path, _| !path.starts_with("lib/flameholder"));
        seen.get_mut("lib").into_iter().for_each(|(_, stamp)| *stamp = snapshot::Stamp::default());
        seen
    }

    fn assert_active(&self, name: &str, text: &str, key: &str) {
        assert_eq!(self.text("usrlocal/bin/tool").as_deref(), Some(text));
        let mode = self.at_var("usrlocal/bin/tool").metadata().unwrap().mode();
        assert_eq!(mode & 0o7777, 0o755);
        let names = fs::read_dir(self.at_var("usrlocal/bin")).unwrap();
        let names: BTreeSet<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, BTreeSet::from(["tool".into(), format!("only-{name}").into()]));
        let keys = self.at_var("home/core/.ssh/authorized_keys.d/ignition");
        assert_eq!(fs::read_to_string(&keys).unwrap(), format!("ssh-rsa AAAA{key}\n"));
        assert_eq!((keys.metadata().unwrap().uid(), keys.metadata().unwrap().mode() & 0o7777), (1000, 0o600));
        assert_eq!(self.text("lib/kubelet/config.json").as_deref(), Some("secret"));
    }
}

#[test]
fn var_follows_the_deployment_that_boots_forward_and_back() {
    let host = Host::new();
    fs::create_dir_all(host.at_var("usrlocal/bin")).unwrap();
    fs::write(host.at_var("usrlocal/bin/tool"), "by hand\n").unwrap();
    fs::set_permissions(host.at_var("usrlocal/bin/tool"), fs::Permissions::from_mode(0o711)).unwrap();
    let before = host.var_of_others();

    host.update(&host.config(&config("a", "a\n")), None);
    assert_eq!(snapshot::changes(&before, &host.var_of_others()), [""; 0], "`apply` does not change /var");
    host.activate();
    host.assert_active("a", "a\n", "a");

    let settled = snapshot::take(&host.var());
    let again = host.activate();
    assert!(again.stdout.contains("nothing to do"), "{again:?}");
    let touched = snapshot::changes(&settled, &snapshot::take(&host.var()));
    assert!(touched.iter().all(|line| line.starts_with("lib/flameholder/lock")), "{touched:?}");

    host.update(&host.config(&config("b", "b\n")), None);
    host.assert_active("a", "a\n", "a");
    host.activate();
    host.assert_active("b", "b\n", "b");

    assert_eq!(host.rollback().code, Some(0));
    host.activate();
    host.assert_active("a", "a\n", "b");

    host.update(&host.config(&small_config("nothing", &[("/etc/managed.conf", "1\n")], &[])), None);
    host.activate();
    assert_eq!(host.text("usrlocal/bin/tool").as_deref(), Some("by hand\n"));
    let names = |seen: &snapshot::Snapshot| seen.keys().cloned().collect::<Vec<_>>();
    let nodes = |seen: snapshot::Snapshot| seen.into_values().map(|(node, _)| node).collect::<Vec<_>>();
    let after = host.var_of_others();
    assert_eq!(names(&before), names(&after));
    assert_eq!(nodes(before), nodes(after), "everything is as it was before the first generation");
}

#[test]
fn equal_contents_are_stored_once_and_removed_with_their_deployments() {
    let host = Host::new();
    let twins = [("/usr/local/one", "same\n"), ("/usr/local/two", "same\n")];
    host.update(&host.config(&small_config("twins", &twins, &[])), None);
    assert_eq!(host.objects().len(), 2, "one manifest, and one content for two files");
    for object in host.objects() {
        let meta = host.at_var("lib/flameholder/objects").join(object).metadata().unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.uid(), meta.gid()), (0o600, 0, 0));
    }
    assert_eq!(host.at_var("lib/flameholder").metadata().unwrap().mode() & 0o7777, 0o700);
    for round in 0..3 {
        for (name, text) in [("a", "a\n"), ("b", "b\n")] {
            host.update(&host.config(&small_config(name, &[("/usr/local/one", text)], &[])), None);
            host.activate();
            assert!(host.objects().len() <= 6, "round {round}: {:?}", host.objects());
        }
    }
    // Two deployments, each with a manifest and a content.
    assert_eq!(host.objects().len(), 4);
}

#[test]
fn first_activation_creates_targets_of_directory_links() {
    let host = Host::new();
    assert!(!host.at_var("usrlocal").exists() && !host.at_var("home").exists());
    host.update(&host.config(&config("a", "a\n")), None);
    host.activate();
    host.assert_active("a", "a\n", "a");
}

#[test]
fn damaged_object_store_is_restored_from_the_current_config() {
    let host = Host::new();
    let desired = host.config(&small_config("a", &[("/usr/local/one", "one\n")], &[]));
    host.update(&desired, None);
    for spoil in
        [|path: &PathBuf| fs::write(path, "spoilt").unwrap(), |path: &PathBuf| fs::remove_file(path).unwrap()]
    {
        let objects = host.objects();
        for object in &objects {
            spoil(&host.at_var("lib/flameholder/objects").join(object));
            host.activate();
            assert_eq!(host.text("usrlocal/one").as_deref(), Some("one\n"), "{object}");
            assert_eq!(host.objects(), objects);
            fs::remove_file(host.at_var("usrlocal/one")).unwrap();
        }
    }
}

#[test]
fn foreign_deployment_is_not_activated() {
    let host = Host::new();
    let outcome = run(host.command("activate"));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(
        outcome.stderr.contains("is not a generation: its generation record names another deployment"),
        "{outcome:?}"
    );
}

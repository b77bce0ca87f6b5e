//! SIGKILL at one system call after the other: the default boot entry is either the complete old or the complete new
//! generation, and the next `apply` completes the update.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use osimage::Os;
use serde_json::json;
use testbed::boot::Entry;
use testbed::model::pairs::load;
use testbed::model::run::Outcome;
use testbed::model::snapshot;
use testbed::offline::{Host, install, run, small_config};

use crate::etc::{self, Etc};

/// More calls of one kind than an `apply` here makes.
const MOST_CALLS: usize = 2000;

/// One of the two alternating updates: a config, its image if it has one, and the expected `/etc`.
struct Side {
    desired: PathBuf,
    image: Option<String>,
    arguments: [&'static str; 2],
    etc: Etc,
}

/// A host that is updated from one side to the other and back, any number of times.
struct Swing {
    host: Host,
    sides: [Side; 2],
    turn: usize,
}

impl Swing {
    fn new(with_images: bool) -> Self {
        testbed::preconditions::require_strace();
        testbed::preconditions::require_installed(&["systemctl"]);
        let host = Host::new();
        etc::identify(&host.default().at("etc"));
        let side = |name: &'static str, text: &str, arguments: [&'static str; 2], os: u32| {
            let desired = host.config(&config(name, text, arguments));
            let image = with_images.then(|| host.image(&Os::new(os)));
            let root = host.update(&desired, image.as_deref()).root;
            let etc = etc::expected(&root, etc::identify, &load(&desired));
            Side { desired, image, arguments, etc }
        };
        let sides = [side("left", "1\n", ["one", "two"], 2), side("right", "2\n", ["two", "one"], 3)];
        Self { host, sides, turn: 0 }
    }

    /// Kills at the first call of this kind, then at the call that `next` selects, until an `apply` completes.
    /// `kill` makes the command of an `apply` that is killed at the given call.
    fn kill_at_each(
        &mut self,
        call: &str,
        next: fn(usize) -> usize,
        kill: impl Fn(&Host, &Command, &str) -> Command,
    ) {
        let mut number = 1;
        while number < MOST_CALLS {
            let place = format!("{call}:signal=KILL:when={number}");
            let side = &self.sides[self.turn % 2];
            let before = self.host.default();
            let etc_before = etc::found(&before.root);
            let outcome =
                run(kill(&self.host, &self.host.apply_command(&side.desired, side.image.as_deref()), &place));
            let is_complete = outcome.code == Some(0);
            let after = self.host.default();
            let switched = after.root != before.root;
            if switched {
                self.assert_new(&place);
            } else {
                assert!(!is_complete, "{place} reports completion: {outcome:?}");
                assert_eq!(after.arguments, before.arguments, "{place}");
                assert_eq!(etc::differences(&etc::found(&after.root), &etc_before), [""; 0], "old, {place}");
            }
            self.ensure_next_apply_completes(&place, &outcome);
            // Where the killed run had only the cleanup left, this run has nothing to do, and the next deployment
            // cleans up.
            if is_complete || !switched {
                self.assert_tidy(&place);
            }
            self.turn += 1;
            if is_complete {
                assert!(number > 1, "`apply` makes no {call}");
                return;
            }
            number = next(number);
        }
        panic!("`apply` makes more than {MOST_CALLS} calls of {call}");
    }

    /// Kills a rollback at each call of this kind until one completes. No tree changes.
    fn kill_rollback_at_each(&mut self, call: &str) {
        let trees = self.host.entries().into_iter().map(|entry| entry.root).collect::<BTreeSet<_>>();
        let sight = || trees.iter().map(|root| snapshot::take(root)).collect::<Vec<_>>();
        let before = sight();
        for number in 1..MOST_CALLS {
            let place = format!("{call}:signal=KILL:when={number}");
            let menu = self.host.entries();
            let outcome = run(kill_worker(&self.host, &self.host.command("rollback"), &place));
            let after = self.host.entries();
            let told = |entry: &Entry| (entry.root.clone(), entry.arguments.clone());
            let now: Vec<_> = after.iter().map(told).collect();
            let (old, new): (Vec<_>, Vec<_>) =
                (menu.iter().map(told).collect(), menu.iter().rev().map(told).collect());
            let is_complete = outcome.code == Some(0);
            assert!(now == new || now == old && !is_complete, "{place}: {now:?} after {old:?}");
            assert!(sight() == before, "{place} changed a deployment");
            let verified = self.host.verify();
            assert_eq!(verified.code, Some(0), "{place}: {verified:?}");
            if is_complete {
                assert!(number > 1, "a rollback makes no {call}");
                return;
            }
        }
        panic!("a rollback makes more than {MOST_CALLS} calls of {call}");
    }

    /// The default boot entry is completely that of this turn's side.
    fn assert_new(&self, place: &str) {
        let (side, entry) = (&self.sides[self.turn % 2], self.host.default());
        assert_eq!(etc::differences(&etc::found(&entry.root), &side.etc), [""; 0], "new, {place}");
        let plain = entry.plain_arguments();
        assert_eq!(plain[plain.len() - 2..], side.arguments, "new, {place}");
        assert_eq!(
            testbed::offline::record(&entry)["generation"],
            entry.generation().as_str(),
            "new, {place}"
        );
    }

    /// The next `apply` succeeds, and nothing of the killed one remains.
    fn ensure_next_apply_completes(&self, place: &str, killed: &Outcome) {
        let side = &self.sides[self.turn % 2];
        let outcome = self.host.apply(&side.desired, side.image.as_deref());
        assert_eq!(outcome.code, Some(0), "after {place}, {killed:?}: {outcome:?}");
        self.assert_new(place);
        let verified = self.host.verify();
        assert_eq!(verified.code, Some(0), "after {place}: {verified:?}");
    }

    /// The only trees are those that the boot menu lists.
    fn assert_tidy(&self, place: &str) {
        let trees = fs::read_dir(self.host.sysroot().join("ostree/deploy/fedora-coreos/deploy")).unwrap();
        let trees = trees.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        let trees: BTreeSet<PathBuf> = trees.map(|path| path.canonicalize().unwrap()).collect();
        let listed: BTreeSet<PathBuf> = self.host.entries().into_iter().map(|entry| entry.root).collect();
        assert_eq!(trees, listed, "after {place}");
    }
}

fn config(name: &str, text: &str, arguments: [&str; 2]) -> serde_json::Value {
    let mut config = small_config(
        name,
        &[("/etc/managed.conf", text), ("/etc/new.d/file", text), ("/etc/hosts", text)],
        &arguments,
    );
    let unit = format!("[Service]\nExecStart=/bin/{name}\n[Install]\nWantedBy=multi-user.target\n");
    let dropins = json!([{"name": "10.conf", "contents": format!("[Service]\nNice={text}")}]);
    config["spec"]["config"]["systemd"] = json!({"units": [
        {"name": format!("{name}.service"), "enabled": true, "contents": unit},
        {"name": "crio.service", "dropins": dropins},
    ]});
    config["spec"]["config"]["passwd"] =
        json!({"users": [{"name": "core", "passwordHash": format!("$6${name}")}]});
    config
}

/// `command`, made to end only after all its children, which hold its standard output open.
fn with_children(command: &Command, before: &[&str]) -> Command {
    let mut whole = Command::new("sh");
    whole
        .args(["-c", "exec \"$@\" 9>&1", "sh"])
        .args(before)
        .arg(command.get_program())
        .args(command.get_args());
    whole
}

/// Kills `flameholder`.
fn kill_client(_: &Host, apply: &Command, place: &str) -> Command {
    with_children(apply, &["strace", "-o", "/dev/null", "-e", &format!("inject={place}")])
}

/// Kills `flameholder-ostree`.
fn kill_worker(host: &Host, apply: &Command, place: &str) -> Command {
    let worker = env!("CARGO_BIN_EXE_flameholder-ostree");
    let script = format!("#!/bin/sh\nexec strace -f -o /dev/null -e inject={place} {worker}\n");
    let directory = host.path("bin");
    fs::create_dir_all(&directory).unwrap();
    fs::write(host.path("script"), script).unwrap();
    install(&host.path("script"), &directory.join("flameholder-ostree"));
    if !directory.join("flameholder").exists() {
        install(Path::new(apply.get_program()), &directory.join("flameholder"));
    }
    let mut command = Command::new(directory.join("flameholder"));
    command.args(apply.get_args());
    with_children(&command, &[])
}

/// Every call.
fn each(number: usize) -> usize {
    number + 1
}

/// Increasingly sparse calls.
fn sparse(number: usize) -> usize {
    number + 1 + number / 2
}

#[test]
fn apply_survives_kills_at_each_change() {
    let mut swing = Swing::new(false);
    for call in ["mkdirat", "renameat2", "symlinkat", "fsync", "fchmod", "unlinkat", "write"] {
        swing.kill_at_each(call, each, kill_client);
    }
    swing.kill_at_each("openat", |number| number + 7, kill_client);
}

#[test]
fn apply_survives_kills_of_worker_at_each_rename() {
    let mut swing = Swing::new(false);
    for call in ["renameat", "symlinkat", "syncfs"] {
        swing.kill_at_each(call, each, kill_worker);
    }
}

#[test]
fn apply_survives_kills_of_worker_changing_trees() {
    let mut swing = Swing::new(false);
    for call in ["mkdirat", "linkat", "fsync", "unlinkat"] {
        swing.kill_at_each(call, sparse, kill_worker);
    }
}

#[test]
fn image_update_survives_kills_of_worker() {
    let mut swing = Swing::new(true);
    for call in ["renameat", "linkat", "write"] {
        swing.kill_at_each(call, |number| number * 2, kill_worker);
    }
}

#[test]
fn killed_rollback_is_complete_or_without_effect() {
    let mut swing = Swing::new(true);
    for call in ["renameat", "symlinkat", "unlinkat"] {
        swing.kill_rollback_at_each(call);
    }
}

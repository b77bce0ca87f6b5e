//! SIGKILL at one system call after the other: what boots is wholly the old or wholly the new generation, and
//! the next apply settles it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use osimage::Os;
use serde_json::json;

use crate::etc::{self, Etc};
use testbed::{
    boot::Entry,
    model::{pairs::load, run::Outcome, snapshot},
    offline::{Host, install, run, small_config},
};

/// More calls of one kind than an apply here makes.
const MOST_CALLS: usize = 2000;

/// What is applied in turn: a config, its image if it brings one, and the `/etc` that comes of it.
struct Side {
    desired: PathBuf,
    image: Option<String>,
    arguments: [&'static str; 2],
    etc: Etc,
}

/// A host that can be brought from one side to the other and back, any number of times.
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

    /// Kills at the first call of this kind, then at the one that `next` names after it, until an apply comes
    /// through. `kill` makes an apply that is killed at the call that it is given.
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
            let came_through = outcome.code == Some(0);
            let after = self.host.default();
            let switched = after.root != before.root;
            if switched {
                self.assert_new(&place);
            } else {
                assert!(!came_through, "{place} says that it is done: {outcome:?}");
                assert_eq!(after.arguments, before.arguments, "{place}");
                assert_eq!(etc::differences(&etc::found(&after.root), &etc_before), [""; 0], "old, {place}");
            }
            self.settle(&place, &outcome);
            // Where the killed run had only to tidy up, nothing was left to do, and the next deployment
            // tidies up.
            if came_through || !switched {
                self.assert_tidy(&place);
            }
            self.turn += 1;
            if came_through {
                assert!(number > 1, "an apply makes no {call}");
                return;
            }
            number = next(number);
        }
        panic!("an apply makes more than {MOST_CALLS} calls of {call}");
    }

    /// Kills a rollback at each call of this kind until one comes through; the trees stay as they are.
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
            let came_through = outcome.code == Some(0);
            assert!(now == new || now == old && !came_through, "{place}: {now:?} after {old:?}");
            assert!(sight() == before, "{place} changed a deployment");
            let verified = self.host.verify();
            assert_eq!(verified.code, Some(0), "{place}: {verified:?}");
            if came_through {
                assert!(number > 1, "a rollback makes no {call}");
                return;
            }
        }
        panic!("a rollback makes more than {MOST_CALLS} calls of {call}");
    }

    /// What boots is all of this turn's side.
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

    /// The next apply succeeds, and nothing of the killed one is left.
    fn settle(&self, place: &str, killed: &Outcome) {
        let side = &self.sides[self.turn % 2];
        let outcome = self.host.apply(&side.desired, side.image.as_deref());
        assert_eq!(outcome.code, Some(0), "after {place}, {killed:?}: {outcome:?}");
        self.assert_new(place);
        let verified = self.host.verify();
        assert_eq!(verified.code, Some(0), "after {place}: {verified:?}");
    }

    /// There are no trees but those that the boot menu lists.
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

/// `command`, so that it has ended only when all its children have: they hold its standard output open.
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

/// More and more sparsely.
fn sparse(number: usize) -> usize {
    number + 1 + number / 2
}

#[test]
fn the_agent_is_killed_at_each_of_its_changes() {
    let mut swing = Swing::new(false);
    for call in ["mkdirat", "renameat2", "symlinkat", "fsync", "fchmod", "unlinkat", "write"] {
        swing.kill_at_each(call, each, kill_client);
    }
    swing.kill_at_each("openat", |number| number + 7, kill_client);
}

#[test]
fn the_worker_is_killed_at_each_switch_of_a_name() {
    let mut swing = Swing::new(false);
    for call in ["renameat", "symlinkat", "syncfs"] {
        swing.kill_at_each(call, each, kill_worker);
    }
}

#[test]
fn the_worker_is_killed_while_it_makes_and_removes_trees() {
    let mut swing = Swing::new(false);
    for call in ["mkdirat", "linkat", "fsync", "unlinkat"] {
        swing.kill_at_each(call, sparse, kill_worker);
    }
}

#[test]
fn the_worker_is_killed_during_an_update_of_the_image() {
    let mut swing = Swing::new(true);
    for call in ["renameat", "linkat", "write"] {
        swing.kill_at_each(call, |number| number * 2, kill_worker);
    }
}

#[test]
fn a_rollback_that_is_killed_has_happened_or_has_not() {
    let mut swing = Swing::new(true);
    for call in ["renameat", "symlinkat", "unlinkat"] {
        swing.kill_rollback_at_each(call);
    }
}

//! A host before a stage on the way to a generation, whoever is killed in it, and the judgement on what comes of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use osimage::Os;
use serde_json::Value;

use crate::boot_menu::two_after_one;
use testbed::{
    booted::{
        config::{assert_config, full_config, unhealthy_config},
        host::{Host, WORKER, confirmed_host},
    },
    model::snapshot::{self, Body, Node},
    strace::{self, Call},
};

/// Kills of one program in one stage, where not all are asked for.
const SAMPLE: usize = 8;
/// Boots that it may take until a host is settled: one without its configuration is rebooted.
const BOOTS: usize = 3;

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Flameholder,
    Worker,
    Ostree,
}

/// A stage: what comes before it, and its command.
pub(crate) struct Stage {
    pub(crate) prepare: fn(&Host, &Wanted),
    pub(crate) command: fn(&Wanted) -> Vec<String>,
    pub(crate) victim: Victim,
    pub(crate) after: After,
}

/// What comes after a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The host runs on, and shuts down in order.
    RunsOn,
    /// The same, once the command was given again.
    RunsAgain,
    /// It goes down, and boots what boots by default.
    Boots,
    /// The same; and as it was killed while it bound what runs already, it may have been left for good.
    BootsOrLeaves,
    /// It goes down, and somebody chooses the same older entry at the boot menu again.
    BootsTheOlder,
    /// It goes down, and what is not healthy is left, now or then.
    Leaves,
}

/// The update that is under way.
pub(crate) struct Wanted {
    pub(crate) config: String,
    pub(crate) image: String,
}

impl Wanted {
    pub(crate) fn apply(&self, more: &[&str]) -> Vec<String> {
        let command = ["flameholder", "apply", "--desired", &self.config, "--os-image", &self.image];
        command.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }
}

/// All that a generation decides, and all else in `/etc`.
type Sight = BTreeMap<String, Node>;

fn sight(host: &Host) -> Sight {
    let mut sight = Sight::new();
    for (name, root) in
        [("etc", host.etc("")), ("usrlocal", host.var("usrlocal")), ("home", host.var("home"))]
    {
        for (path, (mut node, _)) in snapshot::take(&root) {
            if let ("flameholder/generation", Body::File(bytes)) = (path.as_str(), &mut node.body) {
                *bytes = timeless(bytes);
            }
            sight.insert(format!("{name}/{path}"), node);
        }
    }
    let booted = host.booted();
    let release = fs::read_to_string(booted.at("usr/lib/os-release")).unwrap();
    let told = format!("{release} {:?}", booted.plain_arguments());
    sight.insert("boot entry".into(), Node { body: Body::Link(told), mode: 0, owner: (0, 0) });
    sight
}

/// A record without what each attempt makes anew: an image imported again is another commit.
fn timeless(record: &[u8]) -> Vec<u8> {
    let mut record: Value = serde_json::from_slice(record).unwrap();
    for own in ["/generation", "/bootId", "/sequence", "/deployment/commit", "/deployment/serial"] {
        if let Some(value) = record.pointer_mut(own) {
            *value = Value::Null;
        }
    }
    record.to_string().into_bytes()
}

fn unlike(is: &Sight, wanted: &Sight) -> Vec<String> {
    let paths: BTreeSet<&String> = is.keys().chain(wanted.keys()).collect();
    let differ = paths.into_iter().filter(|path| is.get(*path) != wanted.get(*path));
    differ.map(|path| format!("{path} is {:?}, not {:?}", is.get(path), wanted.get(path))).collect()
}

/// What the product keeps on the host, by name. Contents are named by their digests.
fn kept(host: &Host) -> BTreeSet<String> {
    // What is held is asked for by itself.
    let seen = snapshot::take(&host.var("lib/flameholder")).into_keys();
    seen.filter(|path| path != "blocked").collect()
}

/// A host before a stage, and what may come of it.
pub(crate) struct Bench {
    host: Host,
    wanted: Wanted,
    stage: Stage,
    old: Sight,
    new: Sight,
    /// What is kept once all is done.
    kept: BTreeSet<String>,
}

impl Bench {
    /// From one to two.
    pub(crate) fn new(stage: Stage) -> Self {
        testbed::preconditions::require_strace();
        let host = confirmed_host("one");
        let wanted =
            Wanted { config: host.config(full_config("two").json()), image: host.image(&Os::new(3)) };
        let old = sight(&host);
        let undisturbed = host.copy();
        undisturbed.update(&wanted.config, Some(&wanted.image));
        let (new, kept) = (sight(&undisturbed), kept(&undisturbed));
        assert_ne!(old, new);
        (stage.prepare)(&host, &wanted);
        Self { host, wanted, stage, old, new, kept }
    }

    /// Back to one at the boot menu, for which there is but one end.
    pub(crate) fn at_the_boot_menu() -> Self {
        testbed::preconditions::require_strace();
        let (host, config) = two_after_one();
        host.shut_down();
        host.boot_kernel(1);
        let undisturbed = host.copy();
        undisturbed.run_ok(["flameholder", "activate"]);
        let (new, kept) = (sight(&undisturbed), kept(&undisturbed));
        let stage = Stage {
            prepare: |_, _| {},
            command: |_| vec!["flameholder".to_owned(), "activate".to_owned()],
            victim: Victim::Flameholder,
            after: After::BootsTheOlder,
        };
        let wanted = Wanted { config, image: host.image(&Os::new(2)) };
        Self { host, wanted, stage, old: new.clone(), new, kept }
    }

    /// Two is not healthy, and is left for one.
    pub(crate) fn leaving(victim: Victim) -> Self {
        testbed::preconditions::require_strace();
        let host = confirmed_host("one");
        let wanted =
            Wanted { config: host.config(unhealthy_config("two").json()), image: host.image(&Os::new(3)) };
        host.stage_update(&wanted.config, Some(&wanted.image));
        host.shut_down();
        host.boot_kernel(0);
        host.run_ok(["flameholder", "activate"]);
        let undisturbed = host.copy();
        undisturbed.run(["flameholder", "confirm-boot"]);
        undisturbed.power_cut();
        undisturbed.boot().assert_success();
        let (new, kept) = (sight(&undisturbed), kept(&undisturbed));
        let stage = Stage {
            prepare: |_, _| {},
            command: |_| vec!["flameholder".to_owned(), "confirm-boot".to_owned()],
            victim,
            after: After::Leaves,
        };
        Self { host, wanted, stage, old: new.clone(), new, kept }
    }

    /// Runs the stage on a copy of the host, its victim under strace with these arguments.
    fn run_traced(&self, arguments: &str) -> Host {
        let host = self.host.copy();
        let command = (self.stage.command)(&self.wanted).join(" ");
        let script =
            |program: &str| format!("#!/bin/sh\nexec /usr/bin/strace -f {arguments} {program} \"$@\"\n");
        match self.stage.victim {
            Victim::Flameholder => host.run(["sh", "-c", &format!("strace {arguments} {command}")]),
            Victim::Worker => {
                host.rename_worker("worker-itself");
                host.put_script(WORKER, &script("/run/programs/worker-itself"));
                host.run(["sh", "-c", &command])
            }
            Victim::Ostree => {
                host.put_script("ostree", &script("/usr/bin/ostree"));
                host.run(["sh", "-c", &command])
            }
        };
        host.remove_program("ostree");
        host.restore_worker();
        host
    }

    /// Every call of the victim that changes something.
    fn places(&self) -> Vec<Call> {
        let host = self.run_traced("-o /run/media/calls");
        let log = fs::read(host.path("media/calls")).unwrap();
        let mut calls = strace::parse(&String::from_utf8_lossy(&log));
        calls.retain(Call::is_change);
        assert!(!calls.is_empty(), "{:?} does something", self.stage.victim);
        calls
    }

    /// Kills at each of them, or a sample.
    pub(crate) fn kill(&self) {
        let places = self.places();
        let is_all = testbed::is_exhaustive();
        let step = if is_all { 1 } else { places.len().div_ceil(SAMPLE) };
        let (mut tried, mut killed, mut new) = (0, 0, 0);
        // The last one is always among them.
        for call in places.iter().rev().step_by(step) {
            let place = call.kill_injection();
            let traced = format!("-o /run/media/end -e trace={} -e {place}", call.name);
            let host = self.run_traced(&traced);
            let end = fs::read(host.path("media/end")).unwrap_or_default();
            tried += 1;
            killed += usize::from(String::from_utf8_lossy(&end).contains("killed by SIGKILL"));
            new += usize::from(self.settles(&host, &place));
        }
        eprintln!("{killed} kills at {} places, {new} times new", places.len());
        // Which of several threads makes how many calls is chance.
        assert!(killed * 2 > tried, "{killed} kills of {tried}");
    }

    /// Boots the host, judges it, and goes on. Says whether it is new.
    fn settles(&self, host: &Host, place: &str) -> bool {
        let entry = usize::from(self.stage.after == After::BootsTheOlder);
        match self.stage.after {
            After::RunsOn => drop(host.shut_down()),
            After::RunsAgain => {
                let again = host.run((self.stage.command)(&self.wanted));
                assert_eq!(again.code, Some(0), "{place}, and the same again: {again:?}");
                host.shut_down();
            }
            _ => host.power_cut(),
        }
        let mut boot = host.boot_entry(entry);
        for _ in 1..BOOTS {
            if !boot.requests_reboot() {
                break;
            }
            host.power_cut();
            boot = host.boot_entry(entry);
        }
        assert!(boot.is_success(), "{place}: {boot:?}");
        let sight = sight(host);
        let is_new = sight == self.new;
        if !is_new && sight != self.old {
            let (old, new) = (unlike(&sight, &self.old).join("\n"), unlike(&sight, &self.new).join("\n"));
            panic!("{place}\nis not old:\n{old}\nand not new:\n{new}\n{boot:?}");
        }
        self.ensure_told(host, is_new, place);
        if is_new {
            assert_eq!(kept(host), self.kept, "{place}");
            host.update(&host.config(full_config("three").json()), None);
            assert_config(host, "three", "two");
        } else {
            host.update(&self.wanted.config, Some(&self.wanted.image));
            assert_eq!(unlike(&self::sight(host), &self.new), [""; 0], "{place}, and the next update");
            assert_eq!(kept(host), self.kept, "{place}, and the next update");
        }
        host.assert_no_drift();
        is_new
    }

    /// What the host says of itself.
    fn ensure_told(&self, host: &Host, is_new: bool, place: &str) {
        let after = self.stage.after;
        let verified = host.run(["flameholder", "verify"]);
        let is_older = matches!(after, After::BootsTheOlder | After::Leaves);
        assert_eq!(verified.code, Some(0), "{place}: {verified:?}");
        let status = host.status();
        assert_eq!(status["transaction"], Value::Null, "{place}: {status}");
        assert!(!is_new || status["pending"].is_null(), "{place}: {status}");
        let is_left = is_older || after == After::BootsOrLeaves && !is_new;
        assert_eq!(status["blocked"].is_null(), !is_left, "{place}: {status}");
        if is_left {
            host.run_ok(["flameholder", "retry"]);
        }
    }
}

//! A host before one stage of an update, the process that is killed in that stage, and the checks after the next boot.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use osimage::Os;
use serde_json::Value;
use testbed::booted::config::{assert_config, full_config, unhealthy_config};
use testbed::booted::host::{Host, WORKER, confirmed_host};
use testbed::model::snapshot::{self, Body, Node};
use testbed::strace::{self, Call};

use crate::boot_menu::two_after_one;

/// Kills of one program in one stage, unless all of them are requested.
const SAMPLE: usize = 8;
/// Boots until a host is stable: one that booted without its configuration reboots itself.
const BOOTS: usize = 3;

/// The program that is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Flameholder,
    Worker,
    Ostree,
}

/// One stage of an update: its preparation, its command, the program killed in it, and the steps after the kill.
pub(crate) struct UpdateStage {
    pub(crate) prepare: fn(&Host, &Update),
    pub(crate) command: fn(&Update) -> Vec<String>,
    pub(crate) victim: Victim,
    pub(crate) after: After,
}

/// The steps between a kill and the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The host keeps running and shuts down in order.
    ShutsDown,
    /// The command is repeated; then the host shuts down in order.
    Repeats,
    /// Power is cut; the default boot entry boots.
    Boots,
    /// As `Boots`. The kill hit the merge into the running deployment, or the boot check in each of its rounds, so the
    /// generation may be rolled back and blocked.
    BootsOrRollsBack,
    /// Power is cut; the same older entry is chosen at the boot menu again.
    BootsOlderEntry,
    /// Power is cut; the unhealthy generation is rolled back before or after it.
    RollsBack,
}

/// The update in progress.
pub(crate) struct Update {
    pub(crate) config: String,
    pub(crate) image: String,
}

impl Update {
    pub(crate) fn apply(&self, more: &[&str]) -> Vec<String> {
        let command = ["flameholder", "apply", "--desired", &self.config, "--os-image", &self.image];
        command.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }
}

/// Authorized keys among the contents of a host.
const KEYS: &str = "home/core/.ssh/authorized_keys.d/ignition";

/// Everything that a generation determines, and the rest of `/etc`, by path.
type HostContents = BTreeMap<String, Node>;

fn contents(host: &Host) -> HostContents {
    let mut contents = HostContents::new();
    for (name, root) in
        [("etc", host.etc("")), ("usrlocal", host.var("usrlocal")), ("home", host.var("home"))]
    {
        for (path, (mut node, _)) in snapshot::take(&root) {
            if let ("flameholder/generation", Body::File(bytes)) = (path.as_str(), &mut node.body) {
                *bytes = without_identifiers(bytes);
            }
            contents.insert(format!("{name}/{path}"), node);
        }
    }
    let booted = host.booted();
    let release = fs::read_to_string(booted.at("usr/lib/os-release")).unwrap();
    let told = format!("{release} {:?}", booted.plain_arguments());
    contents.insert("boot entry".into(), Node { body: Body::Link(told), mode: 0, owner: (0, 0) });
    contents
}

/// A generation record without the members that differ between attempts: an image imported again is another commit.
fn without_identifiers(record: &[u8]) -> Vec<u8> {
    let mut record: Value = serde_json::from_slice(record).unwrap();
    for own in ["/generation", "/bootId", "/sequence", "/deployment/commit", "/deployment/serial"] {
        if let Some(value) = record.pointer_mut(own) {
            *value = Value::Null;
        }
    }
    record.to_string().into_bytes()
}

fn differences(is: &HostContents, update: &HostContents) -> Vec<String> {
    let paths: BTreeSet<&String> = is.keys().chain(update.keys()).collect();
    let differ = paths.into_iter().filter(|path| is.get(*path) != update.get(*path));
    differ.map(|path| format!("{path} is {:?}, not {:?}", is.get(path), update.get(path))).collect()
}

/// The paths below the state directory. Stored contents are named by their digests.
fn kept(host: &Host) -> BTreeSet<String> {
    // `ensure_status_is_consistent` checks the blocked generation.
    let seen = snapshot::take(&host.var("lib/flameholder")).into_keys();
    seen.filter(|path| path != "blocked").collect()
}

/// A host before a stage, and its permitted contents after a kill in that stage.
pub(crate) struct StageKills {
    host: Host,
    update: Update,
    stage: UpdateStage,
    old: HostContents,
    new: HostContents,
    /// The state directory after an undisturbed update.
    kept: BTreeSet<String>,
}

impl StageKills {
    /// An update from generation one to generation two.
    pub(crate) fn new(stage: UpdateStage) -> Self {
        testbed::preconditions::require_strace();
        let host = confirmed_host("one");
        let update =
            Update { config: host.config(full_config("two").json()), image: host.image(&Os::new(3)) };
        let old = contents(&host);
        let undisturbed = host.copy();
        undisturbed.update(&update.config, Some(&update.image));
        let (new, kept) = (contents(&undisturbed), kept(&undisturbed));
        assert_ne!(old, new);
        (stage.prepare)(&host, &update);
        Self { host, update, stage, old, new, kept }
    }

    /// Generation one chosen at the boot menu, which has a single permitted result.
    pub(crate) fn at_boot_menu() -> Self {
        testbed::preconditions::require_strace();
        let (host, config) = two_after_one();
        host.shut_down();
        host.boot_kernel(1);
        let undisturbed = host.copy();
        undisturbed.run_ok(["flameholder", "activate"]);
        let (new, kept) = (contents(&undisturbed), kept(&undisturbed));
        let stage = UpdateStage {
            prepare: |_, _| {},
            command: |_| vec!["flameholder".to_owned(), "activate".to_owned()],
            victim: Victim::Flameholder,
            after: After::BootsOlderEntry,
        };
        let update = Update { config, image: host.image(&Os::new(2)) };
        Self { host, update, stage, old: new.clone(), new, kept }
    }

    /// The rollback of an unhealthy generation two to generation one.
    pub(crate) fn rolling_back(victim: Victim) -> Self {
        testbed::preconditions::require_strace();
        let host = confirmed_host("one");
        let update =
            Update { config: host.config(unhealthy_config("two").json()), image: host.image(&Os::new(3)) };
        host.stage_update(&update.config, Some(&update.image));
        host.shut_down();
        host.boot_kernel(0);
        host.run_ok(["flameholder", "activate"]);
        let undisturbed = host.copy();
        undisturbed.run(["flameholder", "confirm-boot"]);
        undisturbed.power_cut();
        undisturbed.boot().assert_success();
        let (new, kept) = (contents(&undisturbed), kept(&undisturbed));
        let stage = UpdateStage {
            prepare: |_, _| {},
            command: |_| vec!["flameholder".to_owned(), "confirm-boot".to_owned()],
            victim,
            after: After::RollsBack,
        };
        Self { host, update, stage, old: new.clone(), new, kept }
    }

    /// Runs the stage on a copy of the host, with the victim under strace with these arguments.
    fn run_traced(&self, arguments: &str) -> Host {
        let host = self.host.copy();
        let command = (self.stage.command)(&self.update).join(" ");
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

    /// Every system call of the victim that changes something.
    fn places(&self) -> Vec<Call> {
        let host = self.run_traced("-o /run/media/calls");
        let log = fs::read(host.path("media/calls")).unwrap();
        let mut calls = strace::parse(&String::from_utf8_lossy(&log));
        calls.retain(Call::is_change);
        assert!(!calls.is_empty(), "{:?} makes calls that change something", self.stage.victim);
        calls
    }

    /// Kills the victim at each of these calls, or at a sample.
    pub(crate) fn kill(&self) {
        let places = self.places();
        let is_all = testbed::is_exhaustive();
        let step = if is_all { 1 } else { places.len().div_ceil(SAMPLE) };
        let (mut tried, mut killed, mut new) = (0, 0, 0);
        // The last call is always in the sample.
        for call in places.iter().rev().step_by(step) {
            let place = call.kill_injection();
            let traced = format!("-o /run/media/end -e trace={} -e {place}", call.name);
            let host = self.run_traced(&traced);
            let end = fs::read(host.path("media/end")).unwrap_or_default();
            tried += 1;
            killed += usize::from(String::from_utf8_lossy(&end).contains("killed by SIGKILL"));
            new += usize::from(self.boots_old_or_new(&host, &place));
        }
        eprintln!("{killed} kills at {} places, {new} times the new generation", places.len());
        // The number of calls per thread varies between runs.
        assert!(killed * 2 > tried, "{killed} kills of {tried}");
    }

    /// Boots the host, checks it, and updates it again. `true` where it booted the new generation.
    fn boots_old_or_new(&self, host: &Host, place: &str) -> bool {
        let entry = usize::from(self.stage.after == After::BootsOlderEntry);
        match self.stage.after {
            After::ShutsDown => drop(host.shut_down()),
            After::Repeats => {
                let again = host.run((self.stage.command)(&self.update));
                assert_eq!(again.code, Some(0), "{place}, repeated: {again:?}");
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
        let contents = contents(host);
        let is_new = contents == self.new;
        if !is_new && contents != self.old && !self.is_rolled_back(&contents) {
            let (old, new) =
                (differences(&contents, &self.old).join("\n"), differences(&contents, &self.new).join("\n"));
            panic!(
                "{place}\ndiffers from the old generation:\n{old}\nand from the new one:\n{new}\n{boot:?}"
            );
        }
        self.ensure_status_is_consistent(host, is_new, place);
        if is_new {
            assert_eq!(kept(host), self.kept, "{place}");
            host.update(&host.config(full_config("three").json()), None);
            assert_config(host, "three", "two");
        } else {
            host.update(&self.update.config, Some(&self.update.image));
            assert_eq!(
                differences(&self::contents(host), &self.new),
                [""; 0],
                "{place}, after the next update"
            );
            assert_eq!(kept(host), self.kept, "{place}, after the next update");
        }
        host.assert_no_drift();
        is_new
    }

    /// True for the old generation after a boot of the new one: its keys never go back.
    fn is_rolled_back(&self, contents: &HostContents) -> bool {
        let mut rolled_back = self.old.clone();
        rolled_back.extend(self.new.get(KEYS).map(|keys| (KEYS.to_owned(), keys.clone())));
        self.stage.after == After::BootsOrRollsBack && *contents == rolled_back
    }

    /// `verify` and `status` agree with the generation that booted.
    fn ensure_status_is_consistent(&self, host: &Host, is_new: bool, place: &str) {
        let after = self.stage.after;
        let verified = host.run(["flameholder", "verify"]);
        let is_older = matches!(after, After::BootsOlderEntry | After::RollsBack);
        assert_eq!(verified.code, Some(0), "{place}: {verified:?}");
        let status = host.status();
        assert_eq!(status["transaction"], Value::Null, "{place}: {status}");
        assert!(!is_new || status["pending"].is_null(), "{place}: {status}");
        let is_blocked = is_older || after == After::BootsOrRollsBack && !is_new;
        assert_eq!(status["blocked"].is_null(), !is_blocked, "{place}: {status}");
        if is_blocked {
            host.run_ok(["flameholder", "retry"]);
        }
    }
}

//! Life of one update on one host: its acts one by one, and the rules that hold after each.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use testbed::booted::config::{Config, booted_text, etc_differences, full_config, unhealthy_config};
use testbed::booted::host::{Host, assert_unlocked, host_confirmed_by};
use testbed::booted::release::AgentRelease;
use testbed::model::run::Outcome;

/// Act of the host in the life of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LifeAct {
    /// Stage the update; its deployment stays locked.
    Stage,
    /// Unlock the staged deployment.
    Unlock,
    /// Shut down; an unlocked deployment is finalized.
    ShutDown,
    /// Boot the default entry up to the first unit.
    StartKernel,
    /// Run the activation.
    Activate,
    /// Run `recover` and the boot check.
    CheckBoot,
}

use LifeAct::{Activate, CheckBoot, ShutDown, Stage, StartKernel, Unlock};

/// Acts of a reboot, the last of which decides an unconfirmed generation.
const REBOOT: [LifeAct; 4] = [ShutDown, StartKernel, Activate, CheckBoot];

/// The acts of a host: an update, and reboots without end.
fn act(number: usize) -> LifeAct {
    match number {
        0 => Stage,
        1 => Unlock,
        later => REBOOT[(later - 2) % REBOOT.len()],
    }
}

/// Reboots that units may request one after the other.
const REQUESTED_REBOOTS: usize = 3;
/// Way out of a refusal by an agent that is older than the record.
const MOVE_RECORD: &str = "move the file away to start over";

/// Host with the config `one` that is updated to the config `two`.
pub(super) struct UpdateLife {
    pub(super) host: Host,
    /// Path of the config `two`.
    config: String,
    is_healthy: bool,
    /// Number of acts taken.
    taken: usize,
    /// True if a unit requested a reboot that has not happened yet.
    is_reboot_requested: bool,
    /// True if the last activation could not read the record.
    is_record_newer: bool,
    /// Names of the deployments that were confirmed.
    confirmed: BTreeSet<PathBuf>,
}

impl UpdateLife {
    /// Begin with a host whose generation was confirmed by `release`.
    pub(super) fn begin(release: AgentRelease, is_healthy: bool) -> Self {
        let host = host_confirmed_by(release, "one");
        let two = if is_healthy { full_config("two") } else { unhealthy_config("two") };
        let config = host.config(two.json());
        let confirmed = BTreeSet::from([deployment_name(&host)]);
        Self {
            host,
            config,
            is_healthy,
            taken: 0,
            is_reboot_requested: false,
            is_record_newer: false,
            confirmed,
        }
    }

    pub(super) fn copy(&self) -> Self {
        let (host, config, confirmed) = (self.host.copy(), self.config.clone(), self.confirmed.clone());
        Self { host, config, confirmed, ..*self }
    }

    /// Text of the config in force.
    pub(super) fn text(&self) -> String {
        booted_text(&self.host).expect("the first deployment has no boot entry any longer")
    }

    /// Take the acts up to this number, which is not reached yet.
    pub(super) fn take_acts(&mut self, end: usize) {
        assert!(self.taken <= end, "{} acts are taken", self.taken);
        for number in self.taken..end {
            self.take(act(number));
        }
        self.taken = end;
    }

    /// Take acts until one of them has run the agent.
    pub(super) fn take_act_of_agent(&mut self) {
        loop {
            let next = act(self.taken);
            let runs_agent = next != StartKernel && (next != ShutDown || self.host.is_staged());
            self.take_acts(self.taken + 1);
            if runs_agent {
                return;
            }
        }
    }

    /// Reboot as long as units request it.
    pub(super) fn follow_reboots(&mut self) {
        for _ in 0..REQUESTED_REBOOTS {
            if !self.is_reboot_requested {
                return;
            }
            for act in REBOOT {
                self.take(act);
            }
        }
        assert!(!self.is_reboot_requested, "the host reboots again and again: {}", self.host.status());
    }

    fn take(&mut self, act: LifeAct) {
        match act {
            Stage => drop(self.apply(&["--locked"])),
            Unlock => drop(self.apply(&[])),
            ShutDown => drop(self.host.shut_down()),
            StartKernel => self.start_kernel(),
            Activate => self.activate(),
            CheckBoot => self.check_boot(),
        }
    }

    /// Apply the config `two`. An agent that cannot read the record refuses, and names the way out.
    fn apply(&self, more: &[&str]) -> Outcome {
        let outcome = self.host.run([&["flameholder", "apply", "--desired", &self.config], more].concat());
        let is_applied = outcome.code == Some(0);
        assert!(is_applied || outcome.stderr.contains(MOVE_RECORD), "{outcome:?}");
        outcome
    }

    fn start_kernel(&mut self) {
        self.is_reboot_requested = false;
        self.host.boot_kernel(0);
        assert!(self.is_confirmed() || !self.host.workload_starts(), "the workload waits for the activation");
    }

    fn activate(&mut self) {
        let activated = self.host.run(["flameholder", "activate"]);
        println!("{activated:?}");
        self.is_record_newer = activated.stderr.contains(MOVE_RECORD);
        self.note_reboot(&activated);
        if self.is_reboot_requested {
            return;
        }
        assert!(self.host.workload_starts() || !self.is_confirmed(), "the workload stops: {activated:?}");
        self.assert_one_set();
    }

    fn check_boot(&mut self) {
        if self.is_reboot_requested {
            return;
        }
        println!("{:?}", self.host.run(["flameholder", "recover"]));
        let checked = self.host.run(["flameholder", "confirm-boot"]);
        println!("{checked:?}");
        self.note_reboot(&checked);
        if checked.code == Some(0) && !self.host.etc("flameholder/unconfirmed").exists() {
            assert!(
                self.is_healthy || self.text() != "two",
                "a rejected generation is confirmed: {checked:?}"
            );
            self.confirmed.insert(deployment_name(&self.host));
        }
        self.assert_one_set();
        self.assert_not_done();
    }

    fn note_reboot(&mut self, outcome: &Outcome) {
        self.is_reboot_requested |= outcome.code == Some(1) && outcome.stderr.contains("rebooting: ");
    }

    fn is_confirmed(&self) -> bool {
        self.confirmed.contains(&deployment_name(&self.host))
    }

    /// Panics if the workload runs with files of more than one generation. Files outside `/etc` that the activation could
    /// not know have to be reported.
    fn assert_one_set(&self) {
        if !self.host.workload_starts() {
            return;
        }
        let wrong = etc_differences(&self.host, &self.text());
        assert!(wrong.is_empty(), "kernel arguments: {}, {wrong:?}", self.text());
        if !self.has_all_files() {
            let verified = self.host.run(["flameholder", "verify"]);
            let is_reported = verified.code != Some(0) && self.is_record_newer;
            assert!(is_reported, "kernel arguments: {}, another tool, {verified:?}", self.text());
        }
    }

    /// True if the files outside `/etc` are those of the booted deployment.
    pub(super) fn has_all_files(&self) -> bool {
        self.host.read_var("usrlocal/bin/tool") == Some(self.text())
    }

    /// Panics if the daemon observes that a rejected generation is confirmed.
    fn assert_not_done(&self) {
        let observed = self.host.observation();
        let document: Value = serde_json::from_str(&observed.stdout).unwrap_or_default();
        let seen = &document["event"]["Observed"];
        let is_rejected = !self.is_healthy && seen["current"]["config"] == "rendered-two";
        assert!(!is_rejected || seen["boot_check"] != "Confirmed", "{observed:?}");
    }

    /// Names of the documents that were set aside. Panics unless the status names each of them.
    pub(super) fn documents_aside(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.host.var("lib/flameholder")).unwrap();
        let files = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let aside: BTreeSet<String> =
            files.filter_map(|file| file.strip_suffix(".unreadable").map(str::to_owned)).collect();
        let status = self.host.status();
        let listed: Vec<&str> = status["unreadable"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|item| item["path"].as_str())
            .collect();
        for name in &aside {
            let path = format!("/var/lib/flameholder/{name}.unreadable");
            assert!(listed.contains(&path.as_str()), "{path} is not in {status}");
        }
        aside
    }

    /// Update the host to `config`, by the way out that a refusal names.
    pub(super) fn update(&mut self, config: &Config) {
        self.config = self.host.config(config.json());
        if self.apply(&[]).stderr.contains(MOVE_RECORD) {
            fs::remove_file(self.host.etc("flameholder/generation")).unwrap();
            let again = self.apply(&[]);
            assert_unlocked(&again);
        }
        let boot = self.host.reboot();
        assert!(boot.confirm_boot.stdout.contains("is confirmed"), "{boot:?}");
        assert!(self.host.status()["pending"].is_null());
    }
}

/// Name of the booted deployment, which copies of the host share.
fn deployment_name(host: &Host) -> PathBuf {
    host.booted().root.file_name().unwrap().into()
}

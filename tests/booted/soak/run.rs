//! One sequence on one host: its steps, with the test's own record of the host's deployments.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use testbed::booted::config::{booted_text, full_config, unhealthy_config};
use testbed::booted::host::Host;
use testbed::booted::release::AgentRelease;
use testbed::executables;
use testbed::model::run::Outcome;
use testbed::osimage::Os;

use super::damage::DamagedDeployments;
use super::invariants::Broken;
use super::obstacle::run_with;
use super::planted::Plant;
use super::step::{
    CONFIG, ConfigKind, MARK, Obstacle, OperatorAct, PENDING, RECORD, StateFile, Step, WHOLE_STATE,
};
use super::{damage, invariants, ways_out};

/// Reboots that one boot may request: to write the configuration, to roll back, and to repeat either.
const REQUESTED_REBOOTS: usize = 5;
/// File that changes without a reboot.
const LIVE: &str = "/etc/nmstate/openshift/cluster.yml";

/// Violated invariant, or an obstacle without a way out.
pub(super) type Checked = Result<(), Broken>;

/// Config of the sequence.
#[derive(Debug, Clone)]
pub(super) struct KnownConfig {
    /// Text in its files.
    pub(super) text: String,
    pub(super) is_healthy: bool,
    /// Path on the host.
    pub(super) path: String,
}

/// The host of a sequence, with the test's own record of it.
pub(super) struct SoakRun {
    pub(super) host: Host,
    pub(super) plant: Option<Plant>,
    /// Configs by name.
    pub(super) configs: BTreeMap<String, KnownConfig>,
    /// Deployments of the agent whose boot check has not passed, each with the deployment that it was staged on.
    pub(super) unconfirmed: BTreeMap<PathBuf, PathBuf>,
    /// Deployments that the sequence itself removed.
    pub(super) undeployed: BTreeSet<PathBuf>,
    pub(super) damaged: DamagedDeployments,
    /// True from an activation that could not reach, or did not finish, the files outside `/etc` to one that did.
    pub(super) is_activation_partial: bool,
    /// True if the state of the present unconfirmed generation was damaged once: more than one loss is too much.
    has_lost_state: bool,
    /// Installed release of the agent.
    release: AgentRelease,
    /// Act before the next boot check.
    early_act: Option<OperatorAct>,
    /// Number of configs so far.
    pub(super) count: usize,
}

impl SoakRun {
    /// Start with a copy of `prepared`, which has a confirmed generation with the text `start`.
    pub(super) fn new(prepared: &Host, plant: Option<Plant>) -> Self {
        let start = KnownConfig {
            text: "start".to_owned(),
            is_healthy: true,
            path: "/run/media/rendered-start".to_owned(),
        };
        Self {
            host: prepared.copy(),
            plant,
            configs: BTreeMap::from([("rendered-start".to_owned(), start)]),
            unconfirmed: BTreeMap::new(),
            undeployed: BTreeSet::new(),
            damaged: DamagedDeployments::default(),
            is_activation_partial: false,
            has_lost_state: false,
            release: AgentRelease::This,
            early_act: None,
            count: 0,
        }
    }

    /// Take a step, and check the invariants after it.
    pub(super) fn take(&mut self, step: Step) -> Checked {
        match step {
            Step::Update { kind, obstacle } => {
                let config = self.new_config(kind);
                let image = format!("ostree-unverified-image:oci:/run/media/images:{}", other_os().version());
                let image = (kind == ConfigKind::WithImage).then_some(image.as_str());
                self.apply(&config, image, obstacle).map(drop)
            }
            Step::UpdateAgain => {
                let earlier = self.configs.values().nth(self.count % self.configs.len()).unwrap().clone();
                self.apply(&earlier, None, None).map(drop)
            }
            Step::Retry => self.command(None, &["retry"]).map(drop),
            Step::Reboot { obstacle } => self.reboot(obstacle),
            Step::PowerCut { obstacle } => {
                self.host.power_cut();
                self.boot(0, obstacle)
            }
            Step::CutBoot => {
                self.shut_down(None)?;
                self.host.boot_kernel(0);
                let activated = self.activate(None)?;
                self.host.power_cut();
                // Even if it asked for a reboot: the power comes back.
                drop(activated);
                self.boot(0, None)
            }
            Step::OtherEntry => {
                self.shut_down(None)?;
                self.boot(1 % self.host.entries().len(), None)
            }
            Step::RebootAnd(act) => {
                self.early_act = Some(act);
                self.reboot(None)
            }
            Step::Act(act) => {
                self.act(act);
                Ok(())
            }
            Step::Damage(file, kind) => {
                self.damage(file, kind);
                Ok(())
            }
            Step::OtherAgent => {
                self.exchange_agent();
                Ok(())
            }
        }?;
        invariants::check_running(self)
    }

    /// Write a new config and return it.
    pub(super) fn new_config(&mut self, kind: ConfigKind) -> KnownConfig {
        self.count += 1;
        let is_healthy = kind != ConfigKind::Unhealthy;
        let mut text = format!("t{}", self.count);
        let mut config = if is_healthy { full_config(&text) } else { unhealthy_config(&text) };
        let mut name = format!("rendered-{text}");
        let running = self.booted_text().and_then(|text| self.config_of_text(&text));
        let mut healthy = is_healthy;
        if let Some(running) = running.filter(|_| kind == ConfigKind::Live) {
            text.clone_from(&running.text);
            healthy = running.is_healthy;
            let base = if healthy { full_config(&text) } else { unhealthy_config(&text) };
            config = base.file_with_mode(LIVE, 0o644, &name);
            name = format!("{name}-live");
        }
        let mut json = config.json().clone();
        json["metadata"]["name"] = name.clone().into();
        let known = KnownConfig { text, is_healthy: healthy, path: self.host.config(&json) };
        self.configs.insert(name, known.clone());
        known
    }

    /// Put the document of the booted config back, as an operator would from where the config is kept. Where the host
    /// does not tell which one that is, remove it to start over.
    pub(super) fn restore_current_config(&self) {
        let path = self.host.etc("machine-config-daemon/currentconfig");
        let record = self.host.read_etc("flameholder/generation").unwrap_or_default();
        let record: serde_json::Value = serde_json::from_str(&record).unwrap_or_default();
        let booted = || self.booted_text().map(|text| format!("rendered-{text}"));
        let name = record["config"].as_str().map(str::to_owned).or_else(booted);
        let document = name.and_then(|name| std::fs::read(self.host.path("media").join(name)).ok());
        match document {
            Some(document) => std::fs::write(path, document).unwrap(),
            None => std::fs::remove_file(path).unwrap(),
        }
    }

    fn config_of_text(&self, text: &str) -> Option<KnownConfig> {
        self.configs.values().find(|config| config.text == text).cloned()
    }

    /// Text of the config in the booted deployment's kernel arguments.
    pub(super) fn booted_text(&self) -> Option<String> {
        booted_text(&self.host)
    }

    /// The booted deployment's root.
    pub(super) fn booted_root(&self) -> PathBuf {
        self.host.booted().root
    }

    /// True if the booted deployment is one of the agent's whose boot check has not passed.
    pub(super) fn is_unconfirmed(&self) -> bool {
        self.unconfirmed.contains_key(&self.booted_root())
    }

    /// Run `flameholder` with these arguments. If it fails, its message must name a way out.
    pub(super) fn command(
        &mut self,
        obstacle: Option<Obstacle>,
        arguments: &[&str],
    ) -> Result<Outcome, Broken> {
        let outcome = run_with(&self.host, obstacle, arguments);
        // systemd starts the boot check after the activation: it is the way out.
        let goes_on = arguments == ["activate"] && self.is_unconfirmed();
        if outcome.code != Some(0) && !outcome.stderr.contains("error: rebooting: ") && !goes_on {
            ways_out::named_in(&outcome).map_err(|broken| broken.during(arguments))?;
        }
        Ok(outcome)
    }

    pub(super) fn apply(
        &mut self,
        config: &KnownConfig,
        image: Option<&str>,
        obstacle: Option<Obstacle>,
    ) -> Result<Outcome, Broken> {
        let mut arguments = vec!["apply", "--desired", &config.path];
        arguments.extend(image.iter().flat_map(|image| ["--os-image", image]));
        let outcome = self.command(obstacle, &arguments)?;
        if self.plant == Some(Plant::NoPin) {
            for number in 0..=self.host.entries().len() {
                self.host.run(["ostree", "admin", "pin", "--unpin", &number.to_string()]);
            }
        }
        Ok(outcome)
    }

    pub(super) fn reboot(&mut self, obstacle: Option<Obstacle>) -> Checked {
        // Space that is missing during the shutdown is there again in the boot, and the other way round.
        let (down, up) = match obstacle {
            Some(Obstacle::FullBoot(free) | Obstacle::FullVar(free)) if free > 4 => (obstacle, None),
            _ => (None, obstacle),
        };
        self.shut_down(down)?;
        self.boot(0, up)
    }

    /// Shut down: finalize a staged deployment, and note it if it is the agent's.
    pub(super) fn shut_down(&mut self, obstacle: Option<Obstacle>) -> Checked {
        let before = self.roots();
        if self.host.is_staged() {
            self.command(obstacle, &["finalize"])?;
        }
        self.host.power_cut();
        self.inherit_damage(&before);
        for root in self.roots().into_iter().filter(|root| !before.contains(root) && is_own(root)) {
            if self.plant == Some(Plant::NoMark) {
                std::fs::remove_file(root.join("etc/flameholder/unconfirmed")).unwrap();
            }
            self.undeployed.remove(&root);
            self.unconfirmed.insert(root, self.booted_root());
            self.has_lost_state = false;
        }
        Ok(())
    }

    /// Roots of the deployments with a boot entry.
    pub(super) fn roots(&self) -> Vec<PathBuf> {
        self.host.entries().into_iter().map(|entry| entry.root).collect()
    }

    /// Note the damage that deployments which were not there before have from the booted one.
    pub(super) fn inherit_damage(&mut self, before: &[PathBuf]) {
        for root in self.roots().iter().filter(|root| !before.contains(root)) {
            self.damaged.inherit(root, &self.booted_root());
        }
    }

    /// True if the record of the booted deployment is damaged, or was when its `/etc` was merged.
    pub(super) fn has_damaged_record(&self) -> bool {
        self.damaged.records.contains(&self.booted_root())
    }

    /// Boot, and follow the reboots that the units request. The obstacle is there in the first boot only.
    pub(super) fn boot(&mut self, entry: usize, obstacle: Option<Obstacle>) -> Checked {
        let (mut entry, mut obstacle) = (entry, obstacle);
        for _ in 0..REQUESTED_REBOOTS {
            self.host.boot_kernel(entry);
            let activated = self.activate(obstacle)?;
            entry = 0;
            if requests_reboot(&activated) {
                self.host.power_cut();
                continue;
            }
            if let Some(act) = self.early_act.take() {
                self.act(act);
                invariants::check_running(self)?;
            }
            let at_check =
                obstacle.filter(|obstacle| matches!(obstacle, Obstacle::FullBoot(_) | Obstacle::FullVar(_)));
            self.command(at_check, &["recover"])?;
            let checked = self.command(at_check, &["confirm-boot"])?;
            self.note_boot_check(&checked)?;
            obstacle = None;
            if !requests_reboot(&checked) {
                return Ok(());
            }
            self.shut_down(None)?;
        }
        Err(Broken::reboots_forever(&self.host))
    }

    /// Run the activation, and check when the workload starts.
    fn activate(&mut self, obstacle: Option<Obstacle>) -> Result<Outcome, Broken> {
        if self.is_unconfirmed() {
            invariants::check_waits(self)?;
        }
        let activated = self.command(obstacle, &["activate"])?;
        let is_late = matches!(obstacle, Some(Obstacle::LateMount(_)));
        self.is_activation_partial = is_late || activated.code != Some(0) || !activated.stderr.is_empty();
        if requests_reboot(&activated) {
            return Ok(activated);
        }
        invariants::check_starts(self, &activated)?;
        Ok(activated)
    }

    /// Note the result of the boot check: without the mark, the generation is confirmed.
    fn note_boot_check(&mut self, checked: &Outcome) -> Checked {
        let is_confirmed = checked.code == Some(0) && !self.host.etc("flameholder/unconfirmed").exists();
        if self.is_unconfirmed() && is_confirmed {
            let root = self.booted_root();
            self.unconfirmed.remove(&root);
            self.damaged.repair(&root);
            invariants::check_confirmed(self, checked)?;
        }
        Ok(())
    }

    fn damage(&mut self, file: StateFile, kind: super::step::DamageKind) {
        let decides = [PENDING, MARK, RECORD, WHOLE_STATE].contains(&file);
        if decides && (self.is_unconfirmed() || !self.default_is_confirmed()) {
            if self.has_lost_state {
                return;
            }
            self.has_lost_state = true;
        }
        // Nothing else tells which files the agent wrote: who loses both starts over, beside these files.
        let root = self.booted_root();
        let lost_config = self.damaged.configs.contains(&root);
        if file == RECORD && lost_config || file == CONFIG && self.has_damaged_record() {
            return;
        }
        if damage::damage(&self.host, file, kind, self.plant) {
            self.damaged.note(root, file);
        }
    }

    fn default_is_confirmed(&self) -> bool {
        !self.unconfirmed.contains_key(&self.host.default().root)
    }

    /// Install the executables of the other release, if there are any.
    pub(super) fn exchange_agent(&mut self) {
        if executables::next_release().is_some() {
            self.release = self.release.other();
            self.host.install_agent(self.release);
        }
    }
}

/// The OS of configs that come with an image.
pub(super) fn other_os() -> Os {
    Os::new(3)
}

/// True if the agent made the deployment: its origin says so.
pub(super) fn is_own(root: &Path) -> bool {
    let origin = format!("{}.origin", root.display());
    std::fs::read_to_string(origin).is_ok_and(|text| text.contains("staged-in-boot"))
}

fn requests_reboot(outcome: &Outcome) -> bool {
    outcome.code == Some(1) && outcome.stderr.contains("rebooting: ")
}

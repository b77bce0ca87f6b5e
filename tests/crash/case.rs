//! A change to try: a disk, what is to be done to it, and what it must be before and after. Built
//! from a real tree, a real apply and the product's own decision, and held against the model.

use std::{path::Path, process::Command};

use flameholder::core::plan::steps::PlanStep;
use flameholder::core::state::journal::JournalScope;
use flameholder::core::state::objects::{ACTIVE, ActiveManifest, Manifest, OBJECTS, object};
use flameholder::core::state::record::GenerationRecord;
use flameholder::core::state::service_action::ServiceAction;
use flameholder::core::values::names::ManagedPath;
use flameholder::core::values::paths::{CURRENT_CONFIG, ORIGINALS, ORIGINALS_OUTSIDE_ETC, RECORD};
use flameholder::core::values::profile::Profile;
use flameholder::host::fs::lock::HostLock;
use flameholder::host::systemd::service_port::{NoServices, ServiceControl};
use flameholder::host::{HostDisk, Root};
use flameholder::transaction::boot::activate;
use flameholder::transaction::engine::apply::{ApplyError, JournaledChange};
use flameholder::transaction::engine::labels::SelinuxLabels;
use flameholder::transaction::engine::recover::RecoveryOutcome;
use flameholder::transaction::engine::{apply, recover};
use flameholder::transaction::state::current::DecodedConfig;
use flameholder::transaction::update::plain_tree;
use serde_json::Value;

use crate::{
    disk::{MemoryDisk, Nobody, Watch},
    disk::{
        image::Image,
        sight::{self, Sight},
    },
};
use testbed::model::{
    config::Config,
    likeness::{is_record, unlike},
    reference::Reference,
    snapshot::{Body, LOCK, Snapshot},
    tree::Tree,
};

/// The ID of the boot in which everything happens.
pub const BOOT: &str = "the boot of the test";

/// From one config to another, in words.
#[derive(Clone)]
pub struct Scenario {
    pub name: String,
    /// What was applied before; nothing at all where there is no generation yet.
    pub before: Option<Value>,
    pub after: Value,
    /// Where other file systems are mounted.
    pub mounts: &'static [&'static str],
    pub actions: Vec<ServiceAction>,
    /// What happens to the tree in between.
    pub damage: Option<fn(&Path)>,
}

/// A change that is ready to be carried out.
pub struct Case {
    pub name: String,
    /// The disk before it.
    pub image: Image,
    pub steps: Vec<PlanStep>,
    pub labels: SelinuxLabels,
    pub current: Option<String>,
    pub target: Option<String>,
    pub scope: JournalScope,
    pub actions: Vec<ServiceAction>,
    /// What must be seen of the disk where the change does not hold, and where it does.
    pub old: Sight,
    pub new: Sight,
    /// The disk after it, where nothing interrupts.
    pub done: Image,
}

impl Case {
    /// Builds the case, or panics where what comes of it uninterrupted is not as the model has it.
    pub fn of(scenario: &Scenario) -> Self {
        let (before, after) = sights_of_the_model(scenario);
        let tree = Tree::new();
        sight::label(tree.root());
        let root = Root::open(tree.root()).expect("a root");
        match &scenario.before {
            Some(config) => apply(&root, config),
            None => drop(HostLock::take(&root).expect("the lock")),
        }
        if let Some(damage) = scenario.damage {
            damage(tree.root());
        } else {
            let sight = sight::see(&sight::load(tree.root(), scenario.mounts));
            assert_like(&scenario.name, &sight, &before);
        }
        let decided = plain_tree::decide(&root, &configuration(&scenario.after), Profile::Native);
        let decided = decided.unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        Self::checked(&root, scenario, decided.change(BOOT), &after)
    }

    /// The case of bringing `/var` to what the generation in `/etc` has, where another one is active:
    /// `/etc` is as after `scenario.after`, and `/var` as after `scenario.before`.
    pub fn of_activation(scenario: &Scenario) -> Self {
        let booted = Scenario { before: None, ..scenario.clone() };
        let (_, after) = sights_of_the_model(&booted);
        let tree = Tree::new();
        sight::label(tree.root());
        let root = Root::open(tree.root()).expect("a root");
        apply(&root, &scenario.after);
        let kept = tempfile::tempdir().expect("a directory");
        copy(&tree.at("etc"), &kept.path().join("etc"));
        apply(&root, scenario.before.as_ref().expect("what is active"));
        std::fs::remove_dir_all(tree.at("etc")).expect("to remove it");
        copy(&kept.path().join("etc"), &tree.at("etc"));
        let activation =
            activate::plan_activation(&root).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        Self::checked(&root, scenario, activation.change(BOOT), &after)
    }

    /// The case of `change`, of which `after` must come.
    fn checked(root: &Root, scenario: &Scenario, change: JournaledChange<'_>, after: &Snapshot) -> Self {
        let name = scenario.name.clone();
        assert!(!change.steps.is_empty(), "{name} is no change");
        let image = sight::load(root.path(), scenario.mounts);
        let mut case = Self {
            name,
            old: sight::see(&image),
            image,
            steps: change.steps.to_vec(),
            labels: change.labels.clone(),
            current: change.current.map(str::to_owned),
            target: change.target.map(str::to_owned),
            scope: change.scope,
            actions: scenario.actions.clone(),
            new: Sight::new(),
            done: Image::new(crate::disk::image::Rights { mode: 0, uid: 0, gid: 0 }, &[]),
        };
        case.finish(after, &scenario.after);
        // What is repaired gets the label that it was given, whatever stands there now.
        if scenario.damage.is_none() {
            assert_none(&case.name, &wrong_labels(&case.old, &case.new));
        }
        // The real disk must come to the very same.
        apply::apply(root, &NoServices, change).expect("a real disk");
        let real = sight::see(&sight::load(root.path(), scenario.mounts));
        assert_none(&case.name, &sight::differences(&case.new, &real));
        case
    }

    /// Carries the change out uninterrupted, and checks what comes of it.
    fn finish(&mut self, after: &Snapshot, config: &Value) {
        let disk = MemoryDisk::new(self.image.clone(), &Nobody);
        self.apply(&disk, &NoServices).unwrap_or_else(|error| panic!("{}: {}", self.name, said(&error)));
        self.done = disk.image();
        self.new = sight::see(&self.done);
        assert_like(&self.name, &self.new, after);
        assert_none(&self.name, &self.wrong_records(config));
    }

    /// What there may be of the product's own is named one by one.
    fn wrong_records(&self, config: &Value) -> Vec<String> {
        let bytes = |path: &str| match self.new.get(path.trim_start_matches('/')).map(|seen| &seen.node.body)
        {
            Some(Body::File(bytes)) => bytes.clone(),
            _ => Vec::new(),
        };
        let record = GenerationRecord::parse(&bytes(RECORD)).expect("a record");
        let mut wrong = Vec::new();
        if self.target.as_ref() != Some(&record.generation) {
            wrong.push(format!("the record names {}", record.generation));
        }
        if serde_json::from_slice::<Value>(&bytes(CURRENT_CONFIG)).ok().as_ref() != Some(config) {
            wrong.push("the applied config is not the one that was given".to_owned());
        }
        let kept = record.originals.iter().map(GenerationRecord::original_of);
        let mut known: Vec<String> = kept.map(|path| path.relative().to_owned()).collect();
        known.extend([RECORD, CURRENT_CONFIG, "/etc/machine-config-daemon/currentimage", LOCK].map(bare));
        known.extend(self.stored(&record, &bytes));
        for path in self.new.keys().filter(|path| is_record(path) && !known.contains(path)) {
            let holds = ["/etc/machine-config-daemon", ORIGINALS, ORIGINALS_OUTSIDE_ETC, OBJECTS].map(bare);
            let is_way = holds.iter().any(|known| known == path || known.starts_with(&format!("{path}/")));
            if !is_way {
                wrong.push(format!("/{path} is left over"));
            }
        }
        wrong
    }

    /// What the store may hold: what this generation and the one before it have outside `/etc`, and
    /// what is remembered of before them.
    fn stored(&self, record: &GenerationRecord, bytes: &dyn Fn(&str) -> Vec<u8>) -> Vec<String> {
        let was = |path: &str| match self.old.get(&bare(path)).map(|seen| &seen.node.body) {
            Some(Body::File(bytes)) => Some(bytes.clone()),
            _ => None,
        };
        let recorded =
            was(RECORD).and_then(|bytes| GenerationRecord::parse(&bytes).expect("a record").manifest);
        let active =
            was(ACTIVE).and_then(|bytes| ActiveManifest::parse(&bytes).expect("what was active").manifest);
        let mut paths = Vec::new();
        for digest in record.manifest.into_iter().chain(recorded).chain(active) {
            let manifest = Manifest::parse(digest, &bytes(object(digest).as_str())).expect("a manifest");
            paths.extend(manifest.objects().chain([digest]).map(object));
        }
        let active = bytes(ACTIVE);
        if !active.is_empty() {
            let active = ActiveManifest::parse(&active).expect("what is active");
            assert_eq!(active.manifest, record.manifest, "{}", self.name);
            paths.extend(active.originals.iter().map(GenerationRecord::original_of));
            paths.push(ManagedPath::constant(ACTIVE));
        }
        paths.iter().map(|path| bare(path.as_str())).collect()
    }

    /// Carries the change out.
    pub fn apply(&self, disk: &dyn HostDisk, services: &dyn ServiceControl) -> Result<(), ApplyError> {
        let change = JournaledChange {
            current: self.current.as_deref(),
            target: self.target.as_deref(),
            boot_id: BOOT,
            scope: self.scope,
            steps: &self.steps,
            labels: &self.labels,
            actions: &self.actions,
        };
        apply::apply(disk, services, change)
    }
}

/// Settles what is open on `disk`, as the product's next command does.
pub fn recover(disk: &dyn HostDisk, services: &dyn ServiceControl) -> Result<RecoveryOutcome, String> {
    let path = flameholder::core::values::names::ManagedPath::constant(RECORD);
    let bytes = disk.read(&path, usize::MAX - 1).map_err(|error| error.to_string())?;
    let record =
        bytes.map(|bytes| GenerationRecord::parse(&bytes)).transpose().map_err(|error| error.to_string())?;
    let found = record.map(|record| record.generation);
    recover::recover(disk, services, found.as_deref(), BOOT).map_err(|error| said(&error))
}

/// An error with its causes.
pub fn said(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", said(source)),
        None => error.to_string(),
    }
}

/// What one step of an image to another is on a disk that somebody watches.
pub fn on<T>(image: &Image, watch: &dyn Watch, act: impl FnOnce(&dyn HostDisk) -> T) -> (T, Image) {
    let disk = MemoryDisk::new(image.clone(), watch);
    let result = act(&disk);
    (result, disk.image())
}

fn apply(root: &Root, config: &Value) {
    plain_tree::apply(root, &configuration(config), Profile::Native)
        .unwrap_or_else(|error| panic!("{error}"));
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.expect("cp").success(), "copying {}", from.display());
}

fn configuration(config: &Value) -> DecodedConfig {
    DecodedConfig::parse(config.to_string().as_bytes()).expect("a good config")
}

/// The tree before and after, as the model makes it.
fn sights_of_the_model(scenario: &Scenario) -> (Snapshot, Snapshot) {
    let mut reference = Reference::new();
    if let Some(config) = &scenario.before {
        reference.bring_to(Config::read(config));
    }
    let before = reference.sight();
    reference.bring_to(Config::read(&scenario.after));
    (before, reference.sight())
}

fn bare(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

fn assert_none(name: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
}

fn assert_like(name: &str, is: &Sight, wanted: &Snapshot) {
    assert_none(name, &unlike(&sight::untimed(is), wanted));
    let leftover = |path: &&String| path.ends_with(".flameholder.d") || path.contains("flameholder/journal");
    assert_none(name, &is.keys().filter(leftover).cloned().collect::<Vec<_>>());
}

/// What stays keeps its label, what replaces something has that one's, and what is new has that of
/// the nearest directory there was. Kept pre-images are what they were, wherever they are kept.
fn wrong_labels(old: &Sight, new: &Sight) -> Vec<String> {
    let is_kept =
        |path: &str| [ORIGINALS, ORIGINALS_OUTSIDE_ETC].map(bare).iter().any(|top| path.starts_with(top));
    let mut wrong = Vec::new();
    for (path, seen) in new.iter().filter(|(path, _)| !is_kept(path)) {
        let mut above =
            std::iter::successors(Some(path.as_str()), |path| path.rsplit_once('/').map(|(up, _)| up));
        let from = above.find_map(|path| old.get(path));
        let is_directory = |seen: &sight::Seen| seen.node.body == Body::Directory;
        // A path that was a file and holds others now, or was a link that was followed, says nothing.
        let is_telling = old.contains_key(path) || from.is_some_and(is_directory);
        if is_telling && from.is_some_and(|from| from.label != seen.label) {
            wrong.push(format!(
                "/{path} is labelled {:?}, unlike {:?}",
                seen.label,
                from.map(|from| &from.label)
            ));
        }
    }
    wrong
}

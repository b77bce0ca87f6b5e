//! Change to explore: a disk, the steps of the change, and the expected disk before and after. Built from a
//! real tree, a real apply and the product's own plan, and compared with the model.

use std::path::Path;
use std::process::Command;

use flameholder::core::plan::steps::PlanStep;
use flameholder::core::state::journal::JournalScope;
use flameholder::core::state::objects::{ACTIVE, ActiveManifest, Manifest, OBJECTS, object_path};
use flameholder::core::state::record::GenerationRecord;
use flameholder::core::state::service_action::ServiceAction;
use flameholder::core::values::identifiers::{BootId, GenerationId};
use flameholder::core::values::names::ManagedPath;
use flameholder::core::values::paths::{CURRENT_CONFIG, ORIGINALS, ORIGINALS_OUTSIDE_ETC, RECORD, UNDONE};
use flameholder::core::values::profile::Profile;
use flameholder::host::fs::lock::HostLock;
use flameholder::host::systemd::service_port::{NoServices, ServiceControl};
use flameholder::host::{HostDisk, LockedRoot, Root};
use flameholder::transaction::boot::activate;
use flameholder::transaction::engine::apply::{ApplyError, JournaledChange};
use flameholder::transaction::engine::labels::SelinuxLabels;
use flameholder::transaction::engine::recover::RecoveryOutcome;
use flameholder::transaction::engine::{apply, recover};
use flameholder::transaction::history::HISTORY;
use flameholder::transaction::state::current::DecodedConfig;
use flameholder::transaction::update::plain_tree;
use memory_disk::{Image, MemoryDisk, Rights, Unwatched, Watch};
use serde_json::Value;
use testbed::model::comparison::{differences, is_record};
use testbed::model::config::Config;
use testbed::model::model_tree::ModelTree;
use testbed::model::snapshot::{Body, LOCK, Snapshot};
use testbed::model::tree::Tree;

use crate::disk::sight::{self, Sight};

/// Boot ID of the whole exploration.
pub(crate) const BOOT: &str = "the boot of the test";

pub(crate) fn boot_id() -> BootId {
    BOOT.into()
}

/// Change from one config to another, by name and content.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub name: String,
    /// Config that was applied before; `None` if the tree has no generation yet.
    pub before: Option<Value>,
    pub after: Value,
    /// Mount points of other file systems.
    pub mounts: &'static [&'static str],
    pub actions: Vec<ServiceAction>,
    /// Damage to the tree between the two configs.
    pub damage: Option<fn(&Path)>,
}

/// Change that is ready to be applied.
pub(crate) struct Case {
    pub name: String,
    /// Disk before the change.
    pub image: Image,
    pub steps: Vec<PlanStep>,
    pub labels: SelinuxLabels,
    pub current: Option<GenerationId>,
    pub target: Option<GenerationId>,
    pub scope: JournalScope,
    pub actions: Vec<ServiceAction>,
    /// Expected paths before the change is committed and after.
    pub old: Sight,
    pub new: Sight,
    /// Disk after an uninterrupted run.
    pub done: Image,
}

impl Case {
    /// Build the case. Panics if the result of an uninterrupted run differs from the model.
    pub(crate) fn of(scenario: &Scenario) -> Self {
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
        let decided = {
            let locked = LockedRoot::lock(&root).expect("the lock");
            plain_tree::decide(&locked, &configuration(&scenario.after), Profile::Native)
        };
        let decided = decided.unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        Self::checked(&root, scenario, decided.change(&boot_id()), &after)
    }

    /// Build the case of an activation: `/etc` is as after `scenario.after`, and `/var` as after
    /// `scenario.before`; the change brings `/var` to the generation in `/etc`.
    pub(crate) fn of_activation(scenario: &Scenario) -> Self {
        let booted = Scenario { before: None, ..scenario.clone() };
        let (_, after) = sights_of_the_model(&booted);
        let tree = Tree::new();
        sight::label(tree.root());
        let root = Root::open(tree.root()).expect("a root");
        apply(&root, &scenario.after);
        let kept = tempfile::tempdir().expect("a directory");
        copy(&tree.at("etc"), &kept.path().join("etc"));
        apply(&root, scenario.before.as_ref().expect("the active config"));
        std::fs::remove_dir_all(tree.at("etc")).expect("/etc can be removed");
        copy(&kept.path().join("etc"), &tree.at("etc"));
        let activation =
            activate::plan_activation(&root).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        Self::checked(&root, scenario, activation.change(&boot_id()), &after)
    }

    /// Build the case of `change`, which must lead to `after`.
    fn checked(root: &Root, scenario: &Scenario, change: JournaledChange<'_>, after: &Snapshot) -> Self {
        let name = scenario.name.clone();
        assert!(!change.steps.is_empty(), "{name}: the plan is empty");
        let image = sight::load(root.path(), scenario.mounts);
        let mut case = Self {
            name,
            old: sight::see(&image),
            image,
            steps: change.steps.to_vec(),
            labels: change.labels.clone(),
            current: change.current.cloned(),
            target: change.target.cloned(),
            scope: change.scope,
            actions: scenario.actions.clone(),
            new: Sight::new(),
            done: Image::new(Rights { mode: 0, uid: 0, gid: 0 }, &[]),
        };
        case.finish(after, &scenario.after);
        // A repaired path gets the label that the policy gives it, not the label of the damage.
        if scenario.damage.is_none() {
            assert_none(&case.name, &wrong_labels(&case.old, &case.new));
        }
        // The real disk must become equal to the disk in memory.
        apply::apply(root, &NoServices, change).expect("a real disk");
        let real = sight::see(&sight::load(root.path(), scenario.mounts));
        assert_none(&case.name, &sight::differences(&case.new, &real));
        case
    }

    /// Apply the change uninterrupted and check the result.
    fn finish(&mut self, after: &Snapshot, config: &Value) {
        let disk = MemoryDisk::new(self.image.clone(), &Unwatched);
        self.apply(&disk, &NoServices).unwrap_or_else(|error| panic!("{}: {}", self.name, said(&error)));
        self.done = disk.image();
        self.new = sight::see(&self.done);
        assert_like(&self.name, &self.new, after);
        assert_none(&self.name, &self.wrong_records(config));
    }

    /// Complaints about the product's own files: the record, the applied config, and paths that must not
    /// remain.
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
            wrong.push("currentconfig differs from the applied config".to_owned());
        }
        let kept = record.originals.iter().map(GenerationRecord::original_of);
        let mut known: Vec<String> = kept.map(|path| path.relative().to_owned()).collect();
        let always = [RECORD, CURRENT_CONFIG, "/etc/machine-config-daemon/currentimage", LOCK, HISTORY];
        known.extend(always.map(bare));
        known.extend(self.stored(&record, &bytes));
        // The local versions that a repair replaces are kept.
        let is_kept = |path: &String| path.starts_with(&bare(UNDONE));
        let others =
            self.new.keys().filter(|path| is_record(path) && !is_kept(path) && !known.contains(path));
        for path in others {
            let holds = ["/etc/machine-config-daemon", ORIGINALS, ORIGINALS_OUTSIDE_ETC, OBJECTS].map(bare);
            let is_way = holds.iter().any(|known| known == path || known.starts_with(&format!("{path}/")));
            if !is_way {
                wrong.push(format!("/{path} remains"));
            }
        }
        wrong
    }

    /// Paths that the store may have: objects of this generation and of the one before it outside `/etc`, and
    /// their pre-images.
    fn stored(&self, record: &GenerationRecord, bytes: &dyn Fn(&str) -> Vec<u8>) -> Vec<String> {
        let was = |path: &str| match self.old.get(&bare(path)).map(|seen| &seen.node.body) {
            Some(Body::File(bytes)) => Some(bytes.clone()),
            _ => None,
        };
        let recorded =
            was(RECORD).and_then(|bytes| GenerationRecord::parse(&bytes).expect("a record").manifest);
        let active =
            was(ACTIVE).and_then(|bytes| ActiveManifest::parse(&bytes).expect("an active manifest").manifest);
        let mut paths = Vec::new();
        for digest in record.manifest.into_iter().chain(recorded).chain(active) {
            let manifest = Manifest::parse(digest, &bytes(object_path(digest).as_str())).expect("a manifest");
            paths.extend(manifest.objects().chain([digest]).map(object_path));
        }
        let active = bytes(ACTIVE);
        if !active.is_empty() {
            let active = ActiveManifest::parse(&active).expect("an active manifest");
            assert_eq!(active.manifest, record.manifest, "{}", self.name);
            paths.extend(active.originals.iter().map(GenerationRecord::original_of));
            paths.push(ManagedPath::constant(ACTIVE));
        }
        paths.iter().map(|path| bare(path.as_str())).collect()
    }

    /// Apply the change.
    pub(crate) fn apply(&self, disk: &dyn HostDisk, services: &dyn ServiceControl) -> Result<(), ApplyError> {
        let change = JournaledChange {
            current: self.current.as_ref(),
            target: self.target.as_ref(),
            boot_id: &boot_id(),
            scope: self.scope,
            steps: &self.steps,
            labels: &self.labels,
            actions: &self.actions,
        };
        apply::apply(disk, services, change)
    }
}

/// Recover an open change on `disk`, as the product's next command does.
pub(crate) fn recover(disk: &dyn HostDisk, services: &dyn ServiceControl) -> Result<RecoveryOutcome, String> {
    let path = flameholder::core::values::names::ManagedPath::constant(RECORD);
    let bytes = disk.read(&path, usize::MAX - 1).map_err(|error| error.to_string())?;
    let record =
        bytes.map(|bytes| GenerationRecord::parse(&bytes)).transpose().map_err(|error| error.to_string())?;
    let found = record.map(|record| record.generation);
    recover::recover(disk, services, found.as_ref(), &boot_id()).map_err(|error| said(&error))
}

/// Message of an error and its sources.
pub(crate) fn said(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", said(source)),
        None => error.to_string(),
    }
}

/// Result of `act` on `image` as seen by `watch`, and the image after it.
pub(crate) fn on<T>(image: &Image, watch: &dyn Watch, act: impl FnOnce(&dyn HostDisk) -> T) -> (T, Image) {
    let disk = MemoryDisk::new(image.clone(), watch);
    let result = act(&disk);
    (result, disk.image())
}

fn apply(root: &Root, config: &Value) {
    let root = LockedRoot::lock(root).expect("the lock");
    plain_tree::apply(&root, &configuration(config), Profile::Native)
        .unwrap_or_else(|error| panic!("{error}"));
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.expect("cp").success(), "copying {}", from.display());
}

fn configuration(config: &Value) -> DecodedConfig {
    DecodedConfig::parse(config.to_string().as_bytes()).expect("a good config")
}

/// Trees of the model before and after the scenario.
fn sights_of_the_model(scenario: &Scenario) -> (Snapshot, Snapshot) {
    let mut reference = ModelTree::new();
    if let Some(config) = &scenario.before {
        reference.apply(Config::read(config));
    }
    let before = reference.snapshot();
    reference.apply(Config::read(&scenario.after));
    (before, reference.snapshot())
}

fn bare(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

fn assert_none(name: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
}

fn assert_like(name: &str, is: &Sight, wanted: &Snapshot) {
    assert_none(name, &differences(&sight::untimed(is), wanted));
    let leftover = |path: &&String| path.ends_with(".flameholder.d") || path.contains("flameholder/journal");
    assert_none(name, &is.keys().filter(leftover).cloned().collect::<Vec<_>>());
}

/// Paths with a wrong label: an unchanged path keeps its label, a replacement gets the label of the replaced
/// path, and a new path that of its nearest existing directory. A pre-image keeps its label wherever it is
/// stored.
fn wrong_labels(old: &Sight, new: &Sight) -> Vec<String> {
    let is_kept =
        |path: &str| [ORIGINALS, ORIGINALS_OUTSIDE_ETC].map(bare).iter().any(|top| path.starts_with(top));
    let mut wrong = Vec::new();
    for (path, seen) in new.iter().filter(|(path, _)| !is_kept(path)) {
        let mut above =
            std::iter::successors(Some(path.as_str()), |path| path.rsplit_once('/').map(|(up, _)| up));
        let from = above.find_map(|path| old.get(path));
        let is_directory = |seen: &sight::Seen| seen.node.body == Body::Directory;
        // The old label of a path says nothing if a file became a directory there, or a link was followed.
        let is_telling = old.contains_key(path) || from.is_some_and(is_directory);
        if is_telling && from.is_some_and(|from| from.label != seen.label) {
            wrong.push(format!(
                "/{path} has the label {:?}, expected {:?}",
                seen.label,
                from.map(|from| &from.label)
            ));
        }
    }
    wrong
}

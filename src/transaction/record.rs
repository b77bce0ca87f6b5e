//! The last steps of every transaction: the configuration and the record that names it.

use std::collections::BTreeSet;

use crate::core::generation::{BoundDeployment, CURRENT_CONFIG, CURRENT_IMAGE, RECORD, Record, SCHEMA};
use crate::core::host_config::HostConfig;
use crate::core::names::ManagedPath;
use crate::core::plan::Plan;
use crate::core::steps::{Step, Steps};
use crate::core::tree::{Attributes, ContentDigest, Node};
use crate::host::{HostError, Root, boot};

use super::current::{Configuration, Current};

/// The record of carrying `plan` out. The same configuration applied again keeps its generation.
#[must_use]
pub fn compose(
    current: &Current,
    desired: &Configuration,
    plan: &Plan,
    deployment: Option<BoundDeployment>,
) -> Record {
    let steps = plan.tree.as_ref().map(|tree| &tree.steps);
    let mut record = Record {
        schema: SCHEMA,
        generation: String::new(),
        config: desired.object.name.clone(),
        config_hash: desired.hash(),
        profile: plan.profile,
        deployment,
        boot_id: String::new(),
        applied: applied(&desired.host),
        left_out: plan.left_out.clone(),
        created_directories: steps
            .iter()
            .flat_map(|steps| steps.created_directories.iter().cloned())
            .collect(),
        originals: steps.iter().flat_map(|steps| steps.originals.iter().cloned()).collect(),
    };
    let before = current.record.as_ref();
    let unchanged = before.filter(|before| {
        let (generation, boot_id) = (before.generation.clone(), before.boot_id.clone());
        Record { generation, boot_id, ..record.clone() } == **before
    });
    let kept =
        before.filter(|before| before.config_hash == record.config_hash && record.deployment.is_none());
    record.generation = kept.map_or_else(boot::new_generation_id, |before| before.generation.clone());
    record.boot_id = unchanged.map_or_else(boot::boot_id, |before| before.boot_id.clone());
    record
}

fn applied(config: &HostConfig) -> Vec<String> {
    let parts = [
        ("files", !config.files.is_empty()),
        ("directories", !config.directories.is_empty()),
        ("links", !config.links.is_empty()),
        ("units", !config.units.is_empty()),
        ("passwd", !config.passwd.users.is_empty()),
    ];
    parts.iter().filter(|(_, any)| *any).map(|(part, _)| (*part).to_owned()).collect()
}

/// All steps of a transaction in order: pre-images are kept, the record names them, the tree
/// changes, and the configuration says last that it was applied. A run that is killed in between
/// leaves a record that does not fit the configuration beside it, and every pre-image that is
/// needed is named. No steps at all where nothing changed.
pub fn frame(
    root: &Root,
    steps: Steps,
    desired: &Configuration,
    record: &Record,
) -> Result<Vec<Step>, HostError> {
    let mut all = steps.preserve;
    let mut made: BTreeSet<ManagedPath> = BTreeSet::new();
    let directories = steps.steps.iter().chain(&all).filter_map(|step| match step {
        Step::MakeDirectory { path, .. } => Some(path.clone()),
        _ => None,
    });
    let planned: BTreeSet<ManagedPath> = directories.collect();
    // The record holds no secret; the configuration may, and is nobody else's to read.
    let parts = [
        (RECORD, record.render(), 0o644),
        (CURRENT_IMAGE, Vec::new(), 0o644),
        (CURRENT_CONFIG, desired.render(), 0o600),
    ];
    let mut writes = Vec::new();
    for (path, contents, mode) in parts {
        let path = ManagedPath::constant(path);
        let attributes = Attributes { mode, uid: 0, gid: 0 };
        if is_written(&root.node(&path)?, &contents, attributes) {
            continue;
        }
        for directory in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            let is_new = !planned.contains(&directory) && !root.exists(&directory)?;
            if is_new && made.insert(directory.clone()) {
                let attributes = Attributes { mode: 0o755, uid: 0, gid: 0 };
                all.push(Step::MakeDirectory { path: directory, attributes });
            }
        }
        writes.push(Step::Write { path, contents, attributes });
    }
    let is_record = |step: &Step| step.path().as_str() == RECORD;
    // A directory that the configuration itself makes comes before the record in it.
    let (needed, others): (Vec<Step>, Vec<Step>) = steps.steps.into_iter().partition(|step| {
        matches!(step, Step::MakeDirectory { path, .. } if ManagedPath::constant(RECORD).is_within(path.as_str()))
    });
    all.extend(needed);
    let (record, configuration): (Vec<Step>, Vec<Step>) = writes.into_iter().partition(is_record);
    all.extend(record);
    all.extend(others);
    all.extend(configuration);
    Ok(all)
}

fn is_written(found: &Node, contents: &[u8], attributes: Attributes) -> bool {
    match found {
        Node::File { attributes: mode, digest, .. } => {
            *mode == attributes && *digest == ContentDigest::of(contents)
        }
        _ => false,
    }
}

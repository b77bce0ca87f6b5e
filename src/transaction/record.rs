//! The record of a transaction, and the order in which record, tree and configuration are written.

use std::collections::{BTreeMap, BTreeSet};

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
        labels: BTreeMap::new(),
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
    let within_record = |path: &ManagedPath| ManagedPath::constant(RECORD).is_within(path.as_str());
    // A directory that the configuration itself makes comes before the record in it.
    let (needed, others): (Vec<Step>, Vec<Step>) = steps
        .steps
        .into_iter()
        .partition(|step| matches!(step, Step::MakeDirectory { path, .. } if within_record(path)));
    let mut all = steps.preserve;
    all.extend(needed);
    // The record holds no secret; the configuration may, and is nobody else's to read.
    let mut planned = directories(&all);
    write(root, RECORD, record.render(), 0o644, &mut planned, &mut all)?;
    planned.extend(directories(&others));
    all.extend(others);
    write(root, CURRENT_IMAGE, Vec::new(), 0o644, &mut planned, &mut all)?;
    write(root, CURRENT_CONFIG, desired.render(), 0o600, &mut planned, &mut all)?;
    Ok(all)
}

fn directories(steps: &[Step]) -> BTreeSet<ManagedPath> {
    let made = steps.iter().filter(|step| matches!(step, Step::MakeDirectory { .. }));
    made.map(|step| step.path().clone()).collect()
}

/// Adds the write of one file of ours, unless it is there already, and of the directories above it
/// that nobody made.
fn write(
    root: &Root,
    path: &str,
    contents: Vec<u8>,
    mode: u32,
    planned: &mut BTreeSet<ManagedPath>,
    steps: &mut Vec<Step>,
) -> Result<(), HostError> {
    let owned = |mode| Attributes { mode, uid: 0, gid: 0 };
    let (path, attributes) = (ManagedPath::constant(path), owned(mode));
    if is_written(&root.node(&path)?, &contents, attributes) {
        return Ok(());
    }
    for directory in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
        if !root.exists(&directory)? && planned.insert(directory.clone()) {
            steps.push(Step::MakeDirectory { path: directory, attributes: owned(0o755) });
        }
    }
    steps.push(Step::Write { path, contents, attributes });
    Ok(())
}

fn is_written(found: &Node, contents: &[u8], attributes: Attributes) -> bool {
    match found {
        Node::File { attributes: mode, digest, .. } => {
            *mode == attributes && *digest == ContentDigest::of(contents)
        }
        _ => false,
    }
}

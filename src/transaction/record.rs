//! The last steps of every transaction: the configuration and the record that names it.

use crate::core::generation::{BoundDeployment, CURRENT_CONFIG, CURRENT_IMAGE, RECORD, Record, SCHEMA};
use crate::core::host_config::HostConfig;
use crate::core::names::ManagedPath;
use crate::core::plan::Plan;
use crate::core::steps::Step;
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

/// Adds the steps that write what is not there yet: none at all where nothing changed.
pub fn append(
    steps: &mut Vec<Step>,
    root: &Root,
    desired: &Configuration,
    record: &Record,
) -> Result<(), HostError> {
    // The configuration may hold secrets and is nobody else's to read; the record holds none.
    for (path, contents, mode) in [
        (CURRENT_CONFIG, desired.render(), 0o600),
        (CURRENT_IMAGE, Vec::new(), 0o644),
        (RECORD, record.render(), 0o644),
    ] {
        let path = ManagedPath::constant(path);
        let attributes = Attributes { mode, uid: 0, gid: 0 };
        let digest = ContentDigest::of(&contents);
        let found = root.node(&path)?;
        if matches!(&found, Node::File { attributes: mode, digest: content, .. } if (*mode, *content) == (attributes, digest))
        {
            continue;
        }
        for directory in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            // The configuration may make the record's directories itself.
            let made = steps
                .iter()
                .any(|step| matches!(step, Step::MakeDirectory { path, .. } if *path == directory));
            if !made && !root.exists(&directory)? {
                let attributes = Attributes { mode: 0o755, uid: 0, gid: 0 };
                steps.push(Step::MakeDirectory { path: directory, attributes });
            }
        }
        steps.push(Step::Write { path, contents, attributes });
    }
    Ok(())
}

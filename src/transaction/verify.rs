//! The disk against the record: every deviation.

use crate::core::facts::Facts;
use crate::core::generation::{CURRENT_CONFIG, RECORD, Record};
use crate::core::names::ManagedPath;
use crate::core::plan::Drift;
use crate::core::tree::{Deviation, Node};
use crate::core::tree_plan;
use crate::host::Root;
use crate::host::facts::{self, Reach, Subject};

use super::TransactionError;
use super::current::{Configuration, Current};

/// What was found.
#[derive(Debug)]
pub struct Verified {
    /// The generation that the tree was compared with.
    pub record: Record,
    /// What deviates from it.
    pub deviations: Vec<Drift>,
}

/// Compares the tree at `root` with its record.
pub fn verify(root: &Root, reach: Reach) -> Result<Verified, TransactionError> {
    let Current { record: Some(record), configuration: Some(configuration) } = Current::load(root)? else {
        return Err(TransactionError::NoGeneration(root.path().display().to_string()));
    };
    let mut deviations = tree_plan::drift(
        &facts_of(root, &record, &configuration, reach)?,
        &configuration.host,
        Some(&record),
    );
    if record.config_hash != configuration.hash() {
        let path = ManagedPath::constant(RECORD);
        deviations.push(Drift { path, kind: Deviation::Content });
    }
    // The configuration may hold secrets.
    let path = ManagedPath::constant(CURRENT_CONFIG);
    if let Node::File { attributes, .. } = root.node(&path)?
        && attributes.mode & 0o077 != 0
    {
        deviations.push(Drift { path, kind: Deviation::Mode });
    }
    for path in &record.originals {
        let original = Record::original_of(path);
        if !root.exists(&original)? {
            deviations.push(Drift { path: original, kind: Deviation::Missing });
        }
    }
    Ok(Verified { record, deviations })
}

fn facts_of(
    root: &Root,
    record: &Record,
    configuration: &Configuration,
    reach: Reach,
) -> Result<Facts, TransactionError> {
    let config = &configuration.host;
    let subject = Subject {
        current: Some(config),
        desired: config,
        record: Some(record),
        profile: record.profile,
        reach,
    };
    Ok(facts::gather(root, subject)?)
}

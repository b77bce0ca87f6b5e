//! The disk against the record: every deviation, with what is to become of it.

use crate::core::config::settings::{DriftPolicies, DriftPolicy};
use crate::core::plan::Drift;
use crate::core::plan::facts::TreeFacts;
use crate::core::plan::steps::PriorChanges;
use crate::core::plan::tree_plan;
use crate::core::state::carry_forward;
use crate::core::state::record::GenerationRecord;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{CURRENT_CONFIG, RECORD};
use crate::core::values::tree::{DriftKind, PathState};
use crate::host::Root;
use crate::host::facts::tree_facts;
use crate::host::facts::tree_facts::{FactsRequest, TreeScope};
use crate::transaction::state::settings::settings;

use crate::transaction::TransactionError;
use crate::transaction::state::current::{CurrentState, DecodedConfig};

/// A deviation, and what is to become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriftFinding {
    /// The deviation.
    pub drift: Drift,
    /// What the settings say about its path.
    pub policy: DriftPolicy,
    /// Why it was not repaired, where it should have been.
    pub obstacle: Option<String>,
}

/// What was found.
#[derive(Debug)]
pub struct DriftReport {
    /// The generation that the tree was compared with.
    pub record: GenerationRecord,
    /// What deviates from it.
    pub deviations: Vec<DriftFinding>,
    /// What deviated and was made good.
    pub repaired: Vec<Drift>,
    policies: DriftPolicies,
}

impl DriftReport {
    /// Whether anything deviates that is not ignored.
    #[must_use]
    pub fn deviates(&self) -> bool {
        self.deviations.iter().any(|found| found.policy != DriftPolicy::Ignore)
    }

    /// Where something deviates that counts.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let counting = self.deviations.iter().filter(|found| found.policy != DriftPolicy::Ignore);
        counting.map(|found| found.drift.path.to_string()).collect()
    }

    /// What an older generation says of whom the host trusts does not count: that never goes back in time.
    pub(crate) fn forgive_trust(&mut self) {
        for found in
            self.deviations.iter_mut().filter(|found| carry_forward::is_trust_material(&found.drift.path))
        {
            found.policy = DriftPolicy::Ignore;
        }
    }

    pub(crate) fn add(&mut self, drift: Drift) {
        let policy = self.policies.of(&drift.path);
        self.deviations.push(DriftFinding { drift, policy, obstacle: None });
    }
}

/// Compares the tree at `root` with its record.
pub fn verify(root: &Root, reach: TreeScope) -> Result<DriftReport, TransactionError> {
    crate::transaction::state::interrupted::ensure_not_interrupted(root)?;
    find_drift(root, &CurrentState::load(root)?, reach, settings(root)?.drift)
}

/// Compares the tree at `root` with what was applied last.
pub(crate) fn find_drift(
    root: &Root,
    current: &CurrentState,
    reach: TreeScope,
    policies: DriftPolicies,
) -> Result<DriftReport, TransactionError> {
    let CurrentState { record: Some(record), configuration: Some(configuration), .. } = current else {
        return Err(TransactionError::NoGeneration(root.path().display().to_string()));
    };
    let remembered = current.remembered();
    let facts = facts_of(root, record, configuration, &remembered, reach)?;
    let mut drift = tree_plan::drift(&facts, &configuration.host, &remembered.labels, record.profile);
    drift.extend(drift_of_record(root, record, configuration, &remembered)?);
    let mut verified =
        DriftReport { record: record.clone(), deviations: Vec::new(), repaired: Vec::new(), policies };
    for drift in drift {
        verified.add(drift);
    }
    Ok(verified)
}

/// What is wrong with that by which everything else is judged.
fn drift_of_record(
    root: &Root,
    record: &GenerationRecord,
    configuration: &DecodedConfig,
    remembered: &PriorChanges,
) -> Result<Vec<Drift>, TransactionError> {
    let mut drift = Vec::new();
    if record.config_hash != configuration.hash() {
        drift.push(Drift { path: ManagedPath::constant(RECORD), kind: DriftKind::Content });
    }
    // Nobody else may write either, and the configuration may hold secrets.
    for (path, refused) in [(RECORD, 0o022), (CURRENT_CONFIG, 0o077)] {
        let path = ManagedPath::constant(path);
        let PathState::File { attributes, .. } = root.node(&path)? else { continue };
        if attributes.mode & refused != 0 {
            drift.push(Drift { path, kind: DriftKind::Mode });
        } else if (attributes.uid, attributes.gid) != (0, 0) {
            drift.push(Drift { path, kind: DriftKind::Owner });
        }
    }
    for path in &remembered.originals {
        let original = GenerationRecord::original_of(path);
        if !root.exists(&original)? {
            drift.push(Drift { path: original, kind: DriftKind::Missing });
        }
    }
    Ok(drift)
}

fn facts_of(
    root: &Root,
    record: &GenerationRecord,
    configuration: &DecodedConfig,
    remembered: &PriorChanges,
    reach: TreeScope,
) -> Result<TreeFacts, TransactionError> {
    let config = &configuration.host;
    let subject = FactsRequest {
        current: Some(config),
        desired: config,
        active: None,
        remembered,
        applied_by: record.profile,
        profile: record.profile,
        reach,
    };
    Ok(tree_facts::gather(root, subject)?)
}

//! Drift: comparison of the disk with the record, and the drift policy of each finding.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::config::settings::{DriftPolicies, DriftPolicy};
use crate::core::plan::drift;
use crate::core::plan::drift::{Drift, DriftFinding};
use crate::core::plan::facts::TreeFacts;
use crate::core::plan::steps::PriorChanges;
use crate::core::state::carry_forward;
use crate::core::state::record::GenerationRecord;
use crate::core::values::kernel_arguments::argument_skew::ArgumentSkew;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{CURRENT_CONFIG, RECORD};
use crate::core::values::tree::{DriftKind, FileEntry, PathState};
use crate::host::Root;
use crate::host::facts::tree_facts;
use crate::host::facts::tree_facts::{FactsRequest, TreeScope};
use crate::transaction::TransactionError;
use crate::transaction::state::current::{CurrentState, DecodedConfig};
use crate::transaction::state::error::StateError;
use crate::transaction::state::interrupted::ensure_not_interrupted;
use crate::transaction::state::settings::settings;

/// Return the obstacle of drift that no change of files can repair.
fn unrepaired_kind(kind: DriftKind) -> Option<&'static str> {
    match kind {
        DriftKind::KernelArguments => {
            Some("a repair does not reboot; `flameholder apply` with the same config sets them")
        }
        DriftKind::FipsMode => Some("FIPS mode is set only at installation"),
        _ => None,
    }
}

/// Result of a drift comparison.
#[derive(Debug)]
pub struct DriftReport {
    /// Record that the tree was compared with.
    pub record: GenerationRecord,
    /// Remaining drift, ignored paths included.
    pub findings: Vec<DriftFinding>,
    /// Drift that this run repaired.
    pub repaired: Vec<Drift>,
    /// Paths that this run restored, also those that changed again before the comparison after it.
    pub restored: BTreeSet<ManagedPath>,
    /// Kernel arguments that take effect with the next full reboot, since a soft reboot kept the kernel. No drift.
    pub skew: ArgumentSkew,
    policies: DriftPolicies,
    /// Entries of the config at the paths whose content differs.
    recorded: BTreeMap<ManagedPath, FileEntry>,
}

impl DriftReport {
    /// Return true if drift was found that no policy accepts.
    #[must_use]
    pub fn has_drift(&self) -> bool {
        self.findings.iter().any(DriftFinding::counts)
    }

    /// Describe the drift that no policy accepts and only root can cause: it blocks updates and fails the boot check. A user
    /// who owns one managed file can cause a report, and nothing else.
    #[must_use]
    pub fn blocking(&self) -> Vec<String> {
        self.caused_by_root().map(|found| found.drift.to_string()).collect()
    }

    /// Describe the blocking drift that an update would undo. FIPS mode is none: no update sets it, and the plan judges the
    /// desired config by it, so that a corrected config is accepted.
    #[must_use]
    pub fn undone_by_update(&self) -> Vec<String> {
        let undone = self.caused_by_root().filter(|found| found.drift.kind != DriftKind::FipsMode);
        undone.map(|found| found.drift.to_string()).collect()
    }

    fn caused_by_root(&self) -> impl Iterator<Item = &DriftFinding> {
        self.findings.iter().filter(|found| found.counts() && !found.is_unprivileged)
    }

    /// Describe the drift that no policy accepts.
    #[must_use]
    pub fn counting(&self) -> Vec<String> {
        self.findings.iter().filter(|found| found.counts()).map(|found| found.drift.to_string()).collect()
    }

    /// Iterate over the contents that files with other content should have.
    pub fn recorded_contents(&self) -> impl Iterator<Item = (&ManagedPath, &[u8])> {
        self.recorded.iter().filter_map(|(path, entry)| match entry {
            FileEntry::File { contents, .. } => Some((path, contents.as_slice())),
            _ => None,
        })
    }

    /// Return the drifted paths whose policy is `repair`, and that a repair can restore.
    #[must_use]
    pub fn repairable(&self) -> BTreeSet<ManagedPath> {
        let findings = self.findings.iter().filter(|found| found.policy == DriftPolicy::Repair);
        let findings = findings.filter(|found| unrepaired_kind(found.drift.kind).is_none());
        findings.map(|found| found.drift.path.clone()).collect()
    }

    /// Add the reasons for which paths were not repaired.
    pub(crate) fn add_obstacles(&mut self, obstacles: &BTreeMap<ManagedPath, String>) {
        for found in &mut self.findings {
            found.obstacle = match unrepaired_kind(found.drift.kind) {
                Some(reason) => (found.policy == DriftPolicy::Repair).then(|| reason.to_owned()),
                None => obstacles.get(&found.drift.path).cloned(),
            };
        }
    }

    /// Ignore drift of trust material. For an older generation, newer keys and CAs on the host are
    /// intended.
    pub(crate) fn ignore_trust_material(&mut self) {
        for found in
            self.findings.iter_mut().filter(|found| carry_forward::is_trust_material(&found.drift.path))
        {
            found.policy = DriftPolicy::Ignore;
        }
    }

    /// Add drift that `root` shows.
    pub(crate) fn add(&mut self, root: &Root, drift: Drift) {
        let policy = self.policies.of(&drift.path);
        let is_unprivileged = root.is_changed_by_users(&drift.path);
        self.findings.push(DriftFinding {
            drift,
            policy,
            obstacle: None,
            documents: Vec::new(),
            is_unprivileged,
        });
    }
}

/// Find drift of the tree at `root`. Fails while an interrupted change is open.
pub fn verify(root: &Root, scope: TreeScope) -> Result<DriftReport, TransactionError> {
    verify_state(root, scope).map(|(verified, _)| verified)
}

/// Find drift like [`verify`]; also return the current state that the tree was compared with.
pub(crate) fn verify_state(
    root: &Root,
    scope: TreeScope,
) -> Result<(DriftReport, CurrentState), TransactionError> {
    ensure_not_interrupted(root)?;
    let current = CurrentState::load(root)?;
    let verified = find_drift(root, &current, scope, settings(root)?.drift)?;
    Ok((verified, current))
}

/// Find drift between the tree at `root` and `current`.
pub(crate) fn find_drift(
    root: &Root,
    current: &CurrentState,
    scope: TreeScope,
    policies: DriftPolicies,
) -> Result<DriftReport, TransactionError> {
    let CurrentState { record: Some(record), configuration: Some(configuration), .. } = current else {
        return Err(StateError::NoGeneration(root.path().display().to_string()).into());
    };
    let prior = current.prior_changes();
    let facts = facts_of(root, record, configuration, &prior, scope)?;
    let labels = if scope == TreeScope::Etc { prior.within("/etc").labels } else { prior.labels.clone() };
    let mut drift = drift::find_drift(&facts, &configuration.host, &labels, record.profile);
    let differing = drift.iter().filter(|drift| drift.kind == DriftKind::Content);
    let entry = |path: &ManagedPath| Some((path.clone(), facts.current.entries.get(path)?.clone()));
    let recorded = differing.filter_map(|drift| entry(&drift.path)).collect();
    drift.extend(drift_of_record(root, record, configuration, &prior)?);
    let mut verified = DriftReport {
        record: record.clone(),
        findings: Vec::new(),
        repaired: Vec::new(),
        restored: BTreeSet::new(),
        skew: ArgumentSkew::default(),
        policies,
        recorded,
    };
    for drift in drift {
        verified.add(root, drift);
    }
    for found in &mut verified.findings {
        found.documents = configuration.host.documents_of(&found.drift.path).to_vec();
    }
    Ok(verified)
}

/// Find drift of the agent's own files: record, current config and pre-images.
fn drift_of_record(
    root: &Root,
    record: &GenerationRecord,
    configuration: &DecodedConfig,
    prior: &PriorChanges,
) -> Result<Vec<Drift>, TransactionError> {
    let mut drift = Vec::new();
    if record.config_hash != configuration.config_hash() {
        drift.push(Drift::new(ManagedPath::constant(RECORD), DriftKind::Content));
    }
    // Other users may not write either file, nor read the config, which can contain secrets.
    for (path, refused) in [(RECORD, 0o022), (CURRENT_CONFIG, 0o077)] {
        let path = ManagedPath::constant(path);
        let PathState::File { attributes, .. } = root.path_state(&path)? else { continue };
        if attributes.mode & refused != 0 {
            drift.push(Drift::new(path, DriftKind::Mode));
        } else if (attributes.uid, attributes.gid) != (0, 0) {
            drift.push(Drift::new(path, DriftKind::Owner));
        }
    }
    for path in &prior.originals {
        let original = GenerationRecord::original_of(path);
        if !root.exists(&original)? {
            drift.push(Drift::new(original, DriftKind::Missing));
        }
    }
    Ok(drift)
}

fn facts_of(
    root: &Root,
    record: &GenerationRecord,
    configuration: &DecodedConfig,
    prior: &PriorChanges,
    scope: TreeScope,
) -> Result<TreeFacts, TransactionError> {
    let config = &configuration.host;
    let subject = FactsRequest {
        current: Some(config),
        desired: config,
        active: None,
        prior,
        applied_by: record.profile,
        profile: record.profile,
        scope,
        merging: None,
    };
    Ok(tree_facts::gather(root, subject)?)
}

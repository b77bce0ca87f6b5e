//! Going back on a host that runs: a new deployment of the old commit, merged from the running
//! `/etc`, with the managed paths of the old generation. What others wrote since stays.

use crate::host::facts::booted;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::core::config::policy::DisruptionPolicy;
use crate::core::etc_merge::unlike;
use crate::core::plan::Plan;
use crate::core::state::record::GenerationRecord;
use crate::core::state::rollback;
use crate::core::values::names::ManagedPath;
use crate::host::facts::booted::{BootedDeployment, SYSROOT};
use crate::host::fs::etc_tree::{EtcTree, digest_where_needed};
use crate::host::{HostError, Root, ServiceControl};
use crate::os::{Deployment, Sysroot};

use super::running_host;
use super::running_host::UpdateOutcome;
use crate::transaction::TransactionError;
use crate::transaction::plan::target::{TargetSysroot, UpdateProgress, UpdatePurpose, UpdateTarget};
use crate::transaction::state::blocked::block;
use crate::transaction::state::current::{CurrentState, DecodedConfig};

/// Where the agent and the one it replaces write down what they did, relative to `/etc`.
const OWN: [&str; 2] = ["flameholder", "machine-config-daemon"];

/// What is gone back to.
#[derive(Debug)]
pub struct PreviousGeneration {
    /// The deployment whose commit is deployed again.
    pub deployment: Deployment,
    /// Its record.
    pub record: GenerationRecord,
    /// Its configuration, with today's trust material.
    pub configuration: DecodedConfig,
}

/// The generation before the one that runs.
pub fn previous_generation(
    os: &mut dyn Sysroot,
    booted: &BootedDeployment,
) -> Result<PreviousGeneration, TransactionError> {
    let now = CurrentState::load(&Root::open(Path::new("/"))?)?.configuration;
    let stateroot = &booted.deployment.stateroot;
    for deployment in os.deployments()? {
        let is_other = deployment.id != booted.deployment && !deployment.staged;
        if !is_other || deployment.id.stateroot != *stateroot {
            continue;
        }
        let current = CurrentState::load(&booted::open_deployment(Path::new(SYSROOT), &deployment.id)?)?;
        let record_matches = current.record.filter(|record| record.names(&deployment.id));
        if let (Some(record), Some(then)) = (record_matches, current.configuration) {
            let configuration = match &now {
                Some(now) => {
                    let document =
                        rollback::with_trust_material_of(&then.object.document, &now.object.document);
                    DecodedConfig::parse(document.to_string().as_bytes())?
                }
                None => then,
            };
            return Ok(PreviousGeneration { deployment, record, configuration });
        }
    }
    Err(TransactionError::NoPreviousGeneration(stateroot.clone()))
}

/// What the rollback leaves as it is now though the deployment that is gone back to has it otherwise, relative to `/etc`:
/// what others wrote since, and whom the host trusts. `plan` says what it changes.
pub fn unmanaged_differences(
    booted: &BootedDeployment,
    previous: &PreviousGeneration,
    plan: &Plan,
) -> Result<Vec<PathBuf>, TransactionError> {
    let read = |directory: &Path| -> Result<EtcTree, HostError> {
        EtcTree::read(&Root::open(directory)?, &ManagedPath::constant("/etc"))
    };
    let mut now = read(&booted.directory())?;
    let mut then = read(&Path::new(SYSROOT).join(previous.deployment.id.path()))?;
    digest_where_needed(&mut [&mut now, &mut then])?;
    let steps = plan.tree.iter().flat_map(|tree| &tree.steps.steps);
    let changed: BTreeSet<&Path> =
        steps.filter_map(|step| Path::new(step.path().as_str()).strip_prefix("/etc").ok()).collect();
    let of_image: Vec<&Path> =
        plan.etc.iter().flat_map(|etc| &etc.findings.from_image).map(|item| item.path.as_path()).collect();
    let mut unlike = unlike(now.node(), then.node());
    unlike.retain(|path| {
        let is_own = OWN.iter().any(|own| path.starts_with(own));
        !is_own && !changed.contains(path.as_path()) && !of_image.iter().any(|item| path.starts_with(item))
    });
    Ok(unlike)
}

/// Stages it, and holds the target that is left: nothing goes there again by itself.
pub fn stage_rollback(
    os: &mut dyn Sysroot,
    services: &dyn ServiceControl,
    booted: &BootedDeployment,
    previous: &PreviousGeneration,
    progress: &mut dyn FnMut(UpdateProgress),
) -> Result<UpdateOutcome, TransactionError> {
    let target = UpdateTarget {
        site: TargetSysroot::Running(booted),
        desired: &previous.configuration,
        image: None,
        errand: UpdatePurpose::Rollback(&previous.deployment),
        profile: previous.record.profile,
        policy: &DisruptionPolicy::default(),
    };
    let outcome = running_host::apply(os, services, booted, target, progress)?;
    let root = Root::open(Path::new("/"))?;
    if let Some(left) = CurrentState::load_record(&root)? {
        block(&root, &left, "it was rolled back by hand")?;
    }
    Ok(outcome)
}

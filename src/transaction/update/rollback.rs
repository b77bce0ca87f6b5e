//! Rollback on a running host, by `flameholder rollback`: a new deployment of the old commit, merged from
//! the running `/etc`, with the old generation's managed paths. Unmanaged paths stay as they are now.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::running_host;
use super::running_host::StagedUpdate;
use crate::core::etc_merge::differing_paths;
use crate::core::plan::Plan;
use crate::core::plan::remaining_work::RemainingWork;
use crate::core::state::blocked::TargetIdentity;
use crate::core::state::carry_forward::rollback;
use crate::core::state::record::GenerationRecord;
use crate::core::values::names::ManagedPath;
use crate::host::facts::booted;
use crate::host::facts::booted::{BootedDeployment, SYSROOT};
use crate::host::fs::etc_tree::{EtcTree, digest_where_needed};
use crate::host::{HostError, LockedHost, Root, RunningHost};
use crate::os::{Deployment, Sysroot};
use crate::transaction::TransactionError;
use crate::transaction::plan::target::{TargetSysroot, UpdateProgress, UpdatePurpose, UpdateTarget};
use crate::transaction::state::blocked;
use crate::transaction::state::blocked::block;
use crate::transaction::state::current::{CurrentState, DecodedConfig};
use crate::transaction::update::error::UpdateError;

/// State directories of the agent and of MCD, relative to `/etc`.
const OWN: [&str; 2] = ["flameholder", "machine-config-daemon"];

/// Generation to roll back to.
#[derive(Debug)]
pub struct PreviousGeneration {
    /// Deployment whose commit is deployed again.
    pub deployment: Deployment,
    pub record: GenerationRecord,
    /// Config of that generation, with the trust material of the current config.
    pub configuration: DecodedConfig,
}

/// Find the latest generation other than the booted one, in boot order.
pub fn previous_generation(
    os: &mut dyn Sysroot,
    host: &RunningHost,
) -> Result<PreviousGeneration, TransactionError> {
    let now = CurrentState::load(&host.root)?.configuration;
    let booted = &host.booted;
    let stateroot = &booted.deployment.stateroot;
    for deployment in os.deployments()? {
        let is_other = deployment.id != booted.deployment && !deployment.staged;
        if !is_other || deployment.id.stateroot != *stateroot {
            continue;
        }
        let current = CurrentState::load(&booted::open_beside_booted(&deployment.id)?)?;
        let record_matches = current.record.filter(|record| record.names(&deployment.id));
        if let (Some(record), Some(then)) = (record_matches, current.configuration) {
            let configuration = match &now {
                Some(now) => {
                    let document =
                        rollback::with_trust_material_of(&then.object.document, &now.object.document);
                    DecodedConfig::parse_applied(document.to_string().as_bytes())?
                }
                None => then,
            };
            ensure_not_blocked(host, &record)?;
            return Ok(PreviousGeneration { deployment, record, configuration });
        }
    }
    Err(UpdateError::NoPreviousGeneration(stateroot.clone()).into())
}

/// Fail if the config of the previous generation is blocked: it failed its boot check, or was rolled back from.
fn ensure_not_blocked(host: &RunningHost, record: &GenerationRecord) -> Result<(), TransactionError> {
    // One that cannot be read blocks nothing.
    match blocked::load(&host.root).unwrap_or_default() {
        Some(blocked) if blocked.identity() == TargetIdentity::of(record) => {
            Err(UpdateError::Blocked(Box::new(blocked)).into())
        }
        _ => Ok(()),
    }
}

/// Reason for which a config is blocked that an operator rolled back from.
pub(crate) const BY_OPERATOR: &str = "rolled back by an operator";

/// List paths, relative to `/etc`, that keep their current content although the previous deployment has
/// another: unmanaged paths and trust material. `plan` tells which paths the rollback changes.
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
    let mut unlike = differing_paths(now.node(), then.node());
    unlike.retain(|path| {
        let is_own = OWN.iter().any(|own| path.starts_with(own));
        !is_own && !changed.contains(path.as_path()) && !of_image.iter().any(|item| path.starts_with(item))
    });
    Ok(unlike)
}

/// Stage the rollback and block the generation that is rolled back from.
pub fn stage_rollback(
    os: &mut dyn Sysroot,
    host: &LockedHost<'_>,
    previous: &PreviousGeneration,
    progress: &mut dyn FnMut(UpdateProgress),
) -> Result<StagedUpdate, TransactionError> {
    let target = UpdateTarget {
        sysroot: TargetSysroot::Running(host.running),
        desired: &previous.configuration,
        image: None,
        purpose: UpdatePurpose::Rollback(&previous.deployment),
        profile: previous.record.profile,
        policy: None,
    };
    let RemainingWork::Reboot(staged) = running_host::prepare(os, host, target, progress)? else {
        return Err(
            UpdateError::NoPreviousGeneration(host.running.booted.deployment.stateroot.clone()).into()
        );
    };
    if let Some(left) = CurrentState::load_record(host)? {
        block(host, &left, BY_OPERATOR.into())?;
    }
    Ok(staged)
}

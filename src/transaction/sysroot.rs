//! A sysroot as it stands: its deployments, their generations, and going back to an earlier one.

use std::path::Path;

use crate::core::generation::{GENERATION_ARGUMENT, RECORD, Record};
use crate::core::kargs::{self, KernelArgument};
use crate::core::names::ManagedPath;
use crate::core::plan::Drift;
use crate::core::tree::Deviation;
use crate::host::Root;
use crate::host::facts::Reach;
use crate::os::{Deployment, Sysroot};

use super::TransactionError;
use super::current::Current;
use super::verify::Verified;

/// A deployment and the record found in it.
#[derive(Debug)]
pub struct Standing {
    /// The deployment.
    pub deployment: Deployment,
    /// The record; absent where no generation of ours was ever merged into it.
    pub record: Option<Record>,
    /// Whether the record names this deployment. libostree's merge carries records into
    /// deployments that others make.
    pub belongs: bool,
}

/// All deployments in boot order, each with its record.
pub fn standings(os: &mut dyn Sysroot, sysroot: &Path) -> Result<Vec<Standing>, TransactionError> {
    let standing = |deployment: Deployment| {
        let root = Root::open(&sysroot.join(deployment.id.path()))?;
        let record = Current::load(&root)?.record;
        let belongs = record.as_ref().is_some_and(|record| names(record, &deployment));
        Ok(Standing { deployment, record, belongs })
    };
    os.deployments()?.into_iter().map(standing).collect()
}

pub(super) fn names(record: &Record, deployment: &Deployment) -> bool {
    let (bound, id) = (record.deployment.as_ref(), &deployment.id);
    bound.is_some_and(|bound| {
        (&bound.stateroot, &bound.commit, bound.serial) == (&id.stateroot, &id.commit, id.serial)
    })
}

/// Compares the deployment that boots next with its record: its `/etc` and its boot entry.
pub fn verify(os: &mut dyn Sysroot, sysroot: &Path) -> Result<Verified, TransactionError> {
    let place = || sysroot.display().to_string();
    let Some(next) = os.deployments()?.into_iter().next() else {
        return Err(TransactionError::NoDeployment(place()));
    };
    let root = Root::open(&sysroot.join(next.id.path()))?;
    let mut verified = super::verify::verify(&root, Reach::Etc)?;
    if !names(&verified.record, &next) {
        return Err(TransactionError::Foreign(next.id.to_string()));
    }
    let arguments = |written: &[String]| -> Vec<KernelArgument> {
        written.iter().flat_map(|argument| kargs::parse(argument)).collect()
    };
    let wanted = verified.record.deployment.iter().flat_map(|bound| arguments(&bound.kernel_arguments));
    let name = format!("{GENERATION_ARGUMENT}{}", verified.record.generation);
    let is_named = next.kernel_arguments.contains(&name);
    if !is_named
        || !kargs::missing(&arguments(&next.kernel_arguments), &wanted.collect::<Vec<_>>()).is_empty()
    {
        let path = ManagedPath::constant(RECORD);
        verified.add(Drift { path, kind: Deviation::KernelArguments });
    }
    Ok(verified)
}

/// Makes the deployment before the default one of its stateroot the default, whole as it is: a
/// sysroot that is not running has no running `/etc` to carry forward.
pub fn roll_back(os: &mut dyn Sysroot, sysroot: &Path) -> Result<(Deployment, Deployment), TransactionError> {
    let deployments = os.deployments()?;
    let Some(default) = deployments.first() else {
        return Err(TransactionError::NoDeployment(sysroot.display().to_string()));
    };
    let stateroot = &default.id.stateroot;
    let previous = deployments.iter().skip(1).find(|other| other.id.stateroot == *stateroot);
    let Some(previous) = previous else {
        return Err(TransactionError::NoRollback(stateroot.clone()));
    };
    os.set_default(&previous.id)?;
    Ok((default.clone(), previous.clone()))
}

//! A configuration as a generation: one new deployment of a sysroot that is not running, with its
//! `/etc` complete before any boot entry names it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::core::generation::{BoundDeployment, GENERATION_ARGUMENT, Record};
use crate::core::image::ImageRef;
use crate::core::names::ManagedPath;
use crate::core::plan::Plan;
use crate::core::profile::Profile;
use crate::core::steps::{Remembered, Step};
use crate::core::tree::Kind;
use crate::host::facts::Reach;
use crate::host::lock::Lock;
use crate::host::{Disk, Root};
use crate::os::{DeployRequest, Deployment, DeploymentId, Imported, Origin, Progress, Sysroot};

use super::TransactionError;
use super::current::Configuration;
use super::draft::{Draft, draft};
use super::labels::{self, Labels, terminated};
use super::live;
use super::own_files::OwnFiles;
use super::sysroot::{self, names, open};
use super::{record, store, survey};

/// File types as `st_mode` has them, which a label can depend on.
const REGULAR_FILE: u32 = 0o100_000;
const SYMBOLIC_LINK: u32 = 0o120_000;
const DIRECTORY: u32 = 0o040_000;

/// What the operator asks for.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Where the sysroot lies.
    pub sysroot: &'a Path,
    /// The configuration.
    pub desired: &'a Configuration,
    /// An image that stands in for the configuration's own.
    pub image: Option<&'a ImageRef>,
    /// Whose verdicts apply.
    pub profile: Profile,
}

/// How far a transaction is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// The image is brought in.
    Importing(Progress),
    /// The new deployment is made.
    Deploying,
    /// The configuration is written into it.
    Configuring,
    /// The boot entries are written.
    Finishing,
}

/// What came of it.
#[derive(Debug)]
pub struct Generated {
    /// The plan that was carried out.
    pub plan: Plan,
    /// The new deployment; `None` where nothing had to be done.
    pub deployment: Option<Deployment>,
    /// Name of the generation.
    pub generation: String,
}

/// A plan, and the configuration that it starts from.
#[derive(Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// What was applied last.
    pub before: Option<Configuration>,
}

/// Plans without changing anything.
pub fn plan(os: &mut dyn Sysroot, target: Target<'_>) -> Result<Planned, TransactionError> {
    let draft = draft(os, target)?;
    Ok(Planned { plan: draft.plan, before: draft.current.configuration })
}

/// Makes the next generation, or leaves the sysroot bootable into the one that it has.
pub fn apply(
    os: &mut dyn Sysroot,
    target: Target<'_>,
    progress: &mut dyn FnMut(Stage),
) -> Result<Generated, TransactionError> {
    sysroot::settle(os, target.sysroot)?;
    let mut draft = draft(os, target)?;
    let hindrances = draft.plan.hindrances();
    if !hindrances.is_empty() {
        return Err(TransactionError::Hindered(hindrances));
    }
    let imported = match &draft.image {
        Some(image) => Some(os.import(image, &mut |step| progress(Stage::Importing(step)))?),
        None => None,
    };
    // The same image by the same name: what is deployed stays what it is.
    let is_deployed = imported.as_ref().is_some_and(|imported| {
        Some(&imported.manifest_digest) == draft.base.manifest_digest.as_ref()
            && draft.image == draft.base.image
    });
    let imported = imported.filter(|_| !is_deployed);
    draft.image = draft.image.filter(|_| !is_deployed);
    if let (None, Some(refusals)) = (&draft.image, draft.unresolved.take()) {
        return Err(refusals.into());
    }
    if let Some(generation) = settled(&draft, target) {
        return Ok(Generated { plan: draft.plan, deployment: None, generation });
    }
    progress(Stage::Deploying);
    let generation = crate::host::boot::new_generation_id();
    let deployment = deploy(os, &draft, imported.as_ref(), &generation)?;
    progress(Stage::Configuring);
    let bound = bound(&deployment, &draft, imported.as_ref(), target);
    configure(os, target, &draft, bound, &generation)?;
    progress(Stage::Finishing);
    os.finish()?;
    // What is not needed any more takes space and does no harm; the next change tries again.
    if let Err(error) = sysroot::prune(os, target.sysroot, &deployment.id.stateroot) {
        log::warn!("the store could not be pruned: {error}");
    }
    Ok(Generated { plan: draft.plan, deployment: Some(deployment), generation })
}

/// The name of the generation that the default deployment already is.
fn settled(draft: &Draft, target: Target<'_>) -> Option<String> {
    let record = draft.current.record.as_ref()?;
    let name = format!("{GENERATION_ARGUMENT}{}", record.generation);
    let is_its_own = names(record, &draft.base) && draft.base.kernel_arguments.contains(&name);
    let steps = draft.plan.tree.as_ref().is_some_and(|tree| !tree.steps.is_empty());
    let same = record.config_hash == target.desired.hash() && record.profile == target.profile;
    let unchanged = is_its_own && same && !steps && draft.image.is_none() && !draft.kernel_arguments_change;
    unchanged.then(|| record.generation.clone())
}

fn deploy(
    os: &mut dyn Sysroot,
    draft: &Draft,
    imported: Option<&Imported>,
    generation: &str,
) -> Result<Deployment, TransactionError> {
    let base = &draft.base.id;
    let mut kernel_arguments: Vec<String> = draft.kernel_arguments.iter().map(ToString::to_string).collect();
    kernel_arguments.push(format!("{GENERATION_ARGUMENT}{generation}"));
    let origin = match &draft.image {
        Some(image) => Origin::Image(image.clone()),
        None => Origin::Kept,
    };
    let request = DeployRequest {
        stateroot: base.stateroot.clone(),
        commit: imported.map_or_else(|| base.commit.clone(), |imported| imported.commit.clone()),
        origin,
        merge: base.clone(),
        kernel_arguments,
    };
    Ok(os.deploy(&request)?)
}

fn bound(
    deployment: &Deployment,
    draft: &Draft,
    imported: Option<&Imported>,
    target: Target<'_>,
) -> BoundDeployment {
    let host = &target.desired.host;
    let image = draft.image.as_ref().or(draft.base.image.as_ref());
    let digest = imported.map(|imported| imported.manifest_digest.clone());
    BoundDeployment {
        stateroot: deployment.id.stateroot.clone(),
        commit: deployment.id.commit.clone(),
        serial: deployment.id.serial,
        image: image.map(ToString::to_string),
        image_digest: digest.or_else(|| draft.base.manifest_digest.clone()),
        config_image: host.os.image.clone(),
        kernel_arguments: host.os.kernel_arguments.iter().map(ToString::to_string).collect(),
        taken_over: draft.taken_over.iter().map(ToString::to_string).collect(),
    }
}

/// Writes the configuration and the record into the `/etc` of the new deployment, which nothing
/// boots yet. Its image may ship other accounts and files than the base, so facts are its own.
fn configure(
    os: &mut dyn Sysroot,
    target: Target<'_>,
    draft: &Draft,
    bound: BoundDeployment,
    generation: &str,
) -> Result<(), TransactionError> {
    let id = DeploymentId {
        stateroot: bound.stateroot.clone(),
        commit: bound.commit.clone(),
        serial: bound.serial,
    };
    let root = open(target.sysroot, &id)?;
    let (current, desired) = (&draft.current, &target.desired.host);
    let mut plan = survey::plan(&root, current, current.host(), desired, target.profile, Reach::Etc)?;
    let hindrances = plan.hindrances();
    let obstructed = plan.tree.as_ref().is_some_and(|tree| !tree.steps.obstructions.is_empty());
    if obstructed {
        return Err(TransactionError::Hindered(hindrances));
    }
    plan.left_out.clone_from(&draft.plan.left_out);
    // The store is in the `/var` that other commands work on too.
    let _lock = Lock::take(&root)?;
    let tree = plan.tree.clone().unwrap_or_default();
    let given = relabelled(os, &root, &current.remembered())?;
    let labels = labels::recorded(&given, &tree.steps.steps, &policy_labels(os, &tree.steps.steps)?);
    let record = Record {
        generation: generation.to_owned(),
        boot_id: crate::host::boot::boot_id(),
        ..record::compose(current, target.desired, &plan, labels, Some(bound))
    };
    let mut files = OwnFiles::after(&root, Vec::new());
    record::frame(&mut files, tree.steps, target.desired, &record, |files| {
        store::keep(files, &tree.outside, record.profile)
    })?;
    let steps = files.steps;
    Ok(live::write(&root, &steps, &policy_labels(os, &steps)?)?)
}

/// The labels that earlier changes gave, as the new deployment's policy has them: libostree gives
/// them to what it merges.
fn relabelled(
    os: &mut dyn Sysroot,
    root: &Root,
    remembered: &Remembered,
) -> Result<BTreeMap<ManagedPath, String>, TransactionError> {
    let mut asked = Vec::new();
    for path in remembered.labels.keys() {
        let Some(status) = root.status(path)? else { continue };
        let kind = match status.kind {
            Kind::Symlink => SYMBOLIC_LINK,
            Kind::Directory => DIRECTORY,
            _ => REGULAR_FILE,
        };
        asked.push((path.to_string(), kind | status.attributes.mode));
    }
    let labels = os.labels(&asked)?;
    let labelled = asked.into_iter().zip(labels);
    Ok(labelled.filter_map(|((path, _), label)| Some((ManagedPath::parse(&path).ok()?, label?))).collect())
}

fn policy_labels(os: &mut dyn Sysroot, steps: &[Step]) -> Result<Labels, TransactionError> {
    let paths: Vec<(ManagedPath, u32)> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Write { path, attributes, .. } => Some((path.clone(), REGULAR_FILE | attributes.mode)),
            Step::Symlink { path, .. } => Some((path.clone(), SYMBOLIC_LINK | 0o777)),
            Step::MakeDirectory { path, attributes } => Some((path.clone(), DIRECTORY | attributes.mode)),
            _ => None,
        })
        .collect();
    let asked: Vec<(String, u32)> = paths.iter().map(|(path, mode)| (path.to_string(), *mode)).collect();
    let labels = os.labels(&asked)?;
    let labelled = paths.into_iter().zip(labels);
    Ok(labelled.filter_map(|((path, _), label)| Some((path, terminated(&label?)))).collect())
}

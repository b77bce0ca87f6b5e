//! A configuration as a generation: one new deployment of a sysroot that is not running, with its
//! `/etc` complete before any boot entry names it.

use std::path::Path;

use crate::core::config::policy::Policy;
use crate::core::plan::Plan;
use crate::core::state::generation::{BoundDeployment, GENERATION_ARGUMENT, Record};
use crate::core::values::image::ImageRef;
use crate::core::values::profile::Profile;
use crate::host::booted::{Booted, SYSROOT};
use crate::host::facts::Reach;
use crate::host::lock::Lock;
use crate::host::{HostError, Root};
use crate::os::{DeployRequest, Deployment, DeploymentId, Imported, Origin, Progress, Sysroot};

use super::sysroot;
use super::sysroot::open;
use crate::transaction::TransactionError;
use crate::transaction::engine::apply;
use crate::transaction::engine::labels;
use crate::transaction::plan::deployment_plan::{Draft, draft};
use crate::transaction::plan::{etc_merge, tree_plan};
use crate::transaction::state::agent_files::OwnFiles;
use crate::transaction::state::current::{Configuration, Current};
use crate::transaction::state::{objects, record};

/// What the operator asks for.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The sysroot.
    pub site: Site<'a>,
    /// The configuration.
    pub desired: &'a Configuration,
    /// An image that stands in for the configuration's own.
    pub image: Option<&'a ImageRef>,
    /// What it is wanted for.
    pub errand: Errand<'a>,
    /// Whose verdicts apply.
    pub profile: Profile,
    /// Which changes interrupt what.
    pub policy: &'a Policy,
}

/// What a configuration is applied for.
#[derive(Debug, Clone, Copy)]
pub enum Errand<'a> {
    /// It is wanted.
    Update,
    /// It is wanted, be it held or deviated from, and over a reboot even where nothing else needs one.
    Forced,
    /// What Ignition began is to be completed.
    FirstBoot,
    /// The host goes back to this deployment, whose commit is deployed again, whatever the configuration says of the
    /// image.
    Return(&'a Deployment),
}

impl<'a> Target<'a> {
    /// The deployment whose commit is deployed again.
    pub(crate) fn again(self) -> Option<&'a Deployment> {
        match self.errand {
            Errand::Return(to) => Some(to),
            Errand::Update | Errand::Forced | Errand::FirstBoot => None,
        }
    }

    /// Whether a deployment is made of it even where nothing differs.
    pub(crate) fn reboots_anyway(self) -> bool {
        matches!(self.errand, Errand::Forced | Errand::Return(_))
    }

    /// Whether it completes what Ignition began, and nothing was applied since.
    pub(crate) fn begins_first_boot(self, current: &Current) -> bool {
        matches!(self.errand, Errand::FirstBoot) && current.record.is_none()
    }
}

/// Which sysroot a generation is made for.
#[derive(Debug, Clone, Copy)]
pub enum Site<'a> {
    /// One that is not running.
    AtRest(&'a Path),
    /// The one that runs.
    Running(&'a Booted),
}

impl Site<'_> {
    /// The deployment that a new one is made from: what boots next, or what runs.
    pub(crate) fn base(self, deployments: Vec<Deployment>) -> Option<Deployment> {
        deployments.into_iter().find(|deployment| match self {
            Self::AtRest(_) => true,
            Self::Running(_) => deployment.booted,
        })
    }

    /// A deployment's tree, with the `/var` of its stateroot; the base that runs as it runs.
    pub(crate) fn open(self, base: &DeploymentId) -> Result<Root, HostError> {
        match self {
            Self::AtRest(sysroot) => open(sysroot, base),
            Self::Running(_) => Root::open(Path::new("/")),
        }
    }

    /// How much of that tree a change can be made to at once.
    pub(crate) fn reach(self) -> Reach {
        match self {
            Self::AtRest(_) => Reach::Etc,
            Self::Running(_) => Reach::Everything,
        }
    }

    /// Where its deployments lie.
    pub(crate) fn sysroot(&self) -> &Path {
        match self {
            Self::AtRest(sysroot) => sysroot,
            Self::Running(_) => Path::new(SYSROOT),
        }
    }

    /// What it is called in messages.
    pub(crate) fn place(self) -> String {
        match self {
            Self::AtRest(sysroot) => sysroot.display().to_string(),
            Self::Running(_) => "/".to_owned(),
        }
    }
}

/// How far a transaction is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// The image is brought in.
    Importing(Progress),
    /// The packages of extensions and kernels are brought in.
    Unpacking,
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
    let mut draft = draft(os, target)?;
    etc_merge::foresee(os, target, &mut draft)?;
    Ok(Planned { plan: draft.plan, before: draft.current.configuration })
}

/// Makes the next generation, or leaves the sysroot bootable into the one that it has.
pub fn apply(
    os: &mut dyn Sysroot,
    sysroot: &Path,
    target: Target<'_>,
    progress: &mut dyn FnMut(Stage),
) -> Result<Generated, TransactionError> {
    sysroot::settle(os, sysroot)?;
    let mut draft = draft(os, target)?;
    etc_merge::foresee(os, target, &mut draft)?;
    draft.ensure_unhindered()?;
    let imported = draft.import(os, progress)?;
    if let Some(generation) = settled(&draft, target) {
        return Ok(Generated { plan: draft.plan, deployment: None, generation });
    }
    etc_merge::ensure_mergeable(os, target, &draft, imported.as_ref())?;
    progress(Stage::Deploying);
    let generation = crate::host::boot::new_generation_id();
    let deployment = os.deploy(&request(&draft, imported.as_ref(), target.again(), &generation))?;
    progress(Stage::Configuring);
    let bound = bound(&deployment, &draft, imported.as_ref(), target);
    configure(os, sysroot, target, &draft, bound, &generation)?;
    progress(Stage::Finishing);
    os.finish()?;
    // What is not needed any more takes space and does no harm; the next change tries again.
    if let Err(error) = sysroot::prune(os, sysroot, &deployment.id.stateroot, None) {
        log::warn!("the store could not be pruned: {error}");
    }
    Ok(Generated { plan: draft.plan, deployment: Some(deployment), generation })
}

/// The name of the generation that the default deployment already is.
pub(crate) fn settled(draft: &Draft, target: Target<'_>) -> Option<String> {
    let record = draft.current.record.as_ref()?;
    let name = format!("{GENERATION_ARGUMENT}{}", record.generation);
    let is_its_own = record.names(&draft.base.id) && draft.base.kernel_arguments.contains(&name);
    let steps = draft.plan.tree.as_ref().is_some_and(|tree| !tree.steps.is_empty());
    let same = record.config_hash == target.desired.hash() && record.profile == target.profile;
    let unchanged = is_its_own && same && !steps && draft.is_same_os() && !draft.kernel_arguments_change;
    unchanged.then(|| record.generation.clone())
}

/// What libostree is asked for.
pub(crate) fn request(
    draft: &Draft,
    imported: Option<&Imported>,
    again: Option<&Deployment>,
    generation: &str,
) -> DeployRequest {
    let base = &draft.base.id;
    let mut kernel_arguments: Vec<String> = draft.kernel_arguments.iter().map(ToString::to_string).collect();
    kernel_arguments.push(format!("{GENERATION_ARGUMENT}{generation}"));
    let (commit, origin) = match (again, imported, &draft.image) {
        (Some(again), ..) => (&again.id.commit, Origin::Of(again.id.clone())),
        (None, Some(imported), Some(image)) => (&imported.commit, Origin::Image(image.clone())),
        // With other packages, of the same image.
        (None, Some(imported), None) => (&imported.commit, Origin::Kept),
        (None, None, _) => (&base.commit, Origin::Kept),
    };
    DeployRequest {
        stateroot: base.stateroot.clone(),
        commit: commit.clone(),
        origin,
        merge: base.clone(),
        kernel_arguments,
        layering: None,
        replaces: None,
    }
}

/// What a record says of the deployment.
pub(crate) fn bound(
    deployment: &Deployment,
    draft: &Draft,
    imported: Option<&Imported>,
    target: Target<'_>,
) -> BoundDeployment {
    let host = &target.desired.host;
    let source = target.again().unwrap_or(&draft.base);
    let image = draft.image.as_ref().or(source.image.as_ref());
    let digest = imported.and_then(|imported| imported.manifest_digest.clone());
    BoundDeployment {
        stateroot: deployment.id.stateroot.clone(),
        commit: deployment.id.commit.clone(),
        serial: deployment.id.serial,
        image: image.map(ToString::to_string),
        image_digest: digest.or_else(|| source.manifest_digest.clone()),
        config_image: host.os.image.clone(),
        kernel_arguments: host.os.kernel_arguments.iter().map(ToString::to_string).collect(),
        taken_over: draft.taken_over.iter().map(ToString::to_string).collect(),
    }
}

/// Writes the configuration and the record into the `/etc` of the new deployment, which nothing
/// boots yet. Its image may ship other accounts and files than the base, so facts are its own.
fn configure(
    os: &mut dyn Sysroot,
    sysroot: &Path,
    target: Target<'_>,
    draft: &Draft,
    bound: BoundDeployment,
    generation: &str,
) -> Result<(), TransactionError> {
    let root = open(sysroot, &bound.id())?;
    let (current, desired) = (&draft.current, &target.desired.host);
    let mut plan = tree_plan::plan(&root, current, current.host(), desired, target.profile, Reach::Etc)?;
    if plan.is_obstructed() {
        return Err(TransactionError::Hindered(plan.hindrances()));
    }
    plan.left_out.clone_from(&draft.plan.left_out);
    // The store is in the `/var` that other commands work on too.
    let _lock = Lock::take(&root)?;
    let tree = plan.tree.clone().unwrap_or_default();
    let given = labels::again_of_policy(os, &root, &current.remembered())?;
    let labels = labels::recorded(&given, &tree.steps.steps, &labels::of_policy(os, &tree.steps.steps)?);
    let record = Record {
        generation: generation.to_owned(),
        boot_id: crate::host::boot::boot_id(),
        ..record::compose(current, target.desired, &plan, labels, Some(bound))
    };
    let mut files = OwnFiles::after(&root, Vec::new());
    record::frame(&mut files, tree.steps, target.desired, &record, |files| {
        record::first_presets(files, &root, target.desired)?;
        objects::keep(files, &tree.outside, record.profile)
    })?;
    let steps = files.steps;
    Ok(apply::write(&root, &steps, &labels::of_policy(os, &steps)?)?)
}

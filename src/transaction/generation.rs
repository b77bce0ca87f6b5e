//! A configuration as a generation: one new deployment of a sysroot that is not running, with its
//! `/etc` complete before any boot entry names it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::core::generation::{BoundDeployment, GENERATION_ARGUMENT, RECORD, Record};
use crate::core::host_config::{HostConfig, KernelType};
use crate::core::image::ImageRef;
use crate::core::kargs::{self, KernelArgument};
use crate::core::names::ManagedPath;
use crate::core::plan::{Drift, Plan, Preflight};
use crate::core::profile::Profile;
use crate::core::refusal::{Refusal, Refusals};
use crate::core::steps::Step;
use crate::core::tree::Deviation;
use crate::host::Root;
use crate::host::facts::Reach;
use crate::os::{DeployRequest, Deployment, Imported, Origin, Progress, Sysroot};

use super::TransactionError;
use super::current::{Configuration, Current};
use super::live::{self, Labels};
use super::sysroot::names;
use super::{record, survey};

/// Where a deployment says which SELinux policy it has.
const SELINUX_CONFIG: &str = "/etc/selinux/config";
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

/// The state of the sysroot that a plan starts from, and what it would become.
struct Draft {
    base: Deployment,
    current: Current,
    plan: Plan,
    /// The image to import; `None` where the base's commit is deployed again.
    image: Option<ImageRef>,
    /// All kernel arguments of the new boot entry but the generation's own.
    kernel_arguments: Vec<KernelArgument>,
    kernel_arguments_change: bool,
    /// Desired arguments that others had set.
    taken_over: Vec<KernelArgument>,
    /// Names that the base does not know. The new image may.
    unresolved: Option<Refusals>,
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
    Ok(Generated { plan: draft.plan, deployment: Some(deployment), generation })
}

/// The name of the generation that the default deployment already is.
fn settled(draft: &Draft, target: Target<'_>) -> Option<String> {
    let record = draft.current.record.as_ref()?;
    let name = format!("{GENERATION_ARGUMENT}{}", record.generation);
    let is_its_own = names(record, &draft.base) && draft.base.kernel_arguments.contains(&name);
    let steps = draft.plan.tree.as_ref().is_some_and(|tree| !tree.steps.steps.is_empty());
    let same = record.config_hash == target.desired.hash() && record.profile == target.profile;
    let unchanged = is_its_own && same && !steps && draft.image.is_none() && !draft.kernel_arguments_change;
    unchanged.then(|| record.generation.clone())
}

fn draft(os: &mut dyn Sysroot, target: Target<'_>) -> Result<Draft, TransactionError> {
    let place = || target.sysroot.display().to_string();
    let Some(base) = os.deployments()?.into_iter().next() else {
        return Err(TransactionError::NoDeployment(place()));
    };
    let root = Root::open(&target.sysroot.join(base.id.path()))?;
    let current = Current::load(&root)?;
    let image = wanted_image(&base, &current, target)?;
    let mut desired = target.desired.host.clone();
    let mut before = current.host().cloned();
    // What is compared is what the deployment is made of, not by which name a config calls it.
    let deployed = image.as_ref().and(base.image.as_ref()).map(ToString::to_string);
    desired.os.image = image.as_ref().map(ToString::to_string);
    if let Some(before) = &mut before {
        before.os.image.clone_from(&deployed);
    }
    let (before, profile) = (before.as_ref(), target.profile);
    let (mut plan, unresolved) = match survey::plan(&root, &current, before, &desired, profile, Reach::Etc) {
        Err(TransactionError::Refused(refusals)) if image.is_some() => {
            (Plan::between(before, &desired, profile), Some(refusals))
        }
        plan => (plan?, None),
    };
    plan.current_os.image = deployed;
    plan.left_out.extend(package_parts(&desired));
    refuse_paths_in_the_image(&desired, &mut plan);
    if let Some(tree) = &mut plan.tree {
        tree.preflight = preflight(&root, image.is_some())?;
    }
    let existing: Vec<KernelArgument> = base
        .kernel_arguments
        .iter()
        .filter(|argument| !argument.starts_with(GENERATION_ARGUMENT))
        .flat_map(|argument| kargs::parse(argument))
        .collect();
    let listed = before.map(|before| before.os.kernel_arguments.as_slice()).unwrap_or_default();
    let applied = current.record.as_ref().and_then(|record| record.deployment.as_ref());
    let taken: Vec<KernelArgument> =
        applied.iter().flat_map(|applied| &applied.taken_over).flat_map(|text| kargs::parse(text)).collect();
    let owned = kargs::less(listed, &taken);
    let kernel_arguments = kargs::apply(&existing, &owned, &desired.os.kernel_arguments);
    let taken_over = kargs::taken_over(&existing, &owned, &desired.os.kernel_arguments);
    let kernel_arguments_change = kernel_arguments != existing;
    if let (true, false, Some(tree)) = (kernel_arguments_change, plan.diff.kernel_arguments, &mut plan.tree) {
        let path = ManagedPath::constant(RECORD);
        tree.drift.push(Drift { path, kind: Deviation::KernelArguments });
    }
    Ok(Draft {
        base,
        current,
        plan,
        image,
        kernel_arguments,
        kernel_arguments_change,
        taken_over,
        unresolved,
    })
}

/// The image to import, unless the base deployment is that image already.
fn wanted_image(
    base: &Deployment,
    current: &Current,
    target: Target<'_>,
) -> Result<Option<ImageRef>, TransactionError> {
    let configured = target.desired.host.os.image.as_ref();
    let image = match (target.image, configured) {
        (Some(image), _) => image.clone(),
        (None, None) => return Ok(None),
        (None, Some(configured)) => {
            let applied = current.record.as_ref().and_then(|record| record.deployment.as_ref());
            if applied.is_some_and(|applied| applied.config_image.as_ref() == Some(configured)) {
                return Ok(None);
            }
            configured.parse().map_err(|error: crate::core::image::ImageRefError| {
                Refusals::one("spec.osImageURL", error.to_string())
            })?
        }
    };
    // A tag or a directory can hold another image than last time: only asking tells.
    let is_pinned = image.digest().is_some();
    let by_name = is_pinned && base.image.as_ref().is_some_and(|deployed| deployed.is_same_image(&image));
    let by_digest = is_pinned && image.digest() == base.manifest_digest.as_deref();
    Ok((!by_name && !by_digest).then_some(image))
}

/// What needs rpm-ostreed, which does not serve a sysroot that is not running.
fn package_parts(config: &HostConfig) -> impl Iterator<Item = String> {
    let parts = [
        ("spec.kernelType", config.os.kernel_type != KernelType::Default),
        ("spec.extensions", !config.os.extensions.is_empty()),
    ];
    let named = parts.into_iter().filter(|(_, is_set)| *is_set);
    named.map(|(part, _)| format!("{part}: packages cannot be changed in a sysroot that is not running"))
}

/// The image's own directories are read-only on an OSTree host.
fn refuse_paths_in_the_image(config: &HostConfig, plan: &mut Plan) {
    let files = config.files.iter().map(|(path, file)| (path, "files", file.index));
    let directories =
        config.directories.iter().map(|(path, directory)| (path, "directories", directory.index));
    let links = config.links.iter().map(|(path, link)| (path, "links", link.index));
    for (path, list, index) in files.chain(directories).chain(links) {
        let in_image = ["/usr", "/bin", "/sbin", "/lib", "/lib64"].iter().any(|top| path.is_within(top));
        if in_image && !path.is_within("/usr/local") {
            let field = format!("spec.config.storage.{list}[{index}].path");
            let reason = format!("{path} lies in the OS image, which is read-only; build it into the image");
            plan.irreconcilable.push(Refusal::new(field, reason));
        }
    }
}

/// The programs of this host that an update will start.
fn preflight(root: &Root, imports: bool) -> Result<Vec<Preflight>, TransactionError> {
    let has_policy = root.exists(&ManagedPath::constant(SELINUX_CONFIG))?;
    let programs = [
        (imports, "skopeo", "images are pulled with it"),
        (has_policy, "bwrap", "libostree rebuilds the deployment's SELinux policy in it (bubblewrap)"),
    ];
    let needed = programs.into_iter().filter(|(is_needed, ..)| *is_needed);
    Ok(needed.map(|(_, program, purpose)| program_check(program, purpose)).collect())
}

fn program_check(program: &'static str, purpose: &str) -> Preflight {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file());
    let detail = match &found {
        Some(file) => format!("{}: {purpose}", file.display()),
        None => format!("{program} is not on the PATH, and {purpose}; install it"),
    };
    Preflight { check: program, ok: found.is_some(), detail }
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
    let directory = format!("ostree/deploy/{}/deploy/{}.{}", bound.stateroot, bound.commit, bound.serial);
    let root = Root::open(&target.sysroot.join(directory))?;
    let (current, desired) = (&draft.current, &target.desired.host);
    let mut plan = survey::plan(&root, current, current.host(), desired, target.profile, Reach::Etc)?;
    let hindrances = plan.hindrances();
    let obstructed = plan.tree.as_ref().is_some_and(|tree| !tree.steps.obstructions.is_empty());
    if obstructed {
        return Err(TransactionError::Hindered(hindrances));
    }
    plan.left_out.clone_from(&draft.plan.left_out);
    let record = Record {
        generation: generation.to_owned(),
        boot_id: crate::host::boot::boot_id(),
        ..record::compose(current, target.desired, &plan, Some(bound))
    };
    let mut steps = plan.tree.map(|tree| tree.steps.steps).unwrap_or_default();
    record::append(&mut steps, &root, target.desired, &record)?;
    let labels = Labels::Policy(policy_labels(os, &steps)?);
    Ok(live::apply(&root, &root, &steps, &labels)?)
}

fn policy_labels(
    os: &mut dyn Sysroot,
    steps: &[Step],
) -> Result<BTreeMap<ManagedPath, Vec<u8>>, TransactionError> {
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
    Ok(labelled.filter_map(|((path, _), label)| Some((path, terminated(label?)))).collect())
}

/// SELinux stores its labels as C strings.
fn terminated(label: String) -> Vec<u8> {
    let mut bytes = label.into_bytes();
    bytes.push(0);
    bytes
}

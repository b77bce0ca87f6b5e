//! Plan of the next generation of a sysroot, computed from its deployments before any change.

use std::ffi::OsStr;

use super::signature_check::signature_check;
use super::tree_plan::{TreeChange, plan_tree_update};
use super::writable_paths::UnwritablePath;
use super::{adopted_copy, layering, writable_paths};
use crate::core::config::host_config::HostConfig;
use crate::core::config::layering::LayeringChange;
use crate::core::plan::drift::Drift;
use crate::core::plan::first_boot::{InstalledOs, is_for_first_boot_only};
use crate::core::plan::{Plan, PreflightCheck, first_boot};
use crate::core::state::installation::late_activation;
use crate::core::values::identifiers::GenerationId;
use crate::core::values::image::{ImageRef, ImageRefError};
use crate::core::values::kernel_arguments::KernelArguments;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::GENERATION_ARGUMENT;
use crate::core::values::refusal::{Refusal, RefusalList};
use crate::host::Root;
use crate::host::facts::tree_facts::{LocalMerging, TreeScope};
use crate::os::{Deployment, ImportRequest, ImportedCommit, Sysroot};
use crate::transaction::TransactionError;
use crate::transaction::plan::error::PlanError;
use crate::transaction::plan::target::{UpdateProgress, UpdatePurpose, UpdateTarget};
use crate::transaction::state::current::{CurrentState, CurrentStateError};
use crate::transaction::state::error::StateError;
use crate::transaction::state::{interrupted, settings};

/// SELinux configuration; only a deployment that has it needs a policy rebuild.
const SELINUX_CONFIG: &str = "/etc/selinux/config";

/// Planned deployment: the base to start from, and everything that changes.
#[derive(Debug)]
pub(crate) struct DeploymentPlan {
    pub(crate) base: Deployment,
    pub(crate) current: CurrentState,
    pub(crate) plan: Plan,
    /// Image to import; `None` if the base's commit is deployed again.
    pub(crate) image: Option<ImageRef>,
    /// Packages to install, remove or override.
    pub(crate) packages: LayeringChange,
    /// Kernel arguments of the new boot entry, without the generation argument.
    pub(crate) kernel_arguments: KernelArguments,
    pub(crate) kernel_arguments_change: bool,
    /// Desired arguments that were set before by an administrator or the installer: they stay when the
    /// config no longer lists them.
    pub(crate) taken_over: KernelArguments,
    /// Users, groups and directories that the base does not have. The image to import may have them, so they
    /// are checked again in the new deployment.
    pub(crate) unresolved: Option<RefusalList>,
}

impl DeploymentPlan {
    /// Import the OS image or package changes, if the plan needs any. Afterwards `image` is `Some` only if
    /// the new deployment gets another image than the base; an import equal to the base is dropped.
    pub(crate) fn import(
        &mut self,
        os: &mut dyn Sysroot,
        progress: &mut dyn FnMut(UpdateProgress),
    ) -> Result<Option<ImportedCommit>, TransactionError> {
        let imported = if self.is_same_os() {
            None
        } else {
            let wanted = self.import_request();
            Some(os.import(&wanted, &mut |step| progress(UpdateProgress::Pulling(step)))?)
        };
        let verdict = imported.as_ref().and_then(|imported| imported.signature.as_ref());
        if let (Some(image), Some(verdict)) = (&self.image, verdict.filter(|verdict| verdict.is_doubtful())) {
            log::warn!("signature of {}: {verdict}", image.name());
        }
        // A tag can still refer to the deployed image: the base's commit is deployed again then.
        let is_deployed = imported.as_ref().is_some_and(|imported| {
            let is_image = imported.manifest_digest == self.base.manifest_digest;
            is_image && self.image == self.base.image && self.packages.is_empty()
        });
        if let (true, Some(staged)) = (is_deployed, imported.as_ref().and_then(|made| made.staged.as_ref())) {
            os.unstage(staged)?;
        }
        self.image = self.image.take().filter(|_| !is_deployed);
        match (&self.image, self.unresolved.take()) {
            (None, Some(refusals)) => Err(refusals.into()),
            _ => Ok(imported.filter(|_| !is_deployed)),
        }
    }

    /// Fail if obstacles on the host prevent the plan.
    pub(crate) fn ensure_unobstructed(&self) -> Result<(), TransactionError> {
        Ok(PlanError::ensure_unobstructed(&self.plan)?)
    }

    /// Return true if the base already has the desired OS image and packages.
    pub(crate) fn is_same_os(&self) -> bool {
        self.image.is_none() && self.packages.is_empty()
    }

    /// Return the extensions image that rpm-ostreed needs to install packages, or to install them again on
    /// another OS.
    pub(crate) fn extensions_image<'a>(&self, target: UpdateTarget<'a>, os: &dyn Sysroot) -> Option<&'a str> {
        let desired = &target.desired.host.os;
        let has_packages = !self.base.layering.is_empty() || !self.packages.install.is_empty();
        let is_needed = os.layers_packages() && !self.is_same_os() && has_packages;
        desired.extensions_image.as_deref().filter(|_| is_needed)
    }

    /// Return the digest of the image to import, if the config pins one.
    pub(crate) fn digest(&self) -> Option<&str> {
        self.image.as_ref().and_then(ImageRef::digest)
    }

    /// Return the request for the image and packages to import.
    pub(crate) fn import_request(&self) -> ImportRequest {
        ImportRequest { image: self.image.clone(), packages: self.packages.clone() }
    }
}

/// Plan the next deployment of the sysroot. Writes nothing.
pub(crate) fn plan_deployment(
    os: &mut dyn Sysroot,
    target: UpdateTarget<'_>,
) -> Result<DeploymentPlan, TransactionError> {
    plan_deployment_after(os, target, CurrentState::load)
}

/// Plan the next deployment with a current state other than the recorded one, such as MCD's during
/// adoption.
pub(crate) fn plan_deployment_after(
    os: &mut dyn Sysroot,
    target: UpdateTarget<'_>,
    applied: impl FnOnce(&Root) -> Result<CurrentState, CurrentStateError>,
) -> Result<DeploymentPlan, TransactionError> {
    let sysroot = target.sysroot;
    let Some(base) = sysroot.base(os.deployments()?) else {
        return Err(StateError::NoDeployment(sysroot.display_name()).into());
    };
    let root = sysroot.open(&base.id)?;
    ensure_ready(&root, target)?;
    let current = applied(&root)?;
    let image = image_to_import(&base, &current, target)?;
    let mut desired = target.desired.host.clone();
    let mut before = current.host().cloned();
    // Where the deployed image stays, both sides are `None`: another name for the same image is no
    // difference.
    let deployed = image.as_ref().and(base.image.as_ref()).map(ToString::to_string);
    desired.os.image = image.as_ref().map(ToString::to_string);
    if let Some(before) = &mut before {
        before.os.image.clone_from(&deployed);
    }
    let existing = foreign_kernel_arguments(&base);
    if target.starts_first_boot(&current) {
        let (image, fips) = (deployed.as_ref(), sysroot.fips_mode().unwrap_or_default());
        before =
            Some(first_boot::applied(&desired, InstalledOs { image, kernel_arguments: &existing, fips }));
    }
    let before = before.as_ref();
    let (mut plan, unresolved) = plan_for_base(&root, &current, before, &desired, image.is_some(), target)?;
    plan.current_os.image = deployed;
    // The commit of a rollback contains its packages.
    let packages = if target.redeployed().is_some() {
        LayeringChange::default()
    } else {
        layering::plan_layering(&root, &base, &desired, image.as_ref(), os.layers_packages(), &mut plan)
    };
    let unresolved = refuse_unwritable(&root, target, image.is_some(), &mut plan, unresolved)?;
    check_preconditions(&root, &sysroot.program_path(), image.as_ref(), &mut plan)?;
    if let (true, Some(before), Some(tree)) = (target.starts_first_boot(&current), before, &plan.tree) {
        (plan.diff, plan.disruption) = first_boot::disruption(before, &desired, &tree.steps.steps);
    }
    warn_of_late_activation(&root, &desired, &mut plan)?;
    let (kernel_arguments, taken_over) = merge_kernel_arguments(&existing, before, &current, &desired);
    let kernel_arguments_change = kernel_arguments != existing;
    if let (true, false, Some(tree)) = (kernel_arguments_change, plan.diff.kernel_arguments, &mut plan.tree) {
        tree.drift.push(Drift::of_boot_entry(&existing.missing(&kernel_arguments)));
    }
    Ok(DeploymentPlan {
        base,
        current,
        plan,
        image,
        packages,
        kernel_arguments,
        kernel_arguments_change,
        taken_over,
        unresolved,
    })
}

/// Name paths that the next boot reads before the agent puts them in place, where it is a system extension.
fn warn_of_late_activation(
    root: &Root,
    desired: &HostConfig,
    plan: &mut Plan,
) -> Result<(), TransactionError> {
    if plan.disruption.reboots() && adopted_copy::activates_late(root)? {
        plan.warnings.extend(late_activation::warnings(desired));
    }
    Ok(())
}

/// Fail if a change was interrupted, or if the settings could not be used after the update. A first boot, a rollback and a
/// forced update must not fail for settings, which an update can mend afterwards.
fn ensure_ready(root: &Root, target: UpdateTarget<'_>) -> Result<(), TransactionError> {
    interrupted::ensure_not_interrupted(root)?;
    match target.purpose {
        UpdatePurpose::Update => settings::ensure_usable_after(root, &target.desired.host),
        UpdatePurpose::Forced | UpdatePurpose::FirstBoot | UpdatePurpose::Rollback(_) => Ok(()),
    }
}

/// Plan the changes of the base's tree. Names that the base cannot resolve are no error yet if an image is
/// imported: that image may define them.
fn plan_for_base(
    root: &Root,
    current: &CurrentState,
    before: Option<&HostConfig>,
    desired: &HostConfig,
    has_image: bool,
    target: UpdateTarget<'_>,
) -> Result<(Plan, Option<RefusalList>), TransactionError> {
    let (profile, scope) = (target.profile, target.sysroot.scope());
    let mut merging = target.merge_policies(current, root, root)?;
    if let Some(policies) = merging.as_mut().filter(|_| has_image) {
        // The image that is imported has settings too, so that staging decides which policies hold after the update.
        policies.after.clone_from(&policies.before);
    }
    let merging = LocalMerging::by(merging.as_ref(), root);
    let change = TreeChange { current, before, desired, profile, scope, merging };
    let (mut plan, unresolved) = match plan_tree_update(root, change) {
        Err(TransactionError::Plan(PlanError::Refused(refusals))) if has_image => {
            (Plan::between(before, desired, profile).map_err(PlanError::from)?, Some(refusals))
        }
        plan => (plan?, None),
    };
    if scope == TreeScope::Everything {
        plan.leave_out_obstructed(|path| root.is_changed_by_users(path));
    }
    target.overrule_conflicts(&mut plan, root);
    if let Some(mode) = target.sysroot.fips_mode() {
        plan.judge_fips(mode, desired);
    }
    match target.policy {
        Some(policy) => plan.apply_policy(policy, before, desired),
        // A rule holds once it is on the host, as a rule of a cluster does once the cluster has it.
        None => plan.apply_policy(&settings::settings_or_default(root).disruption.policy(), before, desired),
    }
    Ok((plan, unresolved))
}

/// Refuse paths that lead to a read-only directory of the base. Directories that the base lacks are no error
/// yet if an image is imported: they are added to `unresolved`.
fn refuse_unwritable(
    root: &Root,
    target: UpdateTarget<'_>,
    has_image: bool,
    plan: &mut Plan,
    unresolved: Option<RefusalList>,
) -> Result<Option<RefusalList>, TransactionError> {
    // The commit of a rollback is another one than the base's; its deployment is checked when it is made.
    if target.redeployed().is_some() {
        return Ok(unresolved);
    }
    let mut uncertain: Vec<Refusal> = unresolved.iter().flat_map(RefusalList::as_slice).cloned().collect();
    for UnwritablePath { refusal, is_certain } in writable_paths::find_unwritable(root, &target.desired.host)?
    {
        if is_certain || !has_image {
            plan.irreconcilable.push(refusal);
        } else {
            uncertain.push(refusal);
        }
    }
    Ok(RefusalList::or(uncertain, ()).err())
}

/// Return all kernel arguments of the new boot entry, and the desired ones among them that were already set
/// by others.
fn merge_kernel_arguments(
    existing: &KernelArguments,
    before: Option<&HostConfig>,
    current: &CurrentState,
    desired: &HostConfig,
) -> (KernelArguments, KernelArguments) {
    let listed = before.map(|before| &before.os.kernel_arguments);
    let owned = listed.map(|listed| listed.subtract(&previously_taken_over(current))).unwrap_or_default();
    let desired = &desired.os.kernel_arguments;
    (existing.updated(&owned, desired), existing.taken_over(&owned, desired))
}

/// Return the base's kernel arguments without the generation argument and those of a first boot.
fn foreign_kernel_arguments(base: &Deployment) -> KernelArguments {
    let mut arguments = base.kernel_arguments.clone();
    arguments.retain(|argument| {
        !argument.as_str().starts_with(GENERATION_ARGUMENT) && !is_for_first_boot_only(argument.as_str())
    });
    arguments
}

/// Return arguments that the current config lists and that were already set before it.
fn previously_taken_over(current: &CurrentState) -> KernelArguments {
    let applied = current.record.as_ref().and_then(|record| record.deployment.as_ref());
    applied.map(|applied| applied.taken_over.clone()).unwrap_or_default()
}

/// Return the image to import; `None` if the base deployment already has it.
fn image_to_import(
    base: &Deployment,
    current: &CurrentState,
    target: UpdateTarget<'_>,
) -> Result<Option<ImageRef>, TransactionError> {
    if target.redeployed().is_some() {
        return Ok(None);
    }
    let configured = target.desired.host.os.image.as_ref();
    let image = match (target.image, configured) {
        (Some(image), _) => image.clone(),
        (None, None) => return Ok(None),
        (None, Some(configured)) => {
            let applied = current.record.as_ref().and_then(|record| record.deployment.as_ref());
            if applied.is_some_and(|applied| applied.config_image.as_ref() == Some(configured)) {
                return Ok(None);
            }
            configured
                .parse()
                .map_err(|error: ImageRefError| RefusalList::one("spec.osImageURL", error.to_string()))?
        }
    };
    // A tag or directory can hold another image than last time, so only an import shows if it changed.
    let is_pinned = image.digest().is_some();
    let by_name = is_pinned && base.image.as_ref().is_some_and(|deployed| deployed.is_same_image(&image));
    let by_digest = is_pinned && image.digest() == base.manifest_digest.as_deref();
    Ok((!by_name && !by_digest).then_some(image))
}

/// Check that the programs exist that the update will start, and that the signature policy fits the image.
fn check_preconditions(
    root: &Root,
    path: &OsStr,
    image: Option<&ImageRef>,
    plan: &mut Plan,
) -> Result<(), TransactionError> {
    let has_policy = root.exists(&ManagedPath::constant(SELINUX_CONFIG))?;
    let programs = [
        (image.is_some(), "skopeo", "needed to pull images"),
        (has_policy, "bwrap", "needed by libostree to rebuild the deployment's SELinux policy (bubblewrap)"),
    ];
    let needed = programs.into_iter().filter(|(is_needed, ..)| *is_needed);
    if let Some(tree) = &mut plan.tree {
        tree.preflight = needed.map(|(_, program, purpose)| program_check(path, program, purpose)).collect();
        let demand = settings::settings(root).unwrap_or_default().image.signature.unwrap_or_default();
        tree.preflight.extend(image.map(|image| signature_check(image, demand)));
    }
    Ok(())
}

fn program_check(path: &OsStr, program: &'static str, purpose: &str) -> PreflightCheck {
    let found =
        std::env::split_paths(path).map(|directory| directory.join(program)).find(|file| file.is_file());
    let detail = match &found {
        Some(file) => format!("{}: {purpose}", file.display()),
        None => format!("{program} is not on the PATH, but {purpose}; install it"),
    };
    PreflightCheck { check: program, ok: found.is_some(), detail }
}

/// Return the generation of the base if the plan would not change it.
pub(crate) fn unchanged_generation(draft: &DeploymentPlan, target: UpdateTarget<'_>) -> Option<GenerationId> {
    let record = draft.current.record.as_ref()?;
    let is_its_own =
        record.names(&draft.base.id) && draft.base.generation() == Some(record.generation.as_str());
    let steps = draft.plan.tree.as_ref().is_some_and(|tree| !tree.steps.is_empty());
    let same = record.config_hash == target.desired.config_hash() && record.profile == target.profile;
    let unchanged = is_its_own && same && !steps && draft.is_same_os() && !draft.kernel_arguments_change;
    unchanged.then(|| record.generation.clone())
}

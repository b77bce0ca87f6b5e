//! What the next generation of a sysroot would be: decided from what is deployed, before anything is
//! done.

use crate::core::config::host_config::HostConfig;
use crate::core::config::layering::LayeringChange;
use crate::core::plan::first_boot;
use crate::core::plan::first_boot::{InstalledOs, is_for_first_boot_only};
use crate::core::plan::{Drift, Plan, PreflightCheck};
use crate::core::values::image::ImageRef;
use crate::core::values::kernel_arguments;
use crate::core::values::kernel_arguments::KernelArgument;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{GENERATION_ARGUMENT, RECORD};
use crate::core::values::refusal::{Refusal, RefusalList};
use crate::core::values::tree::DriftKind;
use crate::host::Root;
use crate::host::facts::boot;
use crate::os::{Deployment, ImportRequest, ImportedCommit, Sysroot};
use crate::transaction::state::interrupted;

use super::{layering, tree_plan};
use crate::transaction::TransactionError;
use crate::transaction::plan::target::{UpdateProgress, UpdateTarget};
use crate::transaction::state::current::{CurrentState, CurrentStateError};

/// Where a deployment says which SELinux policy it has.
const SELINUX_CONFIG: &str = "/etc/selinux/config";

/// The state of the sysroot that a plan starts from, and what it would become.
pub(crate) struct DeploymentPlan {
    pub(crate) base: Deployment,
    pub(crate) current: CurrentState,
    pub(crate) plan: Plan,
    /// The image to import; `None` where the base's commit is deployed again.
    pub(crate) image: Option<ImageRef>,
    /// What becomes of packages.
    pub(crate) packages: LayeringChange,
    /// All kernel arguments of the new boot entry but the generation's own.
    pub(crate) kernel_arguments: Vec<KernelArgument>,
    pub(crate) kernel_arguments_change: bool,
    /// Desired arguments that others had set.
    pub(crate) taken_over: Vec<KernelArgument>,
    /// Names that the base does not know. The new image may.
    pub(crate) unresolved: Option<RefusalList>,
}

impl DeploymentPlan {
    /// Brings the image in where one is wanted that is not deployed yet. From here on `image` says
    /// whether another one than the base's is deployed.
    pub(crate) fn import(
        &mut self,
        os: &mut dyn Sysroot,
        progress: &mut dyn FnMut(UpdateProgress),
    ) -> Result<Option<ImportedCommit>, TransactionError> {
        let imported = if self.is_same_os() {
            None
        } else {
            let wanted = self.wanted();
            Some(os.import(&wanted, &mut |step| progress(UpdateProgress::Pulling(step)))?)
        };
        // The same image by the same name: what is deployed stays what it is.
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

    /// Fails where something keeps it from being carried out.
    pub(crate) fn ensure_unhindered(&self) -> Result<(), TransactionError> {
        let obstacles = self.plan.obstacles();
        if obstacles.is_empty() { Ok(()) } else { Err(TransactionError::Obstructed(obstacles)) }
    }

    /// Whether the deployment that it is made from has the OS that is wanted, packages included.
    pub(crate) fn is_same_os(&self) -> bool {
        self.image.is_none() && self.packages.is_empty()
    }

    /// The image that packages are in which are installed, or installed again on another OS.
    pub(crate) fn extensions_image<'a>(&self, target: UpdateTarget<'a>, os: &dyn Sysroot) -> Option<&'a str> {
        let desired = &target.desired.host.os;
        let has_packages = !self.base.layering.is_empty() || !self.packages.install.is_empty();
        let is_needed = os.layers_packages() && !self.is_same_os() && has_packages;
        desired.extensions_image.as_deref().filter(|_| is_needed)
    }

    /// The digest of the image that is to be brought in, where it is pinned.
    pub(crate) fn digest(&self) -> Option<&str> {
        self.image.as_ref().and_then(ImageRef::digest)
    }

    /// What has to be brought in where it has not.
    pub(crate) fn wanted(&self) -> ImportRequest {
        ImportRequest { image: self.image.clone(), packages: self.packages.clone() }
    }
}

/// Looks at the sysroot and decides, without changing anything.
pub(crate) fn plan_deployment(
    os: &mut dyn Sysroot,
    target: UpdateTarget<'_>,
) -> Result<DeploymentPlan, TransactionError> {
    plan_deployment_after(os, target, CurrentState::load)
}

/// The same after what somebody else knows to have been applied last.
pub(crate) fn plan_deployment_after(
    os: &mut dyn Sysroot,
    target: UpdateTarget<'_>,
    applied: impl FnOnce(&Root) -> Result<CurrentState, CurrentStateError>,
) -> Result<DeploymentPlan, TransactionError> {
    let site = target.site;
    let Some(base) = site.base(os.deployments()?) else {
        return Err(TransactionError::NoDeployment(site.place()));
    };
    let root = site.open(&base.id)?;
    interrupted::ensure_not_interrupted(&root)?;
    let current = applied(&root)?;
    let image = image_to_import(&base, &current, target)?;
    let mut desired = target.desired.host.clone();
    let mut before = current.host().cloned();
    // What is compared is what the deployment is made of, not by which name a config calls it.
    let deployed = image.as_ref().and(base.image.as_ref()).map(ToString::to_string);
    desired.os.image = image.as_ref().map(ToString::to_string);
    if let Some(before) = &mut before {
        before.os.image.clone_from(&deployed);
    }
    let existing = foreign_kernel_arguments(&base);
    if target.begins_first_boot(&current) {
        let found = InstalledOs {
            image: deployed.as_ref(),
            kernel_arguments: &existing,
            fips: boot::is_in_fips_mode(),
        };
        before = Some(first_boot::applied(&desired, found));
    }
    let before = before.as_ref();
    let (mut plan, unresolved) = plan_for_base(&root, &current, before, &desired, image.is_some(), target)?;
    plan.current_os.image = deployed;
    let packages = match target.again() {
        // It has those that it had.
        Some(_) => LayeringChange::default(),
        None => {
            layering::plan_layering(&root, &base, &desired, image.as_ref(), os.layers_packages(), &mut plan)
        }
    };
    refuse_paths_in_the_image(&desired, &mut plan);
    check_programs(&root, image.is_some(), &mut plan)?;
    if let (true, Some(before), Some(tree)) = (target.begins_first_boot(&current), before, &plan.tree) {
        (plan.diff, plan.disruption) = first_boot::disruption(before, &desired, &tree.steps.steps);
    }
    let (kernel_arguments, taken_over) = merge_kernel_arguments(&existing, before, &current, &desired);
    let kernel_arguments_change = kernel_arguments != existing;
    if let (true, false, Some(tree)) = (kernel_arguments_change, plan.diff.kernel_arguments, &mut plan.tree) {
        let path = ManagedPath::constant(RECORD);
        tree.drift.push(Drift { path, kind: DriftKind::KernelArguments });
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

/// Plans for the base. What it cannot resolve may be known to the image that is to be brought in.
fn plan_for_base(
    root: &Root,
    current: &CurrentState,
    before: Option<&HostConfig>,
    desired: &HostConfig,
    has_image: bool,
    target: UpdateTarget<'_>,
) -> Result<(Plan, Option<RefusalList>), TransactionError> {
    let (profile, reach) = (target.profile, target.site.reach());
    let (mut plan, unresolved) =
        match tree_plan::plan_tree_update(root, current, before, desired, profile, reach) {
            Err(TransactionError::Refused(refusals)) if has_image => {
                (Plan::between(before, desired, profile), Some(refusals))
            }
            plan => (plan?, None),
        };
    plan.apply_policy(target.policy, before, desired);
    Ok((plan, unresolved))
}

/// All arguments of the new boot entry, and those of the desired ones that others had set.
fn merge_kernel_arguments(
    existing: &[KernelArgument],
    before: Option<&HostConfig>,
    current: &CurrentState,
    desired: &HostConfig,
) -> (Vec<KernelArgument>, Vec<KernelArgument>) {
    let listed = before.map(|before| before.os.kernel_arguments.as_slice()).unwrap_or_default();
    let (owned, wanted) =
        (kernel_arguments::less(listed, &previously_taken_over(current)), &desired.os.kernel_arguments);
    (
        kernel_arguments::apply(existing, &owned, wanted),
        kernel_arguments::taken_over(existing, &owned, wanted),
    )
}

/// The arguments of the base's boot entry that are nobody's name and not about a first boot.
fn foreign_kernel_arguments(base: &Deployment) -> Vec<KernelArgument> {
    let is_kept =
        |argument: &&String| !argument.starts_with(GENERATION_ARGUMENT) && !is_for_first_boot_only(argument);
    base.kernel_arguments
        .iter()
        .filter(is_kept)
        .flat_map(|argument| kernel_arguments::parse(argument))
        .collect()
}

/// What the last generation lists, and others had set before.
fn previously_taken_over(current: &CurrentState) -> Vec<KernelArgument> {
    let applied = current.record.as_ref().and_then(|record| record.deployment.as_ref());
    applied
        .iter()
        .flat_map(|applied| &applied.taken_over)
        .flat_map(|text| kernel_arguments::parse(text))
        .collect()
}

/// The image to import, unless the base deployment is that image already.
fn image_to_import(
    base: &Deployment,
    current: &CurrentState,
    target: UpdateTarget<'_>,
) -> Result<Option<ImageRef>, TransactionError> {
    if target.again().is_some() {
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
            configured.parse().map_err(|error: crate::core::values::image::ImageRefError| {
                RefusalList::one("spec.osImageURL", error.to_string())
            })?
        }
    };
    // A tag or a directory can hold another image than last time: only asking tells.
    let is_pinned = image.digest().is_some();
    let by_name = is_pinned && base.image.as_ref().is_some_and(|deployed| deployed.is_same_image(&image));
    let by_digest = is_pinned && image.digest() == base.manifest_digest.as_deref();
    Ok((!by_name && !by_digest).then_some(image))
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
fn check_programs(root: &Root, imports: bool, plan: &mut Plan) -> Result<(), TransactionError> {
    let has_policy = root.exists(&ManagedPath::constant(SELINUX_CONFIG))?;
    let programs = [
        (imports, "skopeo", "images are pulled with it"),
        (has_policy, "bwrap", "libostree rebuilds the deployment's SELinux policy in it (bubblewrap)"),
    ];
    let needed = programs.into_iter().filter(|(is_needed, ..)| *is_needed);
    if let Some(tree) = &mut plan.tree {
        tree.preflight = needed.map(|(_, program, purpose)| program_check(program, purpose)).collect();
    }
    Ok(())
}

fn program_check(program: &'static str, purpose: &str) -> PreflightCheck {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file());
    let detail = match &found {
        Some(file) => format!("{}: {purpose}", file.display()),
        None => format!("{program} is not on the PATH, and {purpose}; install it"),
    };
    PreflightCheck { check: program, ok: found.is_some(), detail }
}

/// The name of the generation that the default deployment already is.
pub(crate) fn unchanged_generation(draft: &DeploymentPlan, target: UpdateTarget<'_>) -> Option<String> {
    let record = draft.current.record.as_ref()?;
    let name = format!("{GENERATION_ARGUMENT}{}", record.generation);
    let is_its_own = record.names(&draft.base.id) && draft.base.kernel_arguments.contains(&name);
    let steps = draft.plan.tree.as_ref().is_some_and(|tree| !tree.steps.is_empty());
    let same = record.config_hash == target.desired.hash() && record.profile == target.profile;
    let unchanged = is_its_own && same && !steps && draft.is_same_os() && !draft.kernel_arguments_change;
    unchanged.then(|| record.generation.clone())
}

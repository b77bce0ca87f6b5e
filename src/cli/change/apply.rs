//! `flameholder apply`: make a host, a tree or a sysroot match the desired config.

use std::path::Path;

use clap::{Args, ValueEnum};

use crate::cli::change::change_report::{ChangeArgs, ChangeReport};
use crate::cli::change::running_host;
use crate::cli::desired_args::DesiredArgs;
use crate::cli::input::open_to_change;
use crate::cli::lock_wait::LockWaitArgs;
use crate::cli::os_backend::OsBackendArgs;
use crate::cli::output::progress::ProgressDisplay;
use crate::cli::output::words::counted;
use crate::cli::{CliError, CommandOutcome, TargetArgs};
use crate::core::plan::drift::Drift;
use crate::core::plan::{Plan, TreePlan};
use crate::core::state::record::GenerationRecord;
use crate::core::values::identifiers::GenerationId;
use crate::core::values::image::ImageRef;
use crate::core::values::profile::Profile;
use crate::host::LockedRoot;
use crate::host::facts::boot;
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::report::change::{ChangeResult, RebootOutlook};
use crate::transaction::plan::target::{TargetSysroot, UpdatePurpose, UpdateTarget};
use crate::transaction::state::current::DecodedConfig;
use crate::transaction::update::{offline_sysroot, plain_tree};

/// Left-out items that a summary names; it counts the others.
const LISTED: usize = 4;

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    desired: DesiredArgs,
    #[command(flatten)]
    pub(crate) place: TargetArgs,
    #[command(flatten)]
    os_backend: OsBackendArgs,
    #[command(flatten)]
    switch: SwitchArgs,
    /// Unlock the staged deployment, and reboot if --reboot says so, although a reboot policy is set: it has no grant
    #[arg(long)]
    override_policy: bool,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// Switch of the running host to a staged deployment.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct SwitchArgs {
    /// Reboot the running host into the staged deployment; without effect on a tree or on a sysroot that is not booted
    #[arg(long, value_enum, default_value_t)]
    pub(crate) reboot: RebootMode,
    /// Keep the staged deployment locked: no reboot switches to it until the same command is called without this
    #[arg(long)]
    pub(crate) locked: bool,
    /// Go on although the daemon of this host follows a source that desires another config
    #[arg(long)]
    pub(crate) override_source: bool,
}

impl SwitchArgs {
    /// Refuse a reboot into a deployment that no reboot switches to.
    pub(crate) fn ensure_consistent(self) -> Result<(), CliError> {
        if self.locked && self.reboot != RebootMode::Never {
            let reason =
                "--locked keeps reboots from switching to the staged deployment: call it without --reboot";
            return Err(CliError::Usage(reason.to_owned()));
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RebootMode {
    /// Never: any later reboot switches to the staged deployment
    #[default]
    Never,
    /// If the change needs it; inhibitor locks are waited for, and after ten minutes (setting
    /// `reboot.inhibitor-timeout`) the command fails
    Auto,
    /// If the change needs it; inhibitor locks are overruled after that time
    Insist,
}

/// Update of the running host that the operator asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UpdateRequest<'a> {
    pub(crate) desired: &'a DecodedConfig,
    /// OS image in place of the one that the config names.
    pub(crate) image: Option<&'a ImageRef>,
    pub(crate) profile: Profile,
    pub(crate) os_backend: OsBackendArgs,
    pub(crate) wait: LockWaitArgs,
    /// True if the update needs no grant of the reboot policy.
    pub(crate) override_policy: bool,
}

pub(crate) fn run(args: &ApplyArgs) -> Result<CommandOutcome, CliError> {
    args.switch.ensure_consistent()?;
    let is_of_host = args.place.root.is_none() && args.place.sysroot.is_none();
    let is_target = is_of_host && boot::is_booted_ostree(Path::new("/"));
    let desired = args.desired.load(is_target)?;
    let report = ChangeReport::begin("apply", args.change);
    match (&args.place.root, &args.place.sysroot) {
        (Some(root), _) => apply_to_tree(root, &desired, args, report),
        (None, Some(sysroot)) => apply_to_sysroot(sysroot, &desired, args, report),
        (None, None) => {
            let image = args.desired.image()?;
            let request = UpdateRequest {
                desired: &desired,
                image: image.as_ref(),
                profile: args.desired.profile(),
                os_backend: args.os_backend,
                wait: args.change.wait,
                override_policy: args.override_policy,
            };
            running_host::apply(request, args.switch, report)
        }
    }
}

fn apply_to_tree(
    path: &Path,
    desired: &DecodedConfig,
    args: &ApplyArgs,
    mut report: ChangeReport,
) -> Result<CommandOutcome, CliError> {
    let root = open_to_change(path)?;
    let locked = args.change.wait.wait_for(|| LockedRoot::lock(&root))?;
    report.start_clock();
    let applied = plain_tree::apply(&locked, desired, args.desired.profile())?;
    let plan = &applied.plan;
    let result = if applied.changed { ChangeResult::Applied } else { ChangeResult::Unchanged };
    report.resulted(result, &desired.object.name, &applied.generation);
    let text = if applied.changed {
        format!("applied {}\n{}", report.changed(plan), restored(plan, true))
    } else {
        nothing_to_do(desired, &applied.generation)
    };
    report.end(&(text + &unapplied(plan, &args.place.as_option())))
}

fn apply_to_sysroot(
    sysroot: &Path,
    desired: &DecodedConfig,
    args: &ApplyArgs,
    mut report: ChangeReport,
) -> Result<CommandOutcome, CliError> {
    let image = args.desired.image()?;
    let worker = WorkerProgram::locate()?;
    let mut session =
        args.change.wait.wait_for(|| WorkerSession::open(&worker, sysroot, SysrootAccess::Write))?;
    report.start_clock();
    let target = UpdateTarget {
        sysroot: TargetSysroot::Offline(sysroot),
        desired,
        image: image.as_ref(),
        purpose: UpdatePurpose::Update,
        profile: args.desired.profile(),
        policy: None,
    };
    let mut progress = ProgressDisplay::start("plan");
    let generated = offline_sysroot::apply(&mut session, sysroot, target, &mut |stage| progress.show(&stage));
    progress.finish(generated.is_ok());
    let generated = generated?;
    let (generation, plan) = (&generated.generation, &generated.plan);
    report.resulted(ChangeResult::Unchanged, &desired.object.name, generation);
    let text = match &generated.deployment {
        Some(deployment) => {
            report.document.result = ChangeResult::Applied;
            report.document.deployment = Some(deployment.id.to_string());
            report.document.reboot = RebootOutlook::Outstanding;
            let applied = report.changed(plan);
            format!("applied {applied}\ndeployment {} boots next\n{}", deployment.id, restored(plan, false))
        }
        None => nothing_to_do(desired, generation),
    };
    report.end(&(text + &unapplied(plan, &args.place.as_option())))
}

fn nothing_to_do(desired: &DecodedConfig, generation: &GenerationId) -> String {
    let name = &desired.object.name;
    format!("nothing to do: {name} is applied already (generation {})\n", generation.shown())
}

/// List the local changes that were kept, and those that were undone, and where the local versions of the files are. `keeps` is false where the previous
/// deployment has them.
pub(crate) fn restored(plan: &Plan, keeps: bool) -> String {
    let Some(tree) = &plan.tree else { return String::new() };
    merged(tree) + &undone(tree, keeps)
}

/// List the files that keep local changes.
fn merged(tree: &TreePlan) -> String {
    let merged = &tree.merges.merged;
    if merged.is_empty() {
        return String::new();
    }
    let lines: String = merged.iter().map(|path| format!("  {path}\n")).collect();
    format!("local changes kept, as the drift policy `merge` says, {}:\n{lines}", merged.len())
}

fn undone(tree: &TreePlan, keeps: bool) -> String {
    let (restored, replaced) = (tree.restored(), tree.replaced());
    if restored.is_empty() {
        return String::new();
    }
    let line = |drift: &&Drift| {
        let is_kept = keeps && replaced.contains(&&drift.path);
        let kept = is_kept.then(|| GenerationRecord::undone_of(&drift.path));
        let kept = kept.map(|kept| format!("; the local version is kept as {kept}")).unwrap_or_default();
        format!("  {}  {}{kept}\n", drift.path, drift.description())
    };
    let lines: String = restored.iter().map(line).collect();
    let paths = counted(restored.len(), "managed path");
    let place = if keeps { "are undone" } else { "are not in the new deployment" };
    format!("local changes of {paths} {place}:\n{lines}")
}

/// List the parts of a config that were not applied, those that activation applies, and warnings.
/// `option` names the target to another command.
pub(crate) fn unapplied(plan: &Plan, option: &str) -> String {
    let status = format!("flameholder status{option} -o json");
    listed("not supported here, and left out", &plan.unsupported, &status)
        + &listed("put in place when the generation is activated", &plan.deferred, &status)
        + &listed("warnings", &plan.warnings, &format!("flameholder plan{option} --desired FILE"))
}

/// List at most [`LISTED`] items below a heading. `command` lists the others.
fn listed(heading: &str, items: &[String], command: &str) -> String {
    if items.is_empty() {
        return String::new();
    }
    let lines: String = items.iter().take(LISTED).map(|item| format!("  {item}\n")).collect();
    let more = match items.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!("  and {more} more; `{command}` lists them\n"),
    };
    format!("{heading}:\n{lines}{more}")
}

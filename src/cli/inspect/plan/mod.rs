//! `flameholder plan`: show what applying the desired config would change, why, and what it would disrupt.

mod plan_changes;
mod plan_explanation;
mod plan_text;

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use crate::cli::desired_args::DesiredArgs;
use crate::cli::input::{load_applied_configuration, load_document};
use crate::cli::inspect::contents::ContentArgs;
use crate::cli::inspect::plan::plan_explanation::PathExplanation;
use crate::cli::inspect::plan::plan_text::{PlanAudience, PlanDetail};
use crate::cli::os_backend::OsBackendArgs;
use crate::cli::output::terminal::print_styled;
use crate::cli::{CliError, CommandOutcome, OutputArgs, OutputFormat, TargetArgs, session};
use crate::core::config::machine_configuration;
use crate::core::config::policy::DisruptionPolicy;
use crate::core::plan::Plan;
use crate::core::state::blocked::{BlockedTarget, TargetIdentity};
use crate::core::values::causes::chain;
use crate::core::values::names::ManagedPath;
use crate::core::values::refusal::RefusalList;
use crate::core::values::tree::PathState;
use crate::host::Root;
use crate::os::Sysroot;
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::report::plan::PlanDocument;
use crate::transaction::TransactionError;
use crate::transaction::plan::target::{TargetSysroot, UpdatePurpose, UpdateTarget};
use crate::transaction::state::blocked;
use crate::transaction::state::current::{CurrentState, DecodedConfig};
use crate::transaction::state::settings::settings_or_default;
use crate::transaction::update::update_plan::PlannedUpdate;
use crate::transaction::update::{plain_tree, update_plan};

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    desired: DesiredArgs,
    #[command(flatten)]
    pub(crate) place: TargetArgs,
    /// The current config, compared instead of the one that was applied last
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    current: Option<PathBuf>,
    #[command(flatten)]
    os_backend: OsBackendArgs,
    /// Take the node disruption policy from this MachineConfiguration
    #[arg(long, value_name = "FILE", conflicts_with = "first_boot")]
    policy: Option<PathBuf>,
    /// Use the machine-config-daemon's built-in disruption table, as on a first boot
    #[arg(long)]
    first_boot: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Exit with 2 if `apply` would change the disk, drift that it undoes included
    #[arg(long)]
    exit_code: bool,
    /// Show the verdict and counts, and no paths
    #[arg(long, conflicts_with_all = ["diff", "show_contents"])]
    summary: bool,
    /// Show also at which lines contents change; with --show-contents, the lines
    #[arg(long)]
    diff: bool,
    #[command(flatten)]
    contents: ContentArgs,
    /// Ask the registry how much of a new OS image the update fetches; needs network
    #[arg(long, conflicts_with_all = ["root", "current"])]
    fetch_size: bool,
    /// Explain this path instead: each source that names it, which one wins, and what becomes of it
    #[arg(
        long,
        value_name = "PATH",
        value_parser = ManagedPath::parse,
        value_hint = ValueHint::AnyPath,
        conflicts_with_all = ["summary", "diff", "show_contents", "format"]
    )]
    explain: Option<ManagedPath>,
}

impl PlanArgs {
    fn detail(&self) -> Result<PlanDetail, CliError> {
        Ok(match (self.contents.are_shown()?, self.diff, self.summary) {
            (true, ..) => PlanDetail::Contents,
            (false, true, _) => PlanDetail::LineNumbers,
            (false, false, true) => PlanDetail::Summary,
            (false, false, false) => PlanDetail::Paths,
        })
    }

    /// Return the command that applies the plan; `None` where it would read another document or compare with another
    /// config.
    fn apply_command(&self) -> Option<String> {
        let options = self.desired.as_options().filter(|_| self.current.is_none())?;
        let words = ["flameholder", "apply"].map(str::to_owned).into_iter();
        let words: Vec<_> =
            words.chain(self.place.as_options()).chain(options).chain(self.os_backend.arguments()).collect();
        shlex::try_join(words.iter().map(String::as_str)).ok()
    }
}

pub(crate) fn run(args: &PlanArgs) -> Result<CommandOutcome, CliError> {
    let detail = args.detail()?;
    let desired = args.desired.load(false)?;
    let asked = args.current.as_deref().map(load_applied_configuration).transpose()?;
    let policy = load_policy(args)?;
    let (mut plan, current) = match (&args.place.root, &args.place.sysroot) {
        (Some(root), _) => on_tree(root, asked, &desired, args)?,
        (None, Some(_)) if asked.is_some() => {
            let reason =
                "--current cannot be given with --sysroot: its deployments record their current config";
            return Err(CliError::Usage(reason.to_owned()));
        }
        (None, Some(sysroot)) => on_sysroot(sysroot, &desired, args)?,
        (None, None) => on_running(asked, &desired, args)?,
    };
    if let Some(policy) = policy {
        plan.apply_policy(&policy, current.as_ref().map(|configuration| &configuration.host), &desired.host);
    }
    let TargetArgs { root, sysroot } = &args.place;
    let is_hypothetical = root.is_some() || sysroot.is_some() || plan.etc.is_none();
    match args.output.format {
        OutputFormat::Document(notation) => notation.print(&PlanDocument::of(&plan, is_hypothetical))?,
        OutputFormat::Text => {
            let before = current.as_ref().map(|configuration| &configuration.host);
            if let Some(path) = &args.explain {
                let is_in_image = is_in_image(&args.place, path)?;
                let explained = PathExplanation {
                    path,
                    plan: &plan,
                    current: before,
                    desired: &desired.host,
                    is_in_image,
                };
                print_styled(&explained.render())?;
                return Ok(CommandOutcome::Success);
            }
            let audience = PlanAudience { detail, is_hypothetical, apply: args.apply_command() };
            print_styled(&plan_text::render(&plan, before, &desired.host, &audience))?;
        }
    }
    Ok(if !plan.obstacles().is_empty() {
        CommandOutcome::Irreconcilable
    } else if args.exit_code && plan.changes_host() {
        CommandOutcome::Differences
    } else {
        CommandOutcome::Success
    })
}

/// Return true if the image brings `path`, as `/usr/etc` has it; `None` where no tree is at hand.
fn is_in_image(place: &TargetArgs, path: &ManagedPath) -> Result<Option<bool>, CliError> {
    let root = match place {
        TargetArgs { sysroot: Some(_), .. } => return Ok(None),
        TargetArgs { root, .. } => Root::open(root.as_deref().unwrap_or(Path::new("/")))?,
    };
    let Ok(vendor) = ManagedPath::parse(&format!("/usr{path}")) else { return Ok(None) };
    Ok(Some(path.is_within("/etc") && root.path_state(&vendor)? != PathState::Absent))
}

fn load_policy(args: &PlanArgs) -> Result<Option<DisruptionPolicy>, CliError> {
    let Some(file) = &args.policy else {
        return Ok(args.first_boot.then(DisruptionPolicy::legacy));
    };
    let bytes = load_document(file)?;
    let refused = |source: RefusalList| CliError::Refused {
        file: file.display().to_string(),
        source: source.placed_in(&bytes),
    };
    machine_configuration::parse_policy(&bytes).map(Some).map_err(refused)
}

fn on_tree(
    path: &Path,
    asked: Option<DecodedConfig>,
    desired: &DecodedConfig,
    args: &PlanArgs,
) -> Result<(Plan, Option<DecodedConfig>), CliError> {
    let root = Root::open(path)?;
    let current = CurrentState::load(&root).map_err(TransactionError::from)?;
    let before = asked.or(current.configuration);
    let host = before.as_ref().map(|configuration| &configuration.host);
    let plan = plain_tree::plan(&root, host, &desired.host, args.desired.profile())?;
    Ok((plan, before))
}

/// Plan for the running host. Only the configs are compared if the current one is given, or if the host was not
/// booted through OSTree.
fn on_running(
    asked: Option<DecodedConfig>,
    desired: &DecodedConfig,
    args: &PlanArgs,
) -> Result<(Plan, Option<DecodedConfig>), CliError> {
    let running = if asked.is_none() { session::running_host_if_any()? } else { None };
    let Some(host) = running else {
        if args.fetch_size {
            let reason = "--fetch-size needs a host that was booted through OSTree, or --sysroot DIR";
            return Err(CliError::Usage(reason.to_owned()));
        }
        let before = asked.as_ref().map(|configuration| &configuration.host);
        let plan = Plan::between(before, &desired.host, args.desired.profile())
            .map_err(|source| CliError::Refused { file: args.desired.shown(), source })?;
        return Ok((plan, asked));
    };
    let settings = settings_or_default(&host.root);
    let mut session = args.os_backend.opener(&settings)(SysrootAccess::Read)?;
    let (mut plan, before) = on_deployments(&mut *session, TargetSysroot::Running(&host), desired, args)?;
    let (config_hash, layered_image) = (&desired.config_hash(), desired.layered_image.as_deref());
    let target = TargetIdentity { config_hash, layered_image };
    let blocked = blocked::load(&host.root).unwrap_or_default();
    if let Some(blocked) = blocked.filter(|blocked| blocked.identity() == target) {
        let BlockedTarget { config, reason, .. } = blocked;
        plan.warnings.push(format!("{config} is blocked: {reason}; `flameholder retry` releases it"));
    }
    Ok((plan, before))
}

fn on_sysroot(
    sysroot: &Path,
    desired: &DecodedConfig,
    args: &PlanArgs,
) -> Result<(Plan, Option<DecodedConfig>), CliError> {
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, sysroot, SysrootAccess::Read)?;
    on_deployments(&mut session, TargetSysroot::Offline(sysroot), desired, args)
}

fn on_deployments(
    os: &mut dyn Sysroot,
    sysroot: TargetSysroot<'_>,
    desired: &DecodedConfig,
    args: &PlanArgs,
) -> Result<(Plan, Option<DecodedConfig>), CliError> {
    let image = args.desired.image()?;
    let target = UpdateTarget {
        sysroot,
        desired,
        image: image.as_ref(),
        purpose: UpdatePurpose::Update,
        profile: args.desired.profile(),
        policy: None,
    };
    let PlannedUpdate { mut plan, before, image } = update_plan::plan(os, target)?;
    if let Some(image) = image.filter(|_| args.fetch_size) {
        // The plan is true without the size.
        match os.measure(&image) {
            Ok(size) => plan.fetch = Some(size),
            Err(error) => plan.warnings.push(format!("the size of the image is unknown: {}", chain(&error))),
        }
    }
    Ok((plan, before))
}

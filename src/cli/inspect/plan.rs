//! `flameholder plan`

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::input::{load_configuration, load_document, print_json};
use crate::cli::inspect::plan_text;
use crate::cli::os_backend::OsBackend;
use crate::cli::output::paint::Paint;
use crate::cli::output::terminal::print_text;
use crate::cli::session;
use crate::cli::{CliError, Format, Place, ProfileName, Verdict};
use crate::core::config::machine_configuration;
use crate::core::config::policy::DisruptionPolicy;
use crate::core::plan::Plan;
use crate::host::Root;
use crate::host::facts::booted::BootedDeployment;
use crate::os::Sysroot;
use crate::os::protocol::Access;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::report::plan::PlanDocument;
use crate::transaction::TransactionError;
use crate::transaction::plan::target::{Errand, Site, Target};
use crate::transaction::state::current::{Configuration, Current};
use crate::transaction::update::offline_sysroot;
use crate::transaction::update::plain_tree;

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    place: Place,
    /// The configuration to go from; what was applied last where it is not given
    #[arg(long, value_name = "FILE")]
    current: Option<PathBuf>,
    /// The configuration to go to, `-` for standard input
    #[arg(long, value_name = "FILE")]
    desired: PathBuf,
    /// An OS image that stands in for the configuration's own
    #[arg(long, value_name = "REF", conflicts_with = "root")]
    os_image: Option<String>,
    /// Whose verdicts apply
    #[arg(long, value_enum, default_value_t)]
    profile: ProfileName,
    #[command(flatten)]
    os_backend: OsBackend,
    /// A MachineConfiguration whose node disruption policy decides what a change interrupts
    #[arg(long, value_name = "FILE", conflicts_with = "first_boot")]
    policy: Option<PathBuf>,
    /// Decide by the table that holds on a first boot, before a policy is known
    #[arg(long)]
    first_boot: bool,
    /// How the plan is written
    #[arg(short, long = "output", value_enum, default_value_t)]
    output: Format,
    /// Exit with 2 when there are differences
    #[arg(long)]
    exit_code: bool,
    /// Show the content of files that look secret
    #[arg(long)]
    show_secrets: bool,
}

pub(crate) fn run(args: &PlanArgs) -> Result<Verdict, CliError> {
    let desired = load_configuration(&args.desired)?;
    let asked = args.current.as_deref().map(load_configuration).transpose()?;
    let policy = load_policy(args)?;
    let (mut plan, current) = match (&args.place.root, &args.place.sysroot) {
        (Some(root), _) => on_tree(root, asked, &desired, args)?,
        (None, Some(_)) if asked.is_some() => {
            let reason = "--current cannot be given with --sysroot, whose deployments say what they are";
            return Err(CliError::Usage(reason.to_owned()));
        }
        (None, Some(sysroot)) => on_sysroot(sysroot, &desired, args)?,
        (None, None) if asked.is_none() && BootedDeployment::look()?.is_some() => on_running(&desired, args)?,
        (None, None) => {
            let before = asked.as_ref().map(|configuration| &configuration.host);
            (Plan::between(before, &desired.host, args.profile.into()), asked)
        }
    };
    if let Some(policy) = policy {
        plan.judge_by(&policy, current.as_ref().map(|configuration| &configuration.host), &desired.host);
    }
    match args.output {
        Format::Json => print_json(&PlanDocument::of(&plan))?,
        Format::Text => {
            let before = current.as_ref().map(|configuration| &configuration.host);
            let text =
                plan_text::render(&plan, before, &desired.host, args.show_secrets, Paint::for_stdout());
            print_text(&text)?;
        }
    }
    Ok(if !plan.hindrances().is_empty() {
        Verdict::Irreconcilable
    } else if args.exit_code && plan.has_differences() {
        Verdict::Differences
    } else {
        Verdict::Fine
    })
}

fn load_policy(args: &PlanArgs) -> Result<Option<DisruptionPolicy>, CliError> {
    let Some(file) = &args.policy else {
        return Ok(args.first_boot.then(DisruptionPolicy::legacy));
    };
    let refused = |source| CliError::Refused { file: file.display().to_string(), source };
    let bytes = load_document(file)?;
    machine_configuration::parse_policy(&bytes).map(Some).map_err(refused)
}

fn on_tree(
    path: &Path,
    asked: Option<Configuration>,
    desired: &Configuration,
    args: &PlanArgs,
) -> Result<(Plan, Option<Configuration>), CliError> {
    let root = Root::open(path)?;
    let current = Current::load(&root).map_err(TransactionError::from)?;
    let before = asked.or(current.configuration);
    let host = before.as_ref().map(|configuration| &configuration.host);
    let plan = plain_tree::plan(&root, host, &desired.host, args.profile.into())?;
    Ok((plan, before))
}

fn on_running(desired: &Configuration, args: &PlanArgs) -> Result<(Plan, Option<Configuration>), CliError> {
    let booted = session::booted()?;
    let mut session = args.os_backend.sessions()(Access::Read)?;
    on_deployments(&mut *session, Site::Running(&booted), desired, args)
}

fn on_sysroot(
    sysroot: &Path,
    desired: &Configuration,
    args: &PlanArgs,
) -> Result<(Plan, Option<Configuration>), CliError> {
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, sysroot, Access::Read)?;
    on_deployments(&mut session, Site::AtRest(sysroot), desired, args)
}

fn on_deployments(
    os: &mut dyn Sysroot,
    site: Site<'_>,
    desired: &Configuration,
    args: &PlanArgs,
) -> Result<(Plan, Option<Configuration>), CliError> {
    let image = args.os_image.as_deref().map(str::parse).transpose()?;
    let target = Target {
        site,
        desired,
        image: image.as_ref(),
        errand: Errand::Update,
        profile: args.profile.into(),
        policy: &DisruptionPolicy::default(),
    };
    let planned = offline_sysroot::plan(os, target)?;
    Ok((planned.plan, planned.before))
}

//! `flameholder apply`

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::cli::change::running_host;
use crate::cli::input::{load_configuration, open_to_change};
use crate::cli::os_backend::OsBackend;
use crate::cli::output::progress::Progress;
use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, Place, ProfileName, Verdict};
use crate::core::config::policy::DisruptionPolicy;
use crate::os::protocol::Access;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::transaction::plan::target::{Errand, Site, Target};
use crate::transaction::state::current::Configuration;
use crate::transaction::update::offline_sysroot;
use crate::transaction::update::offline_sysroot::Generated;
use crate::transaction::update::plain_tree;
use crate::transaction::update::plain_tree::Applied;

/// How many left-out parts a summary names.
const LISTED: usize = 4;

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    place: Place,
    /// The configuration to apply, `-` for standard input
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
    /// Whether the running host is rebooted into the result; neither a tree nor a sysroot at rest ever is
    #[arg(long, value_enum, default_value_t)]
    reboot: Reboot,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reboot {
    /// Where the plan needs it, once nobody blocks it; given up after ten minutes
    #[default]
    Auto,
    /// The same, and after ten minutes whoever still blocks it is overruled
    Insist,
    /// Not now: it is staged, and boots once this is called again
    Never,
}

pub(crate) fn run(args: &ApplyArgs) -> Result<Verdict, CliError> {
    let desired = load_configuration(&args.desired)?;
    match (&args.place.root, &args.place.sysroot) {
        (Some(root), _) => on_tree(root, &desired, args),
        (None, Some(sysroot)) => on_sysroot(sysroot, &desired, args),
        (None, None) => {
            let image = args.os_image.as_deref();
            running_host::apply(&desired, image, args.profile.into(), args.reboot, args.os_backend)
        }
    }
}

fn on_tree(path: &Path, desired: &Configuration, args: &ApplyArgs) -> Result<Verdict, CliError> {
    let root = open_to_change(path)?;
    let applied = plain_tree::apply(&root, desired, args.profile.into())?;
    print_text(&summary_of_tree(&applied, desired))?;
    Ok(Verdict::Fine)
}

fn summary_of_tree(applied: &Applied, desired: &Configuration) -> String {
    let name = &desired.object.name;
    let mut text = if applied.changed {
        format!("applied {name} as generation {}\n", applied.generation)
    } else {
        format!("nothing to do: {name} is applied already (generation {})\n", applied.generation)
    };
    text.push_str(&left_out(&applied.plan.left_out));
    text
}

fn on_sysroot(sysroot: &Path, desired: &Configuration, args: &ApplyArgs) -> Result<Verdict, CliError> {
    let image = args.os_image.as_deref().map(str::parse).transpose()?;
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, sysroot, Access::Write)?;
    let target = Target {
        site: Site::AtRest(sysroot),
        desired,
        image: image.as_ref(),
        errand: Errand::Update,
        profile: args.profile.into(),
        policy: &DisruptionPolicy::default(),
    };
    let mut progress = Progress::start();
    let generated = offline_sysroot::apply(&mut session, sysroot, target, &mut |stage| progress.show(&stage));
    progress.finish();
    print_text(&summary_of_sysroot(&generated?, desired))?;
    Ok(Verdict::Fine)
}

fn summary_of_sysroot(generated: &Generated, desired: &Configuration) -> String {
    let (name, generation) = (&desired.object.name, &generated.generation);
    let mut text = match &generated.deployment {
        Some(deployment) => format!(
            "applied {name} as generation {generation}\nit boots next: deployment {}\n",
            deployment.id
        ),
        None => format!("nothing to do: {name} is applied already (generation {generation})\n"),
    };
    text.push_str(&left_out(&generated.plan.left_out));
    text
}

/// What was left out, the first few by name.
pub(crate) fn left_out(items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let lines: String = items.iter().take(LISTED).map(|item| format!("  {item}\n")).collect();
    let more = match items.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!("  and {more} more; `flameholder status -o json` lists them\n"),
    };
    format!("left out:\n{lines}{more}")
}

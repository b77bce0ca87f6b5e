//! `flameholder status`

use crate::cli::session;
use crate::transaction::state::interrupted;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::input::print_json;
use crate::cli::output::paint::{Paint, Role};
use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, Format, Place, Verdict};
use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::state::blocked::BlockedTarget;
use crate::core::state::boot_check::{HealthPhase, HealthReport, complaint};
use crate::core::state::journal::{Journal, TransactionState};
use crate::host::Root;
use crate::host::facts::boot;
use crate::host::facts::booted::{BootedDeployment, SYSROOT};
use crate::host::file_watch::FileWatch;
use crate::os::protocol::Access;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::report::status::{DeploymentItem, GenerationItem, PendingItem, StatusDocument, TransactionItem};
use crate::transaction::TransactionError;
use crate::transaction::state::current::Current;
use crate::transaction::state::{blocked, pending, status_files};
use crate::transaction::update::sysroot::{Standing, open_change, standings};

/// Where daemon and health are told of.
const REPORTS: &str = "/run/flameholder";
/// Hex digits of a commit that tell it apart for people.
const SHORT_COMMIT: usize = 12;

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    place: Place,
    /// How the status is written
    #[arg(short, long = "output", value_enum, default_value_t)]
    output: Format,
    /// Write it again whenever the daemon gets further, or the health of the host changes
    #[arg(long, conflicts_with_all = ["root", "sysroot"])]
    watch: bool,
}

pub(crate) fn run(args: &StatusArgs) -> Result<Verdict, CliError> {
    if args.watch {
        return watch(args.output);
    }
    let document = match (&args.place.root, &args.place.sysroot) {
        (_, Some(sysroot)) => of_sysroot(sysroot, sysroot)?,
        (None, None) if BootedDeployment::look()?.is_some() => of_running()?,
        (root, None) => of_tree(&root.clone().unwrap_or_else(|| PathBuf::from("/")))?,
    };
    print(&document, args.output)?;
    Ok(Verdict::Fine)
}

fn print(document: &StatusDocument, output: Format) -> Result<(), CliError> {
    match output {
        Format::Json => print_json(document),
        Format::Text => print_text(&render(document, Paint::for_stdout())),
    }
}

/// Until nobody reads it any more.
fn watch(output: Format) -> Result<Verdict, CliError> {
    session::booted()?;
    let watched = |source| CliError::Input { file: REPORTS.to_owned(), source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(watched)?;
    runtime.block_on(async {
        std::fs::create_dir_all(REPORTS).map_err(watched)?;
        let mut watch = FileWatch::new().map_err(watched)?;
        watch.add(Path::new(REPORTS)).map_err(watched)?;
        // More news than changes: a report is written and renamed.
        let mut said = None;
        loop {
            let document = of_running()?;
            let text = serde_json::to_string(&document).ok();
            if said != text {
                print(&document, output)?;
                said = text;
            }
            watch.next().await.map_err(watched)?;
        }
    })
}

fn of_tree(path: &Path) -> Result<StatusDocument, CliError> {
    let root = Root::open(path)?;
    let transaction = interrupted::open_change(&root)?.map(transaction_item);
    let record = Current::load_record(&root).map_err(TransactionError::from)?;
    Ok(StatusDocument { transaction, ..StatusDocument::of_tree(record.as_ref()) })
}

/// Its deployments are found below the physical root, and libostree calls that `/`.
fn of_running() -> Result<StatusDocument, CliError> {
    let root = Root::open(Path::new("/"))?;
    let pending = pending::load(&root).map_err(TransactionError::from)?;
    let held = blocked::load(&root).map_err(TransactionError::from)?;
    let boot_id = boot::boot_id();
    let pending = pending.map(|pending| PendingItem::of(&pending, &boot_id));
    let health = status_files::HEALTH.load(&root);
    let daemon = status_files::DAEMON.load(&root);
    Ok(StatusDocument { pending, held, health, daemon, ..of_sysroot(Path::new("/"), Path::new(SYSROOT))? })
}

fn of_sysroot(path: &Path, sysroot: &Path) -> Result<StatusDocument, CliError> {
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, path, Access::Read)?;
    let standings = standings(&mut session, sysroot)?;
    let transaction = open_change(sysroot, &standings)?.map(transaction_item);
    let deployments = standings.into_iter().enumerate().map(item).collect();
    Ok(StatusDocument { transaction, ..StatusDocument::of_sysroot(deployments) })
}

fn transaction_item((open, under_way): (Journal, bool)) -> TransactionItem {
    let Journal { intent, reached, .. } = open;
    TransactionItem { current: intent.current, target: intent.target, reached, under_way }
}

/// The first in boot order boots next.
fn item((index, standing): (usize, Standing)) -> DeploymentItem {
    let Standing { deployment, record, belongs } = standing;
    DeploymentItem {
        next: index == 0,
        booted: deployment.booted,
        staged: deployment.staged,
        pinned: deployment.pinned,
        stateroot: deployment.id.stateroot,
        commit: deployment.id.commit,
        serial: deployment.id.serial,
        version: deployment.version,
        image: deployment.image.map(String::from),
        manifest_digest: deployment.manifest_digest,
        kernel_arguments: deployment.kernel_arguments,
        generation: record.map(|record| GenerationItem::of(&record, belongs)),
    }
}

fn render(document: &StatusDocument, paint: Paint) -> String {
    let mut text = String::new();
    if let Some(generation) = &document.generation {
        text.push_str(&generation_lines(generation, ""));
    }
    for deployment in &document.deployments {
        text.push_str(&deployment_lines(deployment, paint));
    }
    if text.is_empty() {
        text.push_str("nothing was applied here yet\n");
    }
    text.extend(document.transaction.as_ref().map(transaction_line));
    text.extend(document.pending.as_ref().map(pending_line));
    if let Some(held) = &document.held {
        let BlockedTarget { config, reason, .. } = held;
        text.push_str(&format!("{config} is held: {reason}; `flameholder retry` releases it\n"));
    }
    text.extend(document.health.as_ref().map(health_line));
    text.extend(document.daemon.as_ref().map(daemon_line));
    text
}

fn daemon_line(report: &DaemonReport) -> String {
    let is_gone = !Path::new(&format!("/proc/{}", report.pid)).exists();
    let gone = if is_gone { " (it is gone; see `systemctl status flameholder-daemon`)" } else { "" };
    let trouble = report.source_trouble.as_ref().map(|trouble| format!("its source: {trouble}\n"));
    format!("the daemon{gone}: {}\n{}", report.sentence(), trouble.unwrap_or_default())
}

fn health_line(report: &HealthReport) -> String {
    let complaint = complaint(&report.findings);
    let complaint = complaint.map(|complaint| format!(": {complaint}")).unwrap_or_default();
    match report.phase {
        HealthPhase::Checking => format!("what runs is to show that it is healthy{complaint}\n"),
        HealthPhase::Healthy => "what runs was found healthy\n".to_owned(),
        HealthPhase::Unhealthy => format!("what runs is not healthy{complaint}\n"),
    }
}

fn pending_line(item: &PendingItem) -> String {
    let PendingItem { generation, config, armed, failure, .. } = item;
    let state = if *armed { "boots with the next reboot" } else { "is staged, and not armed" };
    let failed = failure.as_ref().map(|failure| format!("  it did not boot before: {}\n", failure.reason));
    format!("generation {generation} of {config} {state}\n{}", failed.unwrap_or_default())
}

fn transaction_line(item: &TransactionItem) -> String {
    let to = item.target.as_ref().map(|target| format!(" to generation {target}")).unwrap_or_default();
    let state = match (item.under_way, item.reached) {
        (true, _) => "is under way",
        (false, TransactionState::Committed) => "is done; `flameholder recover` clears up after it",
        (false, _) => "was interrupted; `flameholder recover` takes it back",
    };
    format!("a change{to} {state}\n")
}

/// A commit as people read it.
pub(crate) fn short_commit(commit: &str) -> String {
    commit.chars().take(SHORT_COMMIT).collect()
}

fn deployment_lines(item: &DeploymentItem, paint: Paint) -> String {
    let commit = short_commit(&item.commit);
    let marks = [
        (item.next, "boots next"),
        (item.booted, "booted"),
        (item.staged, "staged"),
        (item.pinned, "pinned"),
    ];
    let marks: Vec<&str> = marks.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark).collect();
    let version = item.version.as_deref().unwrap_or("no version");
    let head = format!("{} {commit}.{}  {version}", item.stateroot, item.serial);
    let mut text = paint.paint(Role::Heading, &head);
    if !marks.is_empty() {
        text.push_str(&format!("  ({})", marks.join(", ")));
    }
    text.push('\n');
    if let Some(image) = &item.image {
        text.push_str(&format!("  image       {image}\n"));
    }
    if let Some(digest) = &item.manifest_digest {
        text.push_str(&format!("  digest      {digest}\n"));
    }
    text.push_str(&format!("  kernel      {}\n", item.kernel_arguments.join(" ")));
    match &item.generation {
        Some(generation) => text.push_str(&generation_lines(generation, "  ")),
        None => text.push_str("  generation  none of ours\n"),
    }
    text
}

fn generation_lines(item: &GenerationItem, indent: &str) -> String {
    let foreign =
        if item.belongs { "" } else { "  (its record names another deployment: made by something else)" };
    let mut text =
        format!("{indent}generation  {}{foreign}\n{indent}config      {}\n", item.generation, item.config);
    if !item.left_out.is_empty() {
        text.push_str(&format!("{indent}left out    {}, listed by `-o json`\n", item.left_out.len()));
    }
    text
}

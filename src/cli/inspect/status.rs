//! `flameholder status`: show deployments, generations, the pending and the blocked target, boot check and
//! daemon.

use std::error::Error;
use std::path::Path;

use clap::Args;

use crate::cli::input::print_json;
use crate::cli::inspect::verify::skew_line;
use crate::cli::output::paint::{TextPainter, TextRole};
use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, CommandOutcome, OutputFormat, TargetArgs, image_agent, session};
use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::state::blocked::{BLOCKED, BlockedTarget};
use crate::core::state::boot_check::{HealthPhase, HealthReport, failed_checks};
use crate::core::state::journal::Journal;
use crate::core::state::objects::{ACTIVE, ActiveManifest};
use crate::core::state::pending::rollback_pin::PINNED;
use crate::core::state::pending::{PENDING, PendingGeneration};
use crate::core::values::causes::chain;
use crate::core::values::kernel_arguments::argument_skew::ArgumentSkew;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::host::facts::booted::{BootedDeployment, SYSROOT};
use crate::host::file_watch::FileWatch;
use crate::host::{Root, RunningHost};
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::report::status::{
    AgentItem, ArgumentsItem, DeploymentItem, GenerationItem, JournalState, PendingItem, SpaceItem,
    StatusDocument, TransactionItem, UnreadableDocument,
};
use crate::transaction::TransactionError;
use crate::transaction::engine::atomic_file;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::{blocked, interrupted, pending, status_files};
use crate::transaction::update::space;
use crate::transaction::update::space::FreeSpace;
use crate::transaction::update::sysroot::{DeploymentState, deployment_states, is_booted, open_change};

/// Directory of the status files that the daemon and the boot check publish.
const REPORTS: &str = "/run/flameholder";
/// Hex digits of a commit in text output.
const SHORT_COMMIT: usize = 12;
const MEBIBYTE: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    place: TargetArgs,
    /// Notation of the status
    #[arg(short, long = "output", value_enum, default_value_t)]
    output: OutputFormat,
    /// Print the status again whenever the phase of the daemon or the boot check changes
    #[arg(long, conflicts_with_all = ["root", "sysroot"])]
    watch: bool,
}

pub(crate) fn run(args: &StatusArgs) -> Result<CommandOutcome, CliError> {
    if args.watch {
        return watch(args.output);
    }
    let document = match (&args.place.root, &args.place.sysroot) {
        (_, Some(sysroot)) => of_sysroot(sysroot, sysroot, None)?,
        (Some(root), None) => of_tree(root)?,
        (None, None) => match RunningHost::open()? {
            Some(host) => of_running(&host)?,
            None => of_tree(Path::new("/"))?,
        },
    };
    print(&document, args.output)?;
    Ok(CommandOutcome::Success)
}

fn print(document: &StatusDocument, output: OutputFormat) -> Result<(), CliError> {
    match output {
        OutputFormat::Json => print_json(document),
        OutputFormat::Text => print_text(&render(document, TextPainter::for_stdout())),
    }
}

/// Print the status and each change of it until standard output is closed.
fn watch(output: OutputFormat) -> Result<CommandOutcome, CliError> {
    let host = session::running_host()?;
    let watched = |source| CliError::Input { file: REPORTS.to_owned(), source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(watched)?;
    runtime.block_on(async {
        std::fs::create_dir_all(REPORTS).map_err(watched)?;
        let mut watch = FileWatch::new().map_err(watched)?;
        watch.add(Path::new(REPORTS)).map_err(watched)?;
        // One report causes several inotify events: it is written and renamed.
        let mut printed = None;
        loop {
            let document = of_running(&host)?;
            let text = serde_json::to_string(&document).ok();
            if printed != text {
                print(&document, output)?;
                printed = text;
            }
            watch.next().await.map_err(watched)?;
        }
    })
}

fn of_tree(path: &Path) -> Result<StatusDocument, CliError> {
    let root = Root::open(path)?;
    let transaction = interrupted::open_change(&root)?.map(transaction_item);
    let record = CurrentState::load_record(&root).map_err(TransactionError::from)?;
    Ok(StatusDocument { transaction, ..StatusDocument::of_tree(agent()?, record.as_ref()) })
}

/// Read the running host. libostree's sysroot is `/`; the deployments' files are read below the physical
/// root, `/sysroot`.
fn of_running(host: &RunningHost) -> Result<StatusDocument, CliError> {
    let root = &host.root;
    let mut unreadable = documents_set_aside(root)?;
    let mut readable = |path: &str, error: &dyn Error| {
        unreadable.push(UnreadableDocument { path: path.to_owned(), reason: chain(error) });
    };
    let pending = pending::load(root).map_err(|error| readable(PENDING, &error)).unwrap_or_default();
    let blocked = blocked::load(root).map_err(|error| readable(BLOCKED, &error)).unwrap_or_default();
    let pending = pending.map(|pending| PendingItem::of(&pending, &host.system.boot_id));
    let boot_check = status_files::BOOT_CHECK.load(root);
    let daemon = status_files::DAEMON.load(root);
    let skew = host.booted.skew(&host.system.kernel_arguments);
    Ok(StatusDocument {
        pending,
        blocked,
        kernel_arguments_after_reboot: ArgumentsItem::of(&skew),
        boot_check,
        daemon,
        unreadable,
        space: space::free_space().into_iter().map(space_item).collect(),
        ..of_sysroot(Path::new("/"), Path::new(SYSROOT), Some(&host.booted))?
    })
}

fn space_item(FreeSpace { place, free, total }: FreeSpace) -> SpaceItem {
    SpaceItem { path: place.to_owned(), free, total }
}

/// Reason why the bytes of a document cannot be read.
type ReasonReader<'a> = dyn Fn(&[u8]) -> String + 'a;

/// List the documents that were set aside, each with the reason.
fn documents_set_aside(root: &Root) -> Result<Vec<UnreadableDocument>, CliError> {
    let reason = |error: Option<&dyn Error>| error.map_or_else(String::new, chain);
    let readers: [(&str, &ReasonReader<'_>); 4] = [
        (PENDING, &|bytes| reason(PendingGeneration::parse(bytes).err().as_ref().map(|error| error as _))),
        (BLOCKED, &|bytes| reason(BlockedTarget::parse(bytes).err().as_ref().map(|error| error as _))),
        (ACTIVE, &|bytes| reason(ActiveManifest::parse(bytes).err().as_ref().map(|error| error as _))),
        (PINNED, &|_| format!("{PINNED} is damaged, or a newer release wrote it")),
    ];
    let mut documents = Vec::new();
    for (path, reason) in readers {
        let aside = atomic_file::aside(&ManagedPath::constant(path));
        if let Some(bytes) = root.read(&aside, limits::INFLATED_BYTES).map_err(TransactionError::from)? {
            documents.push(UnreadableDocument { path: aside.to_string(), reason: reason(&bytes) });
        }
    }
    Ok(documents)
}

fn of_sysroot(
    path: &Path,
    sysroot: &Path,
    booted: Option<&BootedDeployment>,
) -> Result<StatusDocument, CliError> {
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, path, SysrootAccess::Read)?;
    let mut states = deployment_states(&mut session, sysroot)?;
    if let Some(booted) = booted {
        for DeploymentState { deployment, .. } in &mut states {
            deployment.booted = is_booted(deployment, booted);
        }
    }
    let transaction = open_change(sysroot, &states)?.map(transaction_item);
    let deployments = items(states);
    Ok(StatusDocument { transaction, ..StatusDocument::of_sysroot(agent()?, deployments) })
}

/// Describe the running executable.
fn agent() -> Result<AgentItem, CliError> {
    let path = image_agent::own_path()
        .map_err(|source| CliError::Input { file: "/proc/self/exe".to_owned(), source })?;
    Ok(AgentItem { version: image_agent::VERSION.to_owned(), path: path.display().to_string() })
}

fn transaction_item((open, in_progress): (Journal, bool)) -> TransactionItem {
    TransactionItem::of(open, in_progress)
}

/// Convert the deployments in boot order. One that is locked is not finalized, so the one behind it boots next.
fn items(states: Vec<DeploymentState>) -> Vec<DeploymentItem> {
    let next = states.iter().position(|state| !state.deployment.locked);
    states.into_iter().enumerate().map(|(index, state)| item(state, next == Some(index))).collect()
}

fn item(state: DeploymentState, next: bool) -> DeploymentItem {
    let DeploymentState { deployment, record, record_matches } = state;
    DeploymentItem {
        next,
        booted: deployment.booted,
        staged: deployment.staged,
        locked: deployment.locked,
        pinned: deployment.pinned,
        stateroot: deployment.id.stateroot,
        commit: deployment.id.commit,
        serial: deployment.id.serial,
        version: deployment.version,
        image: deployment.image.map(String::from),
        manifest_digest: deployment.manifest_digest,
        kernel_arguments: deployment.kernel_arguments,
        generation: record.map(|record| GenerationItem::of(&record, record_matches)),
    }
}

fn render(document: &StatusDocument, paint: TextPainter) -> String {
    let mut text = String::new();
    if let Some(generation) = &document.generation {
        text.push_str(&generation_lines(generation, ""));
    }
    for deployment in &document.deployments {
        text.push_str(&deployment_lines(deployment, paint));
    }
    if text.is_empty() {
        text.push_str("no generation was applied yet\n");
    }
    text.extend(document.transaction.as_ref().map(transaction_line));
    text.extend(document.pending.as_ref().map(pending_line));
    if let Some(blocked) = &document.blocked {
        let BlockedTarget { config, reason, .. } = blocked;
        text.push_str(&format!("{config} is blocked: {reason}; `flameholder retry` releases it\n"));
    }
    for UnreadableDocument { path, reason } in &document.unreadable {
        text.push_str(&format!(
            "cannot be read, and is kept for the release that wrote it: {path}: {reason}\n"
        ));
    }
    text.extend(
        document.kernel_arguments_after_reboot.as_ref().map(|item| {
            skew_line(&ArgumentSkew { added: item.added.clone(), removed: item.removed.clone() })
        }),
    );
    text.extend(document.boot_check.as_ref().map(health_line));
    text.extend(document.daemon.as_ref().map(daemon_line));
    if !document.space.is_empty() {
        let free = document.space.iter().map(|SpaceItem { path, free, total }| {
            format!("{path} {} of {} MiB", free / MEBIBYTE, total / MEBIBYTE)
        });
        text.push_str(&format!("free space: {}\n", free.collect::<Vec<_>>().join(", ")));
    }
    text.push_str(&format!("agent: {} ({})\n", document.agent.version, document.agent.path));
    text
}

fn daemon_line(report: &DaemonReport) -> String {
    let is_gone = !Path::new(&format!("/proc/{}", report.pid)).exists();
    let gone = if is_gone { " (not running; see `systemctl status flameholder-daemon`)" } else { "" };
    let trouble =
        report.source_error.as_ref().map(|trouble| format!("source of the desired config: {trouble}\n"));
    format!("the daemon{gone}: {}\n{}", report.summary(), trouble.unwrap_or_default())
}

fn health_line(report: &HealthReport) -> String {
    let failed = failed_checks(&report.findings);
    let failed = failed.map(|failed| format!(": {failed}")).unwrap_or_default();
    match report.phase {
        HealthPhase::Checking => format!("boot check: running{failed}\n"),
        HealthPhase::Healthy => "boot check: passed\n".to_owned(),
        HealthPhase::Unhealthy => format!("boot check: failed{failed}\n"),
    }
}

fn pending_line(item: &PendingItem) -> String {
    let PendingItem { generation, config, unlocked, failure, .. } = item;
    let state = if *unlocked { "boots with the next reboot" } else { "is pending and not unlocked" };
    let failed =
        failure.as_ref().map(|failure| format!("  the last attempt to boot it failed: {}\n", failure.reason));
    format!("generation {generation} of {config} {state}\n{}", failed.unwrap_or_default())
}

fn transaction_line(item: &TransactionItem) -> String {
    let to = item.target.as_ref().map(|target| format!(" to generation {target}")).unwrap_or_default();
    let state = match (item.in_progress, item.state) {
        (true, _) => "is under way",
        (false, JournalState::Committed) => "is complete; `flameholder recover` removes its temporary files",
        (false, _) => "was interrupted; `flameholder recover` undoes it",
    };
    format!("a change{to} {state}\n")
}

/// Shorten a commit checksum for text output.
pub(crate) fn short_commit(commit: &str) -> String {
    commit.chars().take(SHORT_COMMIT).collect()
}

fn deployment_lines(item: &DeploymentItem, paint: TextPainter) -> String {
    let commit = short_commit(&item.commit);
    let marks = [
        (item.next, "boots next"),
        (item.booted, "booted"),
        (item.staged, "staged"),
        (item.locked, "locked"),
        (item.pinned, "pinned"),
    ];
    let marks: Vec<&str> = marks.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark).collect();
    let version = item.version.as_deref().unwrap_or("no version");
    let head = format!("{} {commit}.{}  {version}", item.stateroot, item.serial);
    let mut text = paint.paint(TextRole::Heading, &head);
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
    text.push_str(&format!("  kernel      {}\n", item.kernel_arguments));
    match &item.generation {
        Some(generation) => text.push_str(&generation_lines(generation, "  ")),
        None => text.push_str("  generation  none (not made by flameholder)\n"),
    }
    text
}

fn generation_lines(item: &GenerationItem, indent: &str) -> String {
    let foreign = if item.record_matches {
        ""
    } else {
        "  (foreign deployment: the record in its /etc names another one)"
    };
    let mut text =
        format!("{indent}generation  {}{foreign}\n{indent}config      {}\n", item.generation, item.config);
    for (label, items) in [("unsupported", &item.unsupported), ("deferred", &item.deferred)] {
        if !items.is_empty() {
            text.push_str(&format!("{indent}{label:<11} {}, listed by `-o json`\n", items.len()));
        }
    }
    text
}

//! `flameholder verify`: compare the disk with the record of the applied generation, and repair drift in a
//! tree.

use std::path::Path;

use clap::Args;

use crate::cli::input::{open_to_change, print_json};
use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, CommandOutcome, OutputFormat, TargetArgs, session};
use crate::core::config::settings::DriftPolicy;
use crate::core::plan::drift::{Drift, DriftFinding};
use crate::core::values::kernel_arguments::argument_skew::ArgumentSkew;
use crate::host::facts::tree_facts::TreeScope;
use crate::host::{LockedRoot, Root};
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::report::verify::VerifyDocument;
use crate::transaction::plan::drift::{DriftReport, verify};
use crate::transaction::update::repair::repair;
use crate::transaction::update::sysroot;

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) place: TargetArgs,
    /// Repair drift of paths whose drift policy is `repair`, and report the rest
    #[arg(long, requires = "root", conflicts_with = "sysroot")]
    pub(crate) repair: bool,
    /// Notation of the result
    #[arg(short, long = "output", value_enum, default_value_t)]
    output: OutputFormat,
}

pub(crate) fn run(args: &VerifyArgs) -> Result<CommandOutcome, CliError> {
    let verified = match (&args.place.root, &args.place.sysroot) {
        (_, Some(sysroot)) => on_sysroot(sysroot)?,
        (Some(root), None) if args.repair => repair(&LockedRoot::lock(&open_to_change(root)?)?)?,
        (root, None) => {
            let Some(path) = root else {
                let host = session::running_host()?;
                let mut session = session::open_running(SysrootAccess::Read)?;
                return finish(&sysroot::verify_running(&mut *session, &host)?, args);
            };
            verify(&Root::open(path)?, TreeScope::Everything)?
        }
    };
    finish(&verified, args)
}

fn finish(verified: &DriftReport, args: &VerifyArgs) -> Result<CommandOutcome, CliError> {
    match args.output {
        OutputFormat::Json => {
            let DriftReport { record, findings, repaired, skew, .. } = verified;
            print_json(&VerifyDocument::of(record, findings, repaired, skew))?;
        }
        OutputFormat::Text => print_text(&render(verified))?,
    }
    Ok(if verified.has_drift() { CommandOutcome::Differences } else { CommandOutcome::Success })
}

fn on_sysroot(sysroot: &Path) -> Result<DriftReport, CliError> {
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, sysroot, SysrootAccess::Read)?;
    Ok(sysroot::verify(&mut session, sysroot)?)
}

fn render(verified: &DriftReport) -> String {
    let record = &verified.record;
    let (config, generation) = (&record.config, &record.generation);
    let mut text = String::new();
    if !verified.repaired.is_empty() {
        text.push_str(&format!("repaired, {}:\n", counted(verified.repaired.len())));
        text.extend(verified.repaired.iter().map(|drift| line(drift, "")));
    }
    let (ignored, counting): (Vec<&DriftFinding>, Vec<&DriftFinding>) =
        verified.findings.iter().partition(|found| found.policy == DriftPolicy::Ignore);
    if counting.is_empty() {
        let but = if ignored.is_empty() { "" } else { ", apart from ignored paths" };
        text.push_str(&format!("no drift from {config} (generation {generation}){but}\n"));
    } else {
        let count = counted(counting.len());
        text.push_str(&format!("{count} from {config} (generation {generation}):\n"));
    }
    for found in &counting {
        text.push_str(&line(&found.drift, &format!("  [{}]", found.policy.as_str())));
        if let Some(obstacle) = &found.obstacle {
            text.push_str(&format!("    not repaired: {obstacle}\n"));
        }
    }
    if !ignored.is_empty() {
        text.push_str(&format!("ignored by policy, {}:\n", counted(ignored.len())));
        text.extend(ignored.iter().map(|found| line(&found.drift, "")));
    }
    text.push_str(&skew_line(&verified.skew));
    if !counting.is_empty() {
        text.push_str("`flameholder apply` with the same config repairs them, except modes, owners and labels of directories\n");
    }
    text
}

/// Describe the kernel arguments that take effect with the next full reboot; empty without any.
pub(crate) fn skew_line(skew: &ArgumentSkew) -> String {
    let changes: Vec<String> = [("added", &skew.added), ("removed", &skew.removed)]
        .into_iter()
        .filter(|(_, arguments)| !arguments.is_empty())
        .map(|(change, arguments)| format!("{change} {arguments}"))
        .collect();
    if changes.is_empty() {
        return String::new();
    }
    format!("kernel arguments in effect after the next full reboot: {}\n", changes.join("; "))
}

fn counted(deviations: usize) -> String {
    format!("{deviations} deviation{}", if deviations == 1 { "" } else { "s" })
}

fn line(drift: &Drift, more: &str) -> String {
    format!("  {}  {}{more}\n", drift.path, drift.kind)
}

//! `hostwright verify`

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::input::print_json;
use super::terminal::print_text;
use super::{CliError, Format, Place, Verdict};
use crate::core::names::ManagedPath;
use crate::core::tree::Deviation;
use crate::host::Root;
use crate::host::facts::Reach;
use crate::os::protocol::Access;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::transaction::sysroot;
use crate::transaction::verify::{Verified, verify};

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    place: Place,
    /// How the result is written
    #[arg(short, long = "output", value_enum, default_value_t)]
    output: Format,
}

/// The document of `verify -o json` (`docs/schema/verify.json`).
#[derive(Debug, Serialize)]
struct VerifyDocument<'a> {
    schema: u32,
    generation: &'a str,
    config: &'a str,
    deviations: Vec<Item<'a>>,
}

#[derive(Debug, Serialize)]
struct Item<'a> {
    path: &'a ManagedPath,
    kind: Deviation,
}

pub(super) fn run(args: &VerifyArgs) -> Result<Verdict, CliError> {
    let verified = match (&args.place.root, &args.place.sysroot) {
        (_, Some(sysroot)) => on_sysroot(sysroot)?,
        (root, None) => {
            let path = root.clone().unwrap_or_else(|| PathBuf::from("/"));
            verify(&Root::open(&path)?, Reach::Everything)?
        }
    };
    let (record, deviations) = (&verified.record, &verified.deviations);
    match args.output {
        Format::Json => print_json(&VerifyDocument {
            schema: 1,
            generation: &record.generation,
            config: &record.config,
            deviations: deviations.iter().map(|found| Item { path: &found.path, kind: found.kind }).collect(),
        })?,
        Format::Text => print_text(&render(&verified))?,
    }
    Ok(if deviations.is_empty() { Verdict::Fine } else { Verdict::Differences })
}

fn on_sysroot(sysroot: &Path) -> Result<Verified, CliError> {
    let mut session = WorkerSession::open(&WorkerProgram::locate()?, sysroot, Access::Read)?;
    Ok(sysroot::verify(&mut session, sysroot)?)
}

fn render(verified: &Verified) -> String {
    let record = &verified.record;
    if verified.deviations.is_empty() {
        return format!("everything is as {} says (generation {})\n", record.config, record.generation);
    }
    let count = verified.deviations.len();
    let mut text = format!("{count} deviations from {} (generation {}):\n", record.config, record.generation);
    for found in &verified.deviations {
        text.push_str(&format!("  {}  {}\n", found.path, in_words(found.kind)));
    }
    text.push_str("`hostwright apply` with the same configuration repairs them\n");
    text
}

/// A deviation for people.
pub(super) fn in_words(kind: Deviation) -> &'static str {
    match kind {
        Deviation::Missing => "is missing",
        Deviation::Unexpected => "should not be there",
        Deviation::Type => "is of another type",
        Deviation::Content => "has other content",
        Deviation::Mode => "has another mode",
        Deviation::Owner => "has another owner",
        Deviation::Xattrs => {
            "has extended attributes that it should not have (`getfattr -d -m -` shows them)"
        }
        Deviation::Label => "has another SELinux label",
        Deviation::Target => "points elsewhere",
        Deviation::Enablement => "enables or disables a unit against the configuration",
        Deviation::Password => "has another password hash for core",
        Deviation::KernelArguments => {
            "the boot entry lacks configured kernel arguments, or has them in another order"
        }
    }
}

//! `flameholder schema`: print the JSON schema of a document.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::cli::output::terminal::{print_text, write_out};
use crate::cli::{CliError, CommandOutcome};

/// Documents with their subject, the commands that print them if they are not of the same name, and their schemas.
const SCHEMAS: [(&str, &str, &[&str], &str); 9] = [
    (
        "change",
        "result of a command that changes something",
        &["apply", "unstage", "rollback", "retry", "recover", "adopt", "release"],
        include_str!("../../../docs/schema/change.json"),
    ),
    ("error", "failure of any command", &[], include_str!("../../../docs/schema/error.json")),
    ("etc-diff", "three-way merge of /etc", &[], include_str!("../../../docs/schema/etc-diff.json")),
    ("fleet", "nodes of a cluster", &[], include_str!("../../../docs/schema/fleet.json")),
    ("history", "what happened to a host", &[], include_str!("../../../docs/schema/history.json")),
    (
        "plan",
        "what would change, and what that disrupts",
        &[],
        include_str!("../../../docs/schema/plan.json"),
    ),
    ("status", "state of a host", &[], include_str!("../../../docs/schema/status.json")),
    ("verify", "drift", &[], include_str!("../../../docs/schema/verify.json")),
    (
        "version",
        "versions of the agent and its parts",
        &[],
        include_str!("../../../docs/schema/version.json"),
    ),
];

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Document, or a command that prints it with `-o json`; without it, the documents are listed
    #[arg(value_name = "NAME", value_parser = names())]
    name: Option<String>,
}

fn names() -> PossibleValuesParser {
    let value = |(name, subject, commands, _): (_, _, &[&'static str], _)| {
        PossibleValue::new(name).help(subject).aliases(commands.iter().copied())
    };
    PossibleValuesParser::new(SCHEMAS.map(value))
}

pub(crate) fn run(args: &SchemaArgs) -> Result<CommandOutcome, CliError> {
    let Some(asked) = &args.name else {
        let lines = SCHEMAS.iter().map(|(name, subject, ..)| format!("{name:<10} {subject}\n"));
        print_text(&lines.collect::<String>())?;
        return Ok(CommandOutcome::Success);
    };
    let is_asked =
        |(name, _, commands, _): &&(&str, _, &[&str], _)| name == asked || commands.contains(&asked.as_str());
    let schema = SCHEMAS.iter().find(is_asked).map(|(.., schema)| *schema);
    write_out(schema.unwrap_or_default())?;
    Ok(CommandOutcome::Success)
}

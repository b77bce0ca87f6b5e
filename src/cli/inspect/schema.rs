//! `flameholder schema`: print the JSON schema of a command's document.

use clap::Args;

use crate::cli::input::print_json;
use crate::cli::output::terminal::print_text;
use crate::cli::{CliError, CommandOutcome};
use crate::report::schema;

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Command whose document is described; without it, the commands are listed that have one
    name: Option<String>,
}

pub(crate) fn run(args: &SchemaArgs) -> Result<CommandOutcome, CliError> {
    let all = schema::all();
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let Some(asked) = &args.name else {
        print_text(&format!("{}\n", names.join("\n")))?;
        return Ok(CommandOutcome::Success);
    };
    let found = all.iter().find(|(name, _)| name == asked);
    let (_, schema) = found.ok_or_else(|| {
        CliError::Usage(format!("no document is called `{asked}`; there are {}", names.join(", ")))
    })?;
    print_json(schema)?;
    Ok(CommandOutcome::Success)
}

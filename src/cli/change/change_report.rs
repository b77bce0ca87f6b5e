//! Result of a command that changes something: lines of text as they come, or one document at the end.

use std::time::Instant;

use clap::Args;

use crate::cli::lock_wait::LockWaitArgs;
use crate::cli::output::document::OutputFormat;
use crate::cli::output::terminal::print_text;
use crate::cli::output::words::lasting;
use crate::cli::{CliError, CommandOutcome, OutputArgs};
use crate::core::plan::Plan;
use crate::core::values::identifiers::{ConfigName, GenerationId};
use crate::report::change::{ChangeDocument, ChangeResult};

/// Options of all commands that change something.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    pub(crate) wait: LockWaitArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug)]
pub(crate) struct ChangeReport {
    format: OutputFormat,
    began: Instant,
    pub(crate) document: ChangeDocument,
}

impl ChangeReport {
    /// Begin the report of `command`.
    pub(crate) fn begin(command: &'static str, args: ChangeArgs) -> Self {
        Self { format: args.output.format, began: Instant::now(), document: ChangeDocument::of(command) }
    }

    /// Count the time of the change from here: locks were waited for before.
    pub(crate) fn start_clock(&mut self) {
        self.began = Instant::now();
    }

    /// Name config and generation of the change, and its outcome.
    pub(crate) fn resulted(&mut self, result: ChangeResult, config: &ConfigName, generation: &GenerationId) {
        self.document.result = result;
        self.document.config = Some(config.clone());
        self.document.generation = Some(generation.clone());
    }

    /// Describe a change that followed `plan`: config, generation, what differs, and how long it took.
    pub(crate) fn changed(&mut self, plan: &Plan) -> String {
        let took = self.began.elapsed();
        self.document.follow(plan);
        self.document.seconds = Some(took.as_secs_f64());
        let changed = plan.diff.counted().unwrap_or_else(|| "no differences".to_owned());
        format!("{}: {changed}, in {}", self.subject(), lasting(took))
    }

    /// Name the config and its generation.
    pub(crate) fn subject(&self) -> String {
        let ChangeDocument { config, generation, .. } = &self.document;
        let generation =
            generation.as_ref().map(|generation| format!(" as generation {}", generation.shown()));
        format!("{}{}", config.clone().unwrap_or_default(), generation.unwrap_or_default())
    }

    /// Add lines to the result.
    pub(crate) fn tell(&mut self, lines: &str) -> Result<(), CliError> {
        match self.format {
            OutputFormat::Text => print_text(lines),
            OutputFormat::Document(_) => {
                self.document.message.push_str(lines);
                Ok(())
            }
        }
    }

    /// Add the last lines, and print the document if one is asked for.
    pub(crate) fn end(mut self, lines: &str) -> Result<CommandOutcome, CliError> {
        self.tell(lines)?;
        if let OutputFormat::Document(notation) = self.format {
            notation.print(&self.document)?;
        }
        Ok(CommandOutcome::Success)
    }
}

//! `--show-contents`: contents of managed files and units, and output of health checks, in a command's text.

use std::io::IsTerminal as _;

use clap::{Args, ValueEnum};

use crate::cli::CliError;

#[derive(Debug, Args)]
pub(crate) struct ContentArgs {
    /// Show contents of files and units, and output of health checks, which can hold secrets: to root on a terminal, or
    /// with `yes` anywhere; never with `-o json`
    #[arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "terminal")]
    show_contents: Option<ContentPlace>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ContentPlace {
    /// On a terminal, to root
    Terminal,
    /// Wherever standard output goes
    Yes,
}

impl ContentArgs {
    /// Return true if contents are asked for and may be shown here.
    pub(crate) fn are_shown(&self) -> Result<bool, CliError> {
        const REFUSED: &str =
            "--show-contents shows contents to root on a terminal; --show-contents=yes shows them anywhere";
        match self.show_contents {
            None => Ok(false),
            Some(ContentPlace::Yes) => Ok(true),
            Some(ContentPlace::Terminal)
                if rustix::process::geteuid().is_root() && std::io::stdout().is_terminal() =>
            {
                Ok(true)
            }
            Some(ContentPlace::Terminal) => Err(CliError::Usage(REFUSED.to_owned())),
        }
    }
}

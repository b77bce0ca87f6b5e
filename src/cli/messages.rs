//! Options of all commands: messages besides the result, and colours.

use anstream::ColorChoice;
use clap::{Args, ValueEnum};
use log::LevelFilter;

/// Style of a command's output, and its messages besides the result.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct MessageArgs {
    /// Print the result and errors only: no progress, no warnings
    #[arg(short, long, global = true, display_order = 990)]
    quiet: bool,
    /// Also print debug messages
    #[arg(short, long, global = true, conflicts_with = "quiet", display_order = 990)]
    verbose: bool,
    /// Colour the text; with `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` decide too
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, global = true, display_order = 990)]
    color: ColorMode,
}

impl MessageArgs {
    /// Return the level of log lines that are printed.
    pub(crate) fn least(self) -> LevelFilter {
        match self {
            Self { quiet: true, .. } => LevelFilter::Error,
            Self { verbose: true, .. } => LevelFilter::Debug,
            Self { .. } => LevelFilter::Info,
        }
    }

    /// Colour the text of this process as asked for.
    pub(crate) fn choose_colors(self) {
        ColorChoice::from(self.color).write_global();
    }
}

/// Use of colours in text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ColorMode {
    /// On a terminal that shows them
    #[default]
    Auto,
    /// Into files and pipes as well
    Always,
    Never,
}

impl From<ColorMode> for ColorChoice {
    fn from(mode: ColorMode) -> Self {
        match mode {
            ColorMode::Auto => Self::Auto,
            ColorMode::Always => Self::Always,
            ColorMode::Never => Self::Never,
        }
    }
}

//! The agent's command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    flameholder::cli::run()
}

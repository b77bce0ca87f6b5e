//! The `flameholder` executable.

use std::process::ExitCode;

fn main() -> ExitCode {
    flameholder::cli::run()
}

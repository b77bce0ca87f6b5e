//! Way for the agent of the OS image: where the image ships one of the same or a newer version, it replaces the
//! process of an agent that came from elsewhere.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::CliError;
use crate::cli::output::terminal::say;
use crate::core::state::installation::EXECUTABLES;
use crate::core::state::installation::image_agent::{AgentChoice, IMAGE_COMMAND};
use crate::host::Root;
use crate::host::facts::image_agent;

/// Version of this agent.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Environment variable with the ID of the process that gave way, so that a script in place of the image's
/// executable cannot lead back here without end.
const GAVE_WAY: &str = "FLAMEHOLDER_GAVE_WAY";

/// Path of the running executable, with links resolved.
pub(crate) fn own_path() -> std::io::Result<PathBuf> {
    std::env::current_exe()
}

/// Run the image's agent instead of an adopted copy. If that fails, the copy continues.
pub(crate) fn give_way_if_adopted() {
    let own = own_path();
    // Resolved like the executable's path: `/usr/local` is a link on hosts of OSTree.
    let top = Path::new(EXECUTABLES).canonicalize();
    let is_adopted = matches!((&own, &top), (Ok(own), Ok(top)) if own.starts_with(top));
    if is_adopted {
        give_way();
    }
}

/// Replace this process by the agent of the OS image, with the same arguments, if that has the same or a newer
/// version. Returns if it does not; a failure is reported on standard error.
pub(crate) fn give_way() {
    if let Err(error) = try_to_give_way() {
        say(&format!("warning: {}; version {VERSION} runs in its place", error.chain()));
    }
}

fn try_to_give_way() -> Result<(), CliError> {
    let Some(image) = image_agent::load(&Root::open(Path::new("/"))?)? else { return Ok(()) };
    if image.choose(VERSION)? == AgentChoice::AdoptedCopy || has_given_way() {
        return Ok(());
    }
    let mut arguments = std::env::args_os();
    let mut command = Command::new(IMAGE_COMMAND);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments).env(GAVE_WAY, std::process::id().to_string());
    Err(CliError::ImageAgent(command.exec()))
}

/// Return true if this process, or its parent, gave way before.
fn has_given_way() -> bool {
    let Some(process) = std::env::var(GAVE_WAY).ok().and_then(|process| process.parse::<u32>().ok()) else {
        return false;
    };
    process == std::process::id() || process == std::os::unix::process::parent_id()
}

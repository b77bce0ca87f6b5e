//! Hooks around a disruption: programs in drop-in directories, under the rules of health checks.

use std::path::Path;
use std::time::Duration;

use crate::core::config::settings::hooks::{AFTER_CONFIRMATION, BEFORE_DRAIN};
use crate::core::daemon::grant::GrantWait;
use crate::core::state::reboot_grant::RebootGrant;
use crate::core::values::causes::chain;
use crate::host::programs;
use crate::host::programs::{HookProgram, ProgramError, ProgramPurpose};
use crate::host::systemd::system_status;

fn programs_in(directories: &[&str]) -> Vec<HookProgram> {
    let directories: Vec<&Path> = directories.iter().map(Path::new).collect();
    programs::list(&directories)
}

/// Return true if the host has hooks.
pub(super) fn exist() -> bool {
    [BEFORE_DRAIN, AFTER_CONFIRMATION].iter().any(|directories| !programs_in(directories).is_empty())
}

fn run(program: &HookProgram, timeout: Duration, grant: &RebootGrant) -> Result<(), ProgramError> {
    let systemd = system_status::socket(Path::new("/"));
    let config = format!("FLAMEHOLDER_CONFIG={}", grant.config);
    program.run(systemd.as_deref(), timeout, &ProgramPurpose::hook(config))
}

/// Run the programs one after the other; the first that fails is waited for.
pub(super) fn run_until_failure(
    directories: &[&str],
    timeout: Duration,
    grant: &RebootGrant,
) -> Result<(), GrantWait> {
    for program in programs_in(directories) {
        run(&program, timeout, grant)
            .map_err(|error| GrantWait::Hook { name: program.name.clone(), reason: error.to_string() })?;
    }
    Ok(())
}

/// Run all programs; those that fail are logged.
pub(super) fn run_all(directories: &[&str], timeout: Duration, grant: &RebootGrant) {
    for program in programs_in(directories) {
        if let Err(error) = run(&program, timeout, grant) {
            log::warn!(
                "{}: the hook {} {error}",
                grant.config,
                program.path.display(),
                error = chain(&error)
            );
        }
    }
}

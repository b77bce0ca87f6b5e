//! State of the boot check, from its report.

use crate::core::daemon::lifecycle::BootCheckState;
use crate::core::state::boot_check;
use crate::core::state::boot_check::failed_checks;
use crate::core::values::identifiers::GenerationId;
use crate::host::RunningHost;
use crate::transaction::state::{boot_check_time, status_files};

/// State of the boot check of the booted, unconfirmed generation, from the report of this boot.
pub(in crate::daemon) fn unconfirmed_state(
    host: &RunningHost,
    generation: Option<&GenerationId>,
) -> BootCheckState {
    let report = status_files::BOOT_CHECK.load(&host.root);
    let report = report.filter(|report| report.generation.as_ref() == generation);
    let failed = report.as_ref().and_then(|report| failed_checks(&report.findings));
    match (report.map(|report| report.phase), failed) {
        (Some(boot_check::HealthPhase::Unhealthy), Some(failed_checks)) => {
            BootCheckState::Unhealthy { failed_checks }
        }
        (_, failed) if boot_check_time::is_overdue(host) => BootCheckState::Unhealthy {
            failed_checks: format!(
                "the boot check has no result; see `systemctl status flameholder-confirm-boot.service`{}",
                failed.map(|failed| format!("; {failed}")).unwrap_or_default()
            ),
        },
        (_, failed) => BootCheckState::Unconfirmed { failed_checks: failed },
    }
}

//! What people who log in are told: that a target was left, why, and the way out.

use std::path::Path;

use crate::core::state::boot_check::{HealthPhase, failed_checks};
use crate::host::Root;

use super::{blocked, status_files};

/// Read by `pam_motd(8)` and by `agetty(8)`.
const PLACES: [&str; 2] = ["/run/motd.d/60-flameholder.motd", "/run/issue.d/60-flameholder.issue"];

/// Makes it say what holds now. Nothing depends on it but what people are told.
pub fn refresh(root: &Root) {
    let text = text(root);
    for place in PLACES.map(Path::new) {
        let written = match &text {
            Some(text) => write(place, text),
            None if place.exists() => std::fs::remove_file(place),
            None => Ok(()),
        };
        if let Err(error) = written {
            log::warn!("{} cannot be written: {error}", place.display());
        }
    }
}

fn write(place: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = place.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(place, text)
}

fn text(root: &Root) -> Option<String> {
    let mut text = String::new();
    if let Ok(Some(held)) = blocked::load(root) {
        text += &format!(
            "flameholder: {} is held: {}\nIt is not gone to again until another configuration is wanted, or `flameholder retry` says so.\n",
            held.config, held.reason
        );
    }
    if let Some(report) =
        status_files::HEALTH.load(root).filter(|report| report.phase == HealthPhase::Unhealthy)
        && let Some(complaint) = failed_checks(&report.findings)
    {
        text += &format!("flameholder: this host is not healthy: {complaint}\n");
    }
    // A backslash means something to agetty, and control characters to terminals.
    let harmless = |character: &char| *character != '\\' && (!character.is_control() || *character == '\n');
    (!text.is_empty()).then(|| text.chars().filter(harmless).collect())
}

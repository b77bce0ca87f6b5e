//! Login message about a blocked target or failed health checks, with the way out.

use std::path::Path;

use super::{blocked, status_files};
use crate::core::state::boot_check::{HealthPhase, failed_checks};
use crate::core::values::causes::chain;
use crate::core::values::foreign_text::{harmless, harmless_line};
use crate::host::Root;

/// Message files of `pam_motd(8)` and `agetty(8)`.
const PLACES: [&str; 2] = ["/run/motd.d/60-flameholder.motd", "/run/issue.d/60-flameholder.issue"];

/// Write or remove the message files. Failure is only logged: they are informative.
pub fn refresh(root: &Root) {
    let text = text(root);
    for place in PLACES.map(Path::new) {
        let written = match &text {
            Some(text) => write(place, text),
            None if place.exists() => std::fs::remove_file(place),
            None => Ok(()),
        };
        if let Err(error) = written {
            log::warn!("cannot write {}: {error}", place.display(), error = chain(&error));
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
    if let Ok(Some(blocked)) = blocked::load(root) {
        text += &format!(
            "flameholder: {} is blocked: {}\nNo retry until the desired config changes; to retry now, run `flameholder retry`.\n",
            blocked.config,
            harmless_line(&blocked.reason)
        );
    }
    if let Some(report) =
        status_files::BOOT_CHECK.load(root).filter(|report| report.phase == HealthPhase::Unhealthy)
        && let Some(failed) = failed_checks(&report.findings)
    {
        text += &format!("flameholder: health checks failed: {}\n", harmless_line(&failed));
    }
    // agetty expands backslash escapes.
    (!text.is_empty()).then(|| harmless(&text).replace('\\', ""))
}

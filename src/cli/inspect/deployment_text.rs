//! Text form of deployments and their generations.

use crate::cli::output::styled_text::{StyledText, TextRole};
use crate::cli::output::words::utc;
use crate::core::values::foreign_text::harmless_line;
use crate::report::status::{DeploymentItem, GenerationItem};

/// Hex digits of a commit in text output.
const SHORT_COMMIT: usize = 12;
/// Column in which values start, behind their labels.
const VALUES: usize = 12;

/// Shorten a commit checksum for text output.
pub(crate) fn short_commit(commit: &str) -> String {
    commit.chars().take(SHORT_COMMIT).collect()
}

/// Add a deployment: a dot marks the running one.
pub(crate) fn push_deployment(item: &DeploymentItem, page: &mut StyledText) {
    let marks = [
        (item.booted, "booted"),
        (item.next, "boots next"),
        (item.staged, "staged"),
        (item.locked, "locked"),
        (item.rollback, "rollback"),
        (item.pinned, "pinned"),
    ];
    let marks: Vec<&str> = marks.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark).collect();
    let version = harmless_line(item.version.as_deref().unwrap_or("no version"));
    page.push_as(TextRole::Added, if item.booted { "●" } else { " " });
    page.push_as(TextRole::Heading, format!(" {} {version}", item.stateroot));
    if !marks.is_empty() {
        page.push(format!("  ({})", marks.join(", ")));
    }
    page.push("\n");
    match &item.generation {
        Some(generation) => push_generation(generation, "    ", page),
        None => row(page, "    ", "generation", "none (not made by flameholder)"),
    }
    row(page, "    ", "deployment", &format!("{}.{}", short_commit(&item.commit), item.serial));
    if let Some(image) = &item.image {
        row(page, "    ", "image", image);
    }
    if let Some(digest) = &item.manifest_digest {
        row(page, "    ", "digest", digest);
    }
    row(page, "    ", "kernel", &item.kernel_arguments.to_string());
}

/// Add a generation, as its record and the history describe it.
pub(crate) fn push_generation(item: &GenerationItem, indent: &str, page: &mut StyledText) {
    let note = match (item.at_finalization, item.record_matches) {
        (true, _) => "  (its /etc is written at shutdown)",
        (false, true) => "",
        (false, false) => "  (foreign deployment: the record in its /etc names another one)",
    };
    row(page, indent, "generation", &format!("{}{note}", item.generation.shown()));
    row(page, indent, "config", &item.config.to_string());
    let times = [(item.applied, "applied"), (item.confirmed, "confirmed")];
    let times: Vec<String> =
        times.iter().filter_map(|(time, what)| Some(format!("{what} {}", utc((*time)?)))).collect();
    if !times.is_empty() {
        row(page, indent, "times", &times.join(", "));
    }
    if let Some(signature) = &item.signature {
        row(page, indent, "signature", &signature.to_string());
    }
    for (label, items) in [("unsupported", &item.unsupported), ("deferred", &item.deferred)] {
        if !items.is_empty() {
            row(page, indent, label, &format!("{}, listed by `-o json`", items.len()));
        }
    }
}

fn row(page: &mut StyledText, indent: &str, label: &str, value: &str) {
    page.push(format!("{indent}{label:<VALUES$}{}\n", harmless_line(value)));
}

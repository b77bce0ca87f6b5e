//! What flameholder(8) tells a new user: the terms, from the glossary, and the first steps.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use roff::Roff;

use crate::page::{heading, item, paragraph, verbatim};

const GLOSSARY: &str = "docs/glossary.md";
/// Terms that the help of the commands uses, in the order in which a user meets them.
const TERMS: [&str; 17] = [
    "MachineConfig",
    "rendered config",
    "desired config",
    "source",
    "plan",
    "disruption",
    "deployment",
    "generation",
    "record",
    "live update",
    "staged deployment",
    "unlock",
    "boot check",
    "roll back",
    "blocked target",
    "drift",
    "drift policy",
];
/// Commands of a first update, each with its purpose.
const STEPS: [(&str, &str); 6] = [
    (
        "flameholder plan --desired worker.json",
        "See what a config would change, why, and if that reboots the host. Nothing is changed.",
    ),
    (
        "flameholder apply --desired worker.json",
        "Apply it: at once where no reboot is needed, else by a staged deployment, into which the next reboot switches.",
    ),
    (
        "flameholder status",
        "See what runs, what boots next, and what the boot check of a new generation found.",
    ),
    (
        "flameholder rollback --reboot auto",
        "Go back. A generation that fails its boot check is rolled back without this.",
    ),
    ("flameholder history", "See what happened to the host, when, why and by whom."),
    (
        "echo FLAMEHOLDER_SOURCE=dir:/etc/flameholder/desired > /etc/flameholder/daemon.env",
        "Have the daemon follow a source from the next start of `flameholder-daemon.service`, which needs this file.",
    ),
];

/// Add the terms and the first steps.
pub(crate) fn introduce(page: &mut Roff, repository: &Path) -> Result<()> {
    let path = repository.join(GLOSSARY);
    let glossary = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    heading(page, "TERMS");
    for term in TERMS {
        let meaning = meaning(&glossary, term).with_context(|| format!("{GLOSSARY} has no term `{term}`"))?;
        item(page, term, &sentence(meaning));
    }
    heading(page, "FIRST STEPS");
    for (command, effect) in STEPS {
        paragraph(page, effect);
        verbatim(page, command);
    }
    Ok(())
}

/// Find a term in the tables of the glossary.
fn meaning<'a>(glossary: &'a str, term: &str) -> Option<&'a str> {
    let rows = glossary.lines().filter_map(|line| line.strip_prefix("| "));
    rows.map(|row| row.split(" | ")).find_map(|mut cells| (cells.next()? == term).then(|| cells.next())?)
}

/// Begin with a capital letter, and end with a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.trim_end_matches(['|', ' ']).chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

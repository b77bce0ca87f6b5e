//! `cargo xtask release`: the checklist of a release, its packages and its tag.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

use crate::commit::TestedCommit;
use crate::consent::InstallConsent;
use crate::package::{self, PackageArgs};
use crate::project_tree::{ProjectTree, TlsLibrary};
use crate::{checks, invocation};

/// Version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Files that name the version besides `Cargo.toml`, with the text before it in its line.
const NAMED: [(&str, &str); 2] = [
    ("deploy/kubernetes/kustomization.yaml", "newTag: "),
    ("systemd/flameholder-activate.service", "Version="),
];

#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// Walk the checklist only: build nothing and tag nothing.
    #[arg(long)]
    dry_run: bool,
    /// Directory for the packages.
    #[arg(long, value_name = "DIR", default_value = "target/package")]
    output: PathBuf,
}

/// One line of the checklist.
#[derive(Debug)]
struct ReleaseItem {
    subject: &'static str,
    /// The next step; `None` if nothing is missing.
    missing: Option<String>,
}

/// Walk the checklist; if nothing is missing, and unless it is a dry run, build the packages and tag the commit.
///
/// # Errors
/// A file cannot be read, or a package or the tag cannot be made. A missing item is no error: the exit code shows it.
pub fn run(tree: &ProjectTree, consent: InstallConsent, args: &ReleaseArgs) -> Result<ExitCode> {
    let items = checklist(tree)?;
    println!("Release {VERSION}");
    for ReleaseItem { subject, missing } in &items {
        match missing {
            None => println!("  ok       {subject}"),
            Some(way) => println!("  missing  {subject}: {way}"),
        }
    }
    if items.iter().any(|item| item.missing.is_some()) {
        return Ok(ExitCode::FAILURE);
    }
    let tag = format!("v{VERSION}");
    if !args.dry_run {
        let packages = PackageArgs {
            output: args.output.clone(),
            tls: TlsLibrary::Openssl,
            no_build: false,
            check: true,
        };
        package::run(tree, consent, &packages)?;
        let message = format!("flameholder {VERSION}");
        let mut git = Command::new("git");
        invocation::run(
            git.args(["tag", "--annotate", "--message", &message, &tag]).current_dir(tree.root()),
        )?;
    }
    println!(
        "By hand: cargo deny check advisories; gpg --detach-sign SHA256SUMS; git push origin {tag}; publish the packages"
    );
    Ok(ExitCode::SUCCESS)
}

fn checklist(tree: &ProjectTree) -> Result<Vec<ReleaseItem>> {
    let read = |name: &str| {
        std::fs::read_to_string(tree.root().join(name)).with_context(|| format!("reading {name}"))
    };
    let is_modified = TestedCommit::of(tree).is_none_or(|commit| commit.is_modified());
    let tag = format!("v{VERSION}");
    let mut git = Command::new("git");
    let tags = invocation::read(git.args(["tag", "--list", &tag]).current_dir(tree.root()))?;
    let mut items = vec![
        item("the work tree is that of a commit", !is_modified, || "commit what is changed".to_owned()),
        item("the version is a new one", tags.trim().is_empty(), || {
            format!("{tag} is tagged already: change `version` in Cargo.toml")
        }),
        ReleaseItem {
            subject: "the changes are described",
            missing: missing_changes(&read("CHANGELOG.md")?),
        },
    ];
    for (file, before) in NAMED {
        let named = version_in(&read(file)?, before).unwrap_or_default();
        items.push(item("the version is named in one way", named == VERSION, || {
            format!("{file} names {named:?}")
        }));
    }
    items.push(item(
        "all exhaustive parts passed on this commit",
        checks::passed_exhaustively(tree)?,
        || "`cargo xtask test --exhaustive --part K/12` for each K; `--report` shows what ran".to_owned(),
    ));
    Ok(items)
}

fn item(subject: &'static str, is_done: bool, way: impl FnOnce() -> String) -> ReleaseItem {
    ReleaseItem { subject, missing: (!is_done).then(way) }
}

/// Rest of the first line that begins with `before`, behind its indentation.
fn version_in(text: &str, before: &str) -> Option<String> {
    text.lines().find_map(|line| line.trim().strip_prefix(before)).map(ToOwned::to_owned)
}

/// Return the part that the changelog lacks for this version: a section of its own with a date, in the form of Keep a Changelog.
fn missing_changes(changelog: &str) -> Option<String> {
    let heading = format!("## [{VERSION}] - ");
    let Some((_, section)) = changelog.split_once(&heading) else {
        return Some(format!("CHANGELOG.md has no heading `{heading}YYYY-MM-DD`; rename \"Unreleased\""));
    };
    let section = section.split("\n## ").next().unwrap_or_default();
    let is_date = |text: &str| {
        let parts: Vec<&str> = text.split('-').collect();
        parts.len() == 3
            && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    let date = section.lines().next().unwrap_or_default().trim();
    if !is_date(date) {
        return Some(format!("CHANGELOG.md: {date:?} is no date"));
    }
    (!section.contains("\n- ")).then(|| format!("CHANGELOG.md says nothing about {VERSION}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_need_a_dated_section_with_a_line() {
        let section = |text: &str| format!("# Changelog\n\n{text}\n\n## [0.0.1] - 2020-01-01\n\n- old\n");
        for (text, missing) in [
            (format!("## [{VERSION}] - 2026-11-28\n\n### Added\n\n- a"), None),
            ("## Unreleased\n\n- a".to_owned(), Some("has no heading")),
            (format!("## [{VERSION}] - soon\n\n- a"), Some("is no date")),
            (format!("## [{VERSION}] - 2026-11-28\n"), Some("says nothing")),
        ] {
            let found = missing_changes(&section(&text));
            match missing {
                None => assert_eq!(found, None),
                Some(part) => assert!(found.as_ref().is_some_and(|way| way.contains(part)), "{found:?}"),
            }
        }
    }

    #[test]
    fn version_is_found_between_its_neighbours() {
        assert_eq!(version_in("a\nnewTag: 1.2.3\nb", "newTag: ").as_deref(), Some("1.2.3"));
        assert_eq!(version_in("a", "newTag: "), None);
    }
}

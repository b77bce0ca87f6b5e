//! Results of exhaustive runs, kept per commit and part in `target/exhaustive`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::outcome::{self, CheckRow};
use crate::commit::TestedCommit;
use crate::part_number::PartNumber;
use crate::project_tree::ProjectTree;
use crate::testing::TestTally;

/// The time that a part should take at most, in seconds.
const MOST_SECONDS: u64 = 60 * 60;

/// The result of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PartResult {
    tally: TestTally,
    seconds: u64,
}

impl PartResult {
    fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let number = |key: &str| u32::try_from(value.get(key)?.as_u64()?).ok();
        let [passed, failed, skipped] = ["passed", "failed", "skipped"].map(number);
        let tally = TestTally { passed: passed?, failed: failed?, skipped: skipped? };
        Some(Self { tally, seconds: value.get("seconds")?.as_u64()? })
    }
}

fn directory(tree: &ProjectTree) -> PathBuf {
    let commit = TestedCommit::of(tree).map_or_else(|| "no-commit".to_owned(), |commit| commit.name());
    tree.target().join("exhaustive").join(commit)
}

fn file_name(part: PartNumber) -> String {
    format!("part-{}-of-{}.json", part.index(), part.count())
}

fn part_of(name: &str) -> Option<PartNumber> {
    let (index, count) = name.strip_prefix("part-")?.strip_suffix(".json")?.split_once("-of-")?;
    PartNumber::new(index.parse().ok()?, count.parse().ok()?).ok()
}

/// Write the result of a part, in place of an earlier one.
///
/// # Errors
/// The file cannot be written.
pub fn keep(tree: &ProjectTree, part: PartNumber, rows: &[CheckRow]) -> Result<()> {
    let directory = directory(tree);
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    let path = directory.join(file_name(part));
    let tally = outcome::total(rows);
    let seconds: u64 = rows.iter().filter_map(|row| row.time).map(|time| time.as_secs()).sum();
    let checks: Vec<_> = rows.iter().map(CheckRow::as_json).collect();
    let [passed, failed, skipped] = [tally.passed, tally.failed, tally.skipped];
    let result = json!({
        "passed": passed, "failed": failed, "skipped": skipped, "seconds": seconds, "checks": checks,
    });
    fs::write(&path, format!("{result:#}\n")).with_context(|| format!("writing {}", path.display()))
}

/// Print the results of this commit; the exit code is a failure unless all parts of some number of parts
/// passed.
///
/// # Errors
/// The results cannot be read.
pub fn print_report(tree: &ProjectTree) -> Result<ExitCode> {
    println!("\n==== exhaustive parts in {} ====", directory(tree).display());
    let (text, is_complete) = render(&results(tree)?);
    println!("{text}");
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Return true if all parts of some number of parts passed on this commit.
///
/// # Errors
/// The results cannot be read.
pub fn is_complete(tree: &ProjectTree) -> Result<bool> {
    Ok(render(&results(tree)?).1)
}

fn results(tree: &ProjectTree) -> Result<BTreeMap<PartNumber, PartResult>> {
    let directory = directory(tree);
    let mut results = BTreeMap::new();
    if directory.is_dir() {
        for entry in fs::read_dir(&directory).with_context(|| format!("listing {}", directory.display()))? {
            let path = entry?.path();
            let part = path.file_name().and_then(|name| part_of(&name.to_string_lossy()));
            let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            if let (Some(part), Some(result)) = (part, PartResult::parse(&text)) {
                results.insert(part, result);
            }
        }
    }
    Ok(results)
}

/// Render the results. Returns true if all parts of some number of parts passed.
fn render(results: &BTreeMap<PartNumber, PartResult>) -> (String, bool) {
    let mut counts: Vec<_> = results.keys().map(|part| part.count()).collect();
    counts.dedup();
    if counts.is_empty() {
        return ("no part ran on this commit".to_owned(), false);
    }
    let mut lines = Vec::new();
    let mut is_complete = false;
    for count in counts {
        let parts: Vec<_> = PartNumber::all(count).map(|part| (part, results.get(&part))).collect();
        lines.extend(parts.iter().map(|(part, result)| line(*part, *result)));
        let seconds: u64 = parts.iter().filter_map(|(_, result)| *result).map(|result| result.seconds).sum();
        let missing = parts.iter().filter(|(_, result)| result.is_none()).count();
        let failed = parts.iter().filter_map(|(_, result)| *result).any(|result| result.tally.failed > 0);
        let summary = match (failed, missing) {
            (true, _) => "failed".to_owned(),
            (false, 0) => "all parts passed".to_owned(),
            (false, missing) => format!("{missing} of {count} parts missing"),
        };
        is_complete |= !failed && missing == 0;
        lines.push(format!("{count:>5} parts {seconds:>8} s  {summary}"));
    }
    (lines.join("\n"), is_complete)
}

fn line(part: PartNumber, result: Option<&PartResult>) -> String {
    let Some(PartResult { tally, seconds }) = result else {
        return format!("{:>11} {:>8} s  not run", part.to_string(), "-");
    };
    let long = if *seconds > MOST_SECONDS { "; longer than an hour: use more parts" } else { "" };
    format!("{:>11} {seconds:>8} s  {tally}{long}", part.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(failed: [u32; 2], parts: u32) -> BTreeMap<PartNumber, PartResult> {
        let result =
            |failed| PartResult { tally: TestTally { passed: 5, failed, skipped: 1 }, seconds: 4000 };
        let parts = PartNumber::all(2).zip(failed).take(parts as usize);
        parts.map(|(part, failed)| (part, result(failed))).collect()
    }

    #[test]
    fn report_is_complete_when_all_parts_passed() {
        assert!(render(&results([0, 0], 2)).1);
        assert!(!render(&results([0, 1], 2)).1);
        assert!(!render(&results([0, 0], 0)).1);
        let (text, is_complete) = render(&results([0, 0], 1));
        let expected = "        1/2     4000 s  5 passed, 0 failed, 1 skipped; longer than an hour: use more parts\n\
            \u{20}       2/2        - s  not run\n\
            \u{20}   2 parts     4000 s  1 of 2 parts missing";
        assert_eq!((text.as_str(), is_complete), (expected, false));
    }

    #[test]
    fn kept_result_is_read_again() {
        let text = r#"{"passed": 3, "failed": 1, "skipped": 2, "seconds": 70, "checks": []}"#;
        let tally = TestTally { passed: 3, failed: 1, skipped: 2 };
        assert_eq!(PartResult::parse(text), Some(PartResult { tally, seconds: 70 }));
        assert_eq!(PartResult::parse("{"), None);
        let part = PartNumber::new(2, 8).unwrap();
        assert_eq!(part_of(&file_name(part)), Some(part));
    }
}

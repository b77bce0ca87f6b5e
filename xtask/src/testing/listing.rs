//! The names of tests in the lists of both runners.

use anyhow::{Context, Result};
use serde_json::Value;

/// Parse the list of `cargo nextest list --message-format json`; return the tests that match its filter.
pub fn parse_nextest(json: &str) -> Result<Vec<String>> {
    let list: Value = serde_json::from_str(json).context("parsing nextest's list of tests")?;
    let suites =
        list.get("rust-suites").and_then(Value::as_object).context("nextest's list has no `rust-suites`")?;
    let cases = suites.values().filter_map(|suite| suite.get("testcases")?.as_object()).flatten();
    let matching = cases
        .filter(|(_, case)| case.pointer("/filter-match/status").is_some_and(|status| status == "matches"));
    Ok(matching.map(|(name, _)| name.clone()).collect())
}

/// Parse the list of `cargo test -- --list`: one line `NAME: test` for each test.
pub fn parse_cargo(lines: &str) -> Vec<String> {
    lines.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nextest_lists_the_matching_tests() {
        let json = r#"{"test-count":2,"rust-suites":{"vm::hosts":{"binary-name":"hosts","testcases":{
            "cuts::a_rollback":{"ignored":false,"filter-match":{"status":"matches"}},
            "kola::updates":{"ignored":true,"filter-match":{"status":"mismatch","reason":"ignored"}}}}}}"#;
        assert_eq!(parse_nextest(json).unwrap(), ["cuts::a_rollback"]);
        assert!(parse_nextest("{}").is_err());
    }

    #[test]
    fn cargo_lists_tests_and_no_summary() {
        let lines = "cuts::a_rollback: test\nfigures::speed: benchmark\n\n1 test, 1 benchmark\n";
        assert_eq!(parse_cargo(lines), ["cuts::a_rollback"]);
    }
}

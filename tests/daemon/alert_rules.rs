//! Alert rules, dashboard and runbook: the tools of Prometheus accept them, and they agree with each other and with what the
//! daemon exports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testbed::promtool;

const RULES: &str = "deploy/monitoring/rules.yaml";
const METRICS_PAGE: &str = "docs/usage/metrics-and-alerts.md";
/// Beginning of the object that Prometheus' operator reads; the groups follow, two columns further to the right.
const RULE_OBJECT: &str = "# Written from rules.yaml, for the operator of Prometheus: `FLAMEHOLDER_BLESS=1 cargo nextest run alert_rules`.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: flameholder
  labels:
    app.kubernetes.io/name: flameholder
spec:
";

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Expressions of the dashboard's panels, with values for its variables.
fn expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("deploy/monitoring/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    expressions.map(|text| text.replace("$job", ".*").replace("$__rate_interval", "5m")).collect()
}

/// Names of metrics in a text.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_metric = |word: &&str| {
        let prefixes = ["flameholder_", "mcd_", "process_"];
        prefixes.iter().any(|prefix| word.starts_with(prefix) && word.len() > prefix.len())
    };
    words.filter(is_metric).map(str::to_owned).collect()
}

/// Names of the metrics that the daemon has in its source.
fn exported() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/daemon/metrics");
    let files = fs::read_dir(folder).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let literals =
        files.flat_map(|text| text.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>());
    literals.filter(|literal| metrics(literal).contains(literal)).collect()
}

/// A counter has an ending in the text that its name in the source lacks.
fn without_ending(name: &str) -> &str {
    name.strip_suffix("_total").unwrap_or(name)
}

#[test]
fn rules_and_panels_are_valid_and_name_metrics_that_are_exported_and_documented() {
    testbed::preconditions::require_installed(&["promtool"]);
    let panels = expressions();
    let records: Vec<_> = panels.iter().map(|text| json!({"record": "panel:query", "expr": text})).collect();
    promtool::assert_valid_rules(&read(RULES));
    promtool::assert_valid_rules(&json!({"groups": [{"name": "panels", "rules": records}]}).to_string());

    let exported = exported();
    let exported: BTreeSet<&str> = exported.iter().map(|name| without_ending(name)).collect();
    let page = read(METRICS_PAGE);
    let documented = metrics(&page);
    let documented: BTreeSet<&str> = documented.iter().map(|name| without_ending(name)).collect();
    assert_eq!(documented, exported);
    for name in metrics(&(read(RULES) + &panels.join("\n"))) {
        assert!(exported.contains(without_ending(&name)), "{name} is not exported");
    }
}

#[test]
fn each_alert_has_a_section_in_the_runbook() {
    let rules = read(RULES);
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let links: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: ")).collect();
    let runbook = read("docs/usage/runbook.md");
    let sections: Vec<&str> = runbook.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(alerts, sections);
    let anchors: Vec<&str> =
        links.iter().filter_map(|link| link.split_once('#')).map(|(_, anchor)| anchor).collect();
    assert_eq!(anchors, alerts.iter().map(|alert| alert.to_lowercase()).collect::<Vec<_>>());
}

/// Rewrites the object if `FLAMEHOLDER_BLESS` is set.
#[test]
fn object_of_the_operator_has_the_same_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/monitoring/prometheus-rule.yaml");
    let rules = read(RULES);
    let groups = rules.lines().filter(|line| !line.starts_with('#')).map(|line| format!("  {line}\n"));
    let object = RULE_OBJECT.to_owned() + &groups.collect::<String>();
    if std::env::var_os("FLAMEHOLDER_BLESS").is_some() {
        fs::write(&path, &object).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), object, "{} is stale", path.display());
}

#[test]
fn alerts_about_time_fire_after_an_hour_in_a_phase() {
    testbed::preconditions::require_installed(&["promtool"]);
    for (phase, expected) in [("Draining", "FlameholderDrainStuck"), ("Fetching", "FlameholderPhaseStuck")] {
        let labels: BTreeMap<_, _> = [("job", "flameholder"), ("instance", "edge-7")].into();
        let series = [
            (
                format!("flameholder_phase{{phase=\"{phase}\",job=\"flameholder\",instance=\"edge-7\"}}"),
                "1+0x90",
            ),
            (
                "flameholder_phase{phase=\"Done\",job=\"flameholder\",instance=\"edge-7\"}".to_owned(),
                "0+0x90",
            ),
            (
                "flameholder_phase_start_timestamp_seconds{job=\"flameholder\",instance=\"edge-7\"}"
                    .to_owned(),
                "0+0x90",
            ),
        ];
        let series: Vec<_> =
            series.iter().map(|(name, values)| json!({"series": name, "values": values})).collect();
        let mut firing = json!(labels);
        firing["severity"] = json!("warning");
        let at = |time: &str, alert: &str, firing: &[Value]| {
            let alerts: Vec<_> = firing.iter().map(|labels| json!({"exp_labels": labels})).collect();
            json!({"eval_time": time, "alertname": alert, "exp_alerts": alerts})
        };
        let other =
            ["FlameholderDrainStuck", "FlameholderPhaseStuck"].into_iter().find(|name| *name != expected);
        let tests =
            [at("55m", expected, &[]), at("75m", expected, &[firing]), at("75m", other.unwrap(), &[])];
        promtool::assert_rule_tests(RULES, "1m", &series, &tests);
    }
}

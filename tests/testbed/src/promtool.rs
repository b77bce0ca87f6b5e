//! Prometheus' own tool, which checks scrapes and evaluates alert rules on them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Labels that the cluster's monitoring adds to each series of a node.
const TARGET: [(&str, &str); 2] = [("job", "machine-config-daemon"), ("node", "edge-7")];

/// Alert rules that scrapes are tested with.
pub struct AlertRules {
    /// Relative to the repository's root.
    file: &'static str,
    /// Alerts, each with its series and severity.
    alerts: &'static [(&'static str, &'static str, &'static str)],
    /// Labels that the rules add.
    labels: &'static [(&'static str, &'static str)],
}

/// Rules of the machine-config-operator.
pub const OPERATOR_RULES: AlertRules = AlertRules {
    file: "tests/fixtures/monitoring/mcd-alerts.yaml",
    alerts: &[
        ("MCDRebootError", "mcd_reboots_failed_total", "critical"),
        ("MCDPivotError", "mcd_pivot_errors_total", "warning"),
        ("KubeletHealthState", "mcd_kubelet_state", "warning"),
        ("MissingMachineConfig", "mcd_missing_mc", "warning"),
    ],
    labels: &[("namespace", "openshift-machine-config-operator")],
};
/// Rules of the project, but for those about time, which scrapes of a few seconds cannot show.
pub const OWN_RULES: AlertRules = AlertRules {
    file: "deploy/monitoring/rules.yaml",
    alerts: &[
        ("FlameholderBlocked", "flameholder_blocked", "critical"),
        ("FlameholderDegraded", "mcd_state", "warning"),
        ("FlameholderUnreconcilable", "mcd_state", "warning"),
        ("FlameholderDrift", "mcd_config_drift", "warning"),
        ("FlameholderFailing", "flameholder_consecutive_failures", "warning"),
        ("FlameholderSourceUnreadable", "flameholder_source_up", "warning"),
        ("FlameholderImageFailing", "mcd_pivot_errors_total", "warning"),
        ("FlameholderRebootFailed", "mcd_reboots_failed_total", "critical"),
    ],
    labels: &[],
};

/// Findings of `promtool check metrics` about a scrape in the classic text format.
pub fn findings(scrape: &str) -> Vec<String> {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(scrape.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    // 3 stands for findings, 1 for a text that is not in the format.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}\n{scrape}");
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

/// Panics unless `promtool check rules` accepts the rules.
pub fn assert_valid_rules(rules: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rules.yaml");
    fs::write(&file, rules).unwrap();
    // Its linter looks for rules that are there twice, which panels may be.
    let output = Command::new("promtool").args(["check", "rules", "--lint=none"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Panics unless the alerts that fire on a node with this scrape are `expected`.
pub fn assert_alerts(rules: &AlertRules, scrape: &str, expected: &[&str]) {
    let series: Vec<Value> = samples(scrape)
        .into_iter()
        .map(|(name, labels, value)| json!({"series": written(&name, &labels), "values": format!("{value}+0x60")}))
        .collect();
    let alerts: Vec<Value> = rules
        .alerts
        .iter()
        .map(|(alert, metric, severity)| {
            let fires = expected.contains(alert);
            let firing = samples(scrape).into_iter().filter(|(name, ..)| fires && name == metric);
            let firing: Vec<Value> = firing
                .map(|(_, mut labels, _)| {
                    for (name, value) in rules.labels.iter().chain(&[("severity", *severity)]) {
                        labels.insert((*name).to_owned(), (*value).to_owned());
                    }
                    json!({"exp_labels": labels})
                })
                .collect();
            assert_eq!(firing.is_empty(), !fires, "{alert}: {metric} is missing in\n{scrape}");
            json!({"eval_time": "20m", "alertname": alert, "exp_alerts": firing})
        })
        .collect();
    assert_rule_tests(rules.file, "30s", &series, &alerts);
}

/// Panics unless `promtool test rules` succeeds with these series, which have a value for each interval, and these tests.
pub fn assert_rule_tests(rules: &str, interval: &str, series: &[Value], tests: &[Value]) {
    let directory = tempfile::tempdir().unwrap();
    let original =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(rules)).unwrap();
    let rules = directory.path().join("rules.yaml");
    fs::write(&rules, without_annotations(&original)).unwrap();
    let test = json!({
        "rule_files": [rules],
        "evaluation_interval": interval,
        "tests": [{"interval": interval, "input_series": series, "alert_rule_test": tests}],
    });
    let file = directory.path().join("test.yaml");
    // JSON is YAML.
    fs::write(&file, test.to_string()).unwrap();
    let output = Command::new("promtool").args(["test", "rules"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}\n{series:?}");
}

/// Remove what tests would have to repeat word by word.
fn without_annotations(rules: &str) -> String {
    let mut within = None;
    let is_kept = |line: &&str| {
        let indent = line.len() - line.trim_start().len();
        within = within.filter(|begin| indent > *begin);
        if line.trim() == "annotations:" {
            within = Some(indent);
        }
        within.is_none()
    };
    rules.lines().filter(is_kept).map(|line| format!("{line}\n")).collect()
}

/// Samples of a scrape, with the labels that the monitoring adds. A label of the node's own precedes.
fn samples(scrape: &str) -> Vec<(String, BTreeMap<String, String>, String)> {
    let lines = scrape.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, own) = series.split_once('{').unwrap_or((series, "}"));
            let mut labels: BTreeMap<String, String> =
                TARGET.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            for label in own.trim_end_matches('}').split(',').filter(|label| !label.is_empty()) {
                let (name, value) = label.split_once('=').unwrap();
                labels.insert(name.to_owned(), value.trim_matches('"').to_owned());
            }
            (name.to_owned(), labels, value.to_owned())
        })
        .collect()
}

fn written(name: &str, labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    format!("{name}{{{}}}", labels.join(","))
}

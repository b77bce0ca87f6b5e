//! Prometheus' own tool, which checks scrapes and evaluates alert rules on them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Labels that the cluster's monitoring adds to each series of a node.
const TARGET: [(&str, &str); 2] = [("job", "machine-config-daemon"), ("node", "edge-7")];
/// Alerts of the rules, each with its metric and severity.
const ALERTS: [(&str, &str, &str); 4] = [
    ("MCDRebootError", "mcd_reboots_failed_total", "critical"),
    ("MCDPivotError", "mcd_pivot_errors_total", "warning"),
    ("KubeletHealthState", "mcd_kubelet_state", "warning"),
    ("MissingMachineConfig", "mcd_missing_mc", "warning"),
];

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

/// Panics unless the alerts of the machine-config-operator that fire on a node with this scrape are `expected`.
pub fn assert_alerts(scrape: &str, expected: &[&str]) {
    let series: Vec<Value> = samples(scrape)
        .into_iter()
        .map(|(name, labels, value)| json!({"series": written(&name, &labels), "values": format!("{value}+0x40")}))
        .collect();
    let alerts: Vec<Value> = ALERTS
        .iter()
        .map(|(alert, metric, severity)| {
            let fires = expected.contains(alert);
            let firing = samples(scrape).into_iter().filter(|(name, ..)| fires && name == metric);
            let firing: Vec<Value> = firing
                .map(|(_, mut labels, _)| {
                    labels.insert("namespace".to_owned(), "openshift-machine-config-operator".to_owned());
                    labels.insert("severity".to_owned(), (*severity).to_owned());
                    json!({"exp_labels": labels})
                })
                .collect();
            assert_eq!(firing.is_empty(), !fires, "{alert}: {metric} is missing in\n{scrape}");
            json!({"eval_time": "15m", "alertname": alert, "exp_alerts": firing})
        })
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/monitoring/mcd-alerts.yaml");
    let test = json!({
        "rule_files": [rules.canonicalize().unwrap()],
        "evaluation_interval": "30s",
        "tests": [{"interval": "30s", "input_series": series, "alert_rule_test": alerts}],
    });
    let file = directory.path().join("test.yaml");
    // JSON is YAML.
    fs::write(&file, test.to_string()).unwrap();
    let output = Command::new("promtool").args(["test", "rules"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}\n{scrape}");
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

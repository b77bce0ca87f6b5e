//! `MachineConfiguration` objects of `operator.openshift.io/v1`: the cluster's node disruption policy, and its
//! overrides of the validation of irreconcilable changes.

use serde::Deserialize;
use serde_json::Value;

use super::policy::{DisruptionAction, DisruptionPolicy};
use super::{document, ignition};
use crate::core::values::names::ManagedPath;
use crate::core::values::refusal::{Refusal, RefusalList};

const KIND: &str = "MachineConfiguration";

#[derive(Debug, Default, Deserialize)]
struct Rules {
    #[serde(default)]
    files: Option<Vec<FileRule>>,
    #[serde(default)]
    units: Option<Vec<UnitRule>>,
    #[serde(default)]
    sshkey: Option<KeyRule>,
}

#[derive(Debug, Deserialize)]
struct FileRule {
    path: String,
    actions: Vec<ActionItem>,
}

#[derive(Debug, Deserialize)]
struct UnitRule {
    name: String,
    actions: Vec<ActionItem>,
}

#[derive(Debug, Deserialize)]
struct KeyRule {
    actions: Vec<ActionItem>,
}

#[derive(Debug, Deserialize)]
struct ActionItem {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    reload: Option<Subject>,
    #[serde(default)]
    restart: Option<Subject>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subject {
    service_name: String,
}

/// Parse the node disruption policy: the effective one from the status if the operator has written it, else
/// the spec over the defaults. With it come the sections of a MachineConfig whose changes are let through.
pub fn parse_policy(bytes: &[u8]) -> Result<DisruptionPolicy, RefusalList> {
    let object = document::parse(bytes)?;
    if object.get("kind").and_then(Value::as_str) != Some(KIND) {
        return Err(RefusalList::one("kind", format!("the object is not a {KIND}")));
    }
    let effective = "/status/nodeDisruptionPolicyStatus/clusterPolicies";
    let (pointer, mut policy) = match object.pointer(effective) {
        Some(Value::Object(_)) => (effective, DisruptionPolicy::empty()),
        _ => ("/spec/nodeDisruptionPolicy", DisruptionPolicy::default()),
    };
    let field = pointer.trim_start_matches('/').replace('/', ".");
    let rules = match object.pointer(pointer) {
        None | Some(Value::Null) => Rules::default(),
        Some(rules) => ignition::typed::<Rules>(rules, &field)?.0,
    };
    let overrides = "/spec/irreconcilableValidationOverrides/storage";
    if let Some(sections) = object.pointer(overrides).filter(|sections| !sections.is_null()) {
        let field = overrides.trim_start_matches('/').replace('/', ".");
        let sections = ignition::typed::<Vec<String>>(sections, &field)?.0;
        for section in &sections {
            policy.override_section(section);
        }
    }
    let mut refused = Vec::new();
    for (index, rule) in rules.files.unwrap_or_default().into_iter().enumerate() {
        let field = format!("{field}.files[{index}]");
        match ManagedPath::simplified(&rule.path) {
            Ok(path) => policy.set_file(path.as_str(), actions(rule.actions, &field, &mut refused)),
            Err(error) => refused.push(Refusal::new(format!("{field}.path"), error.to_string())),
        }
    }
    for (index, rule) in rules.units.unwrap_or_default().into_iter().enumerate() {
        let field = format!("{field}.units[{index}]");
        policy.set_unit(&rule.name, actions(rule.actions, &field, &mut refused));
    }
    if let Some(rule) = rules.sshkey {
        policy.set_keys(actions(rule.actions, &format!("{field}.sshkey"), &mut refused));
    }
    RefusalList::or(refused, policy)
}

fn actions(items: Vec<ActionItem>, field: &str, refused: &mut Vec<Refusal>) -> Vec<DisruptionAction> {
    let mut actions = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        match action(item) {
            Ok(action) => actions.push(action),
            Err(reason) => refused.push(Refusal::new(format!("{field}.actions[{index}]"), reason)),
        }
    }
    actions
}

fn action(item: ActionItem) -> Result<DisruptionAction, String> {
    let unit = |subject: Option<Subject>| {
        let subject = subject.ok_or("the action names no unit in `serviceName`")?;
        DisruptionAction::parse_unit(&subject.service_name)
    };
    Ok(match item.kind.as_str() {
        "None" => DisruptionAction::None,
        "DaemonReload" => DisruptionAction::DaemonReload,
        "Reload" => DisruptionAction::Reload(unit(item.reload)?),
        "Restart" => DisruptionAction::Restart(unit(item.restart)?),
        "Special" => DisruptionAction::Special,
        "Drain" => DisruptionAction::Drain,
        "Reboot" => DisruptionAction::Reboot,
        other => {
            let other: String = other.chars().take(32).collect();
            return Err(format!("unknown action `{other}`"));
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(path: &str) -> ManagedPath {
        ManagedPath::constant(path)
    }

    fn parse(object: &Value) -> Result<DisruptionPolicy, RefusalList> {
        parse_policy(object.to_string().as_bytes())
    }

    #[test]
    fn overrides_of_the_spec_let_sections_through() {
        let with = |storage: Value| {
            parse(&json!({"kind": KIND, "spec": {"irreconcilableValidationOverrides": {"storage": storage}},
                "status": {"nodeDisruptionPolicyStatus": {"clusterPolicies": {}}}}))
        };
        let policy = with(json!(["Disks", "FileSystems", "Tapes"])).unwrap();
        let sections = ["disks", "filesystems", "raid", "luks"];
        let overridden =
            sections.map(|section| policy.is_overridden(&format!("spec.config.storage.{section}")));
        assert_eq!(overridden, [true, true, false, false]);
        assert_eq!(
            with(Value::Null),
            parse(&json!({"kind": KIND, "status":
            {"nodeDisruptionPolicyStatus": {"clusterPolicies": {}}}}))
        );
        let refused = with(json!([1])).unwrap_err().to_string();
        assert!(refused.contains("spec.irreconcilableValidationOverrides.storage"), "{refused}");
    }

    #[test]
    fn spec_is_applied_over_the_defaults() {
        let policy = parse(&json!({"kind": KIND, "spec": {"nodeDisruptionPolicy": {
            "files": [
                {"path": "/etc/example.d", "actions": [{"type": "Drain"}, {"type": "Reload", "reload": {"serviceName": "crio.service"}}]},
                {"path": "/etc/containers/registries.conf", "actions": [{"type": "None"}]}],
            "units": [{"name": "demo.service", "actions": [{"type": "DaemonReload"}, {"type": "Restart", "restart": {"serviceName": "demo.service"}}]}],
            "sshkey": {"actions": [{"type": "Reboot"}]}}}}))
        .unwrap();
        let reload = DisruptionAction::Reload("crio.service".into());
        assert_eq!(policy.of_file(&path("/etc/example.d/x")).unwrap().1, [DisruptionAction::Drain, reload]);
        assert_eq!(
            policy.of_file(&path("/etc/containers/registries.conf")).unwrap().1,
            [DisruptionAction::None]
        );
        assert!(policy.of_file(&path("/var/lib/kubelet/config.json")).is_some(), "a default");
        assert_eq!(policy.of_unit("demo.service").unwrap().len(), 2);
        assert_eq!(policy.of_keys(), [DisruptionAction::Reboot]);
    }

    #[test]
    fn status_replaces_spec_and_defaults() {
        let policy =
            parse(&json!({"kind": KIND, "status": {"nodeDisruptionPolicyStatus": {"clusterPolicies": {
            "files": [{"path": "/etc/only", "actions": [{"type": "None"}]}]}}}}))
            .unwrap();
        assert!(policy.of_file(&path("/etc/only")).is_some());
        assert!(policy.of_file(&path("/var/lib/kubelet/config.json")).is_none());
    }

    #[test]
    fn refusal_names_the_field() {
        for (rules, field) in [
            (json!({"files": [{"path": "x", "actions": []}]}), "files[0].path"),
            (json!({"files": [{"path": "/x", "actions": [{"type": "Explode"}]}]}), "files[0].actions[0]"),
            (json!({"sshkey": {"actions": [{"type": "Reload"}]}}), "sshkey.actions[0]"),
            (json!({"units": [{"name": "x.service"}]}), "units[0]"),
        ] {
            let object = json!({"kind": KIND, "spec": {"nodeDisruptionPolicy": rules}});
            let message = parse(&object).unwrap_err().to_string();
            assert!(message.contains(field), "{message}");
        }
        assert!(parse(&json!({"kind": "Pod"})).unwrap_err().to_string().starts_with("kind"));
    }
}

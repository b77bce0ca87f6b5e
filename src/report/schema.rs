//! JSON schemas of the documents, generated from their types. `docs/schema/` holds the generated text.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::report::change::ChangeDocument;
use crate::report::error::ErrorDocument;
use crate::report::etc_diff::EtcDiffDocument;
use crate::report::fleet::FleetDocument;
use crate::report::history::HistoryDocument;
use crate::report::plan::PlanDocument;
use crate::report::status::StatusDocument;
use crate::report::verify::VerifyDocument;
use crate::report::version::VersionDocument;

/// Generate the schema of each document, with the name of its command, or `change` or `error`.
#[must_use]
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("change", schema_of::<ChangeDocument>("change")),
        ("error", schema_of::<ErrorDocument>("error")),
        ("etc-diff", schema_of::<EtcDiffDocument>("etc-diff")),
        ("fleet", schema_of::<FleetDocument>("fleet")),
        ("history", schema_of::<HistoryDocument<'_>>("history")),
        ("plan", with_action_rules(schema_of::<PlanDocument<'_>>("plan"))),
        ("status", schema_of::<StatusDocument>("status")),
        ("verify", schema_of::<VerifyDocument<'_>>("verify")),
        ("version", schema_of::<VersionDocument>("version")),
    ]
}

/// Generate the schema of what serde writes: a member is required unless its field can be skipped.
fn schema_of<T: JsonSchema>(command: &str) -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    // Each document has a version of its own: the value of its member `schema`.
    let version = schema.pointer("/properties/schema/const").cloned().unwrap_or_default();
    schema.insert("$id".to_owned(), json!(format!("urn:flameholder:schema:{command}:{version}")));
    let title = match command {
        "change" => "command that changes something with -o json".to_owned(),
        "error" => "failed command with -o json".to_owned(),
        command => format!("flameholder {command} -o json"),
    };
    schema.insert("title".to_owned(), json!(title));
    schema.to_value()
}

/// Add the rules that types do not express: `None` stands alone and is the only action without a reason, units
/// belong to some kinds of actions, and `rebootRequired` is true if an action is a reboot.
fn with_action_rules(mut plan: Value) -> Value {
    let is = |kind: &str| json!({"required": ["type"], "properties": {"type": {"const": kind}}});
    let of_a_unit = json!({"required": ["type"],
        "properties": {"type": {"enum": ["Reload", "Restart", "Special"]}}});
    if let Some(action) = plan.pointer_mut("/$defs/ActionItem").and_then(Value::as_object_mut) {
        let rules = json!([
            {"if": of_a_unit, "then": {"required": ["unit"]}, "else": {"properties": {"unit": false}}},
            {"if": is("None"), "else": {"properties": {"because": {"minItems": 1}}}},
        ]);
        action.insert("allOf".to_owned(), rules);
    }
    if let Some(actions) = plan.pointer_mut("/properties/actions").and_then(Value::as_object_mut) {
        actions.insert("if".to_owned(), json!({"contains": is("None")}));
        actions.insert("then".to_owned(), json!({"maxItems": 1}));
    }
    if let Some(document) = plan.as_object_mut() {
        let reboots = json!({"properties": {"actions": {"contains": is("Reboot")}}});
        let stays = json!({"properties": {"actions": {"not": {"contains": is("Reboot")}}}});
        let required =
            json!({"required": ["rebootRequired"], "properties": {"rebootRequired": {"const": true}}});
        document.insert("if".to_owned(), required);
        document.insert("then".to_owned(), reboots);
        document.insert("else".to_owned(), stays);
    }
    plan
}

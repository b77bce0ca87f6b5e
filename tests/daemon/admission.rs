//! Admission policy of the daemons' identity, evaluated as the API server does: by its CEL expressions.

use cel::{Context, Program, Value as CelValue};
use serde_json::{Value, json};

use crate::deployment::documents;

const ACCOUNT: &str = "system:serviceaccount:openshift-machine-config-operator:flameholder";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Evaluate an expression about these variables.
pub(crate) fn evaluate(expression: &Value, variables: &[(&str, &Value)]) -> Result<bool, String> {
    let program = Program::compile(expression.as_str().unwrap()).unwrap();
    let mut context = Context::default();
    for (name, value) in variables {
        context.add_variable(*name, *value).unwrap();
    }
    match program.execute(&context) {
        Ok(CelValue::Bool(holds)) => Ok(holds),
        Ok(other) => panic!("{other:?} is no boolean"),
        Err(error) => Err(error.to_string()),
    }
}

/// True if the policy admits the write of a MachineConfigNode named `object` by this account.
fn is_admitted(account: &str, extra: &Value, object: &str) -> bool {
    let policy = &documents("base/admission-policy.yaml")[0]["spec"];
    assert_eq!(policy["failurePolicy"], "Fail", "an expression that fails denies");
    let user = match extra {
        Value::Null => json!({"username": account}),
        extra => json!({"username": account, "extra": extra}),
    };
    let (request, object) = (json!({"userInfo": user}), json!({"metadata": {"name": object}}));
    let variables = [("request", &request), ("object", &object)];
    let conditions = policy["matchConditions"].as_array().unwrap();
    if conditions.iter().any(|one| evaluate(&one["expression"], &variables) == Ok(false)) {
        return true;
    }
    let validations = policy["validations"].as_array().unwrap();
    validations.iter().all(|one| evaluate(&one["expression"], &variables) == Ok(true))
}

#[test]
fn daemon_writes_the_object_of_its_own_node_only() {
    let own = json!({NODE_NAME: ["edge-7"]});
    assert!(is_admitted(ACCOUNT, &own, "edge-7"));
    assert!(!is_admitted(ACCOUNT, &own, "edge-8"));
    assert!(!is_admitted(ACCOUNT, &own, "edge-77"));
    // A token that is bound to no node, as `kubectl create token` makes it.
    for unbound in [Value::Null, json!({}), json!({NODE_NAME: []}), json!({"other": ["edge-7"]})] {
        assert!(!is_admitted(ACCOUNT, &unbound, "edge-7"), "{unbound}");
    }
    // The controllers of the cluster are not restricted.
    let controller = "system:serviceaccount:openshift-machine-config-operator:machine-config-controller";
    assert!(is_admitted(controller, &Value::Null, "edge-8"));
}

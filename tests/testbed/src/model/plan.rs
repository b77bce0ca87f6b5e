//! Expected `plan -o json` for two configs, and complaints about other answers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::config::Config;

const CRIO: &str = "crio.service";
const KUBELET: &str = "kubelet.service";
const CA_TRUST: &str = "coreos-update-ca-trust.service";
const REGISTRY: &str = "iri-registry.service";

/// Type of an action, and its unit if it has one.
type Action = (&'static str, &'static str);

/// Default node disruption policy: actions of a change at a path or below it. Other paths need a reboot.
pub const POLICY: &[(&str, &[Action])] = &[
    ("/var/lib/kubelet/config.json", &[]),
    ("/etc/nmstate/openshift", &[]),
    ("/etc/machine-config-daemon/no-reboot/containers-gpg.pub", &[("Reload", CRIO)]),
    ("/etc/containers/policy.json", &[("Reload", CRIO)]),
    ("/etc/containers/registries.d", &[("Reload", CRIO)]),
    ("/etc/crio/policies", &[("Reload", CRIO)]),
    ("/etc/containers/registries.conf", &[("Special", "")]),
    (
        "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt",
        &[("Restart", CA_TRUST), ("Restart", CRIO)],
    ),
    ("/etc/kubernetes/credential-providers", &[("Restart", KUBELET)]),
    (
        "/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf",
        &[("DaemonReload", ""), ("Restart", KUBELET)],
    ),
    ("/etc/iri-registry", &[("Restart", REGISTRY)]),
    ("/usr/local/bin/load-registry-image.sh", &[("Restart", REGISTRY)]),
    ("/etc/pki/ca-trust/source/anchors/iri-root-ca.crt", &[("Restart", CA_TRUST)]),
];

/// Complaints about every part of `plan` that does not follow from the two configs.
pub fn complaints(plan: &Value, from: &Config, to: &Config) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut expect = |what: &str, is: &Value, wanted: Value| {
        if *is != wanted {
            complaints.push(format!("{what} is {is}, expected {wanted}"));
        }
    };
    let changes = &plan["changes"];
    let files = changed(&from.files, &to.files);
    let units = changed(&by_name(from), &by_name(to));
    expect("schema", &plan["schema"], json!(1));
    expect("profile", &plan["profile"], json!("native"));
    expect("current", &plan["current"], json!(from.name));
    expect("desired", &plan["desired"], json!(to.name));
    expect("files", &listed(&changes["files"], "path"), json!(files));
    let directories = changed(&from.directories, &to.directories);
    let links = changed(&from.links, &to.links);
    expect("directories", &listed(&changes["directories"], "path"), json!(directories));
    expect("links", &listed(&changes["links"], "path"), json!(links));
    expect("units", &listed(&changes["units"], "name"), json!(units));
    let switch = |is: &str, will: &str| {
        if is == will { Value::Null } else { json!({"from": is, "to": will}) }
    };
    // A config without an image has no image in the plan, not an empty one.
    let image = |image: &str| if image.is_empty() { Value::Null } else { json!(image) };
    let [is, will] = [from, to].map(|config| image(&config.os_image));
    let images = if is == will { Value::Null } else { json!({"from": is, "to": will}) };
    expect("osImage", &changes["osImage"], images);
    expect("kernelType", &changes["kernelType"], switch(&from.kernel_type, &to.kernel_type));
    let lists = |is: &[String], will: &[String]| {
        if is == will { Value::Null } else { json!({"from": is, "to": will}) }
    };
    expect("extensions", &changes["extensions"], lists(&from.extensions, &to.extensions));
    let arguments = &changes["kernelArguments"];
    let arguments = if arguments.is_null() {
        Value::Null
    } else {
        json!({"from": tokens(&arguments["from"]), "to": tokens(&arguments["to"])})
    };
    let [is, will] = [from, to].map(|config| tokens(&json!(config.kernel_arguments)));
    expect("kernelArguments", &arguments, lists(&is, &will));
    let [is, will] = [from, to].map(|config| config.keys.as_deref().unwrap_or_default());
    expect("sshKeys", &changes["sshKeys"], json!(is != will));
    expect("password", &changes["password"], json!(from.hash != to.hash));
    expect("fips", &changes["fips"], json!(from.fips != to.fips));
    expect("irreconcilable", &plan["irreconcilable"], json!([]));

    // Policies have no entries for directories and links.
    let chains = disruption(from, to, &files, &units).filter(|_| directories.is_empty() && links.is_empty());
    let reboot = chains.is_none();
    expect("rebootRequired", &plan["rebootRequired"], json!(reboot));
    if !files.contains_key("/etc/containers/registries.conf") || reboot {
        expect("drain", &plan["drain"], json!(reboot));
    }
    complaints.extend(misordered(&plan["actions"], chains));
    complaints
}

/// True if the configs differ in anything that a plan reports.
pub fn differ(from: &Config, to: &Config) -> bool {
    let parts = |config: &Config| {
        let arguments = tokens(&json!(config.kernel_arguments));
        let os = (config.os_image.clone(), config.kernel_type.clone(), config.extensions.clone(), arguments);
        let storage = (config.files.clone(), config.directories.clone(), config.links.clone());
        (storage, config.keys.clone().unwrap_or_default(), config.hash.clone(), os)
    };
    parts(from) != parts(to) || by_name(from) != by_name(to)
}

fn by_name(config: &Config) -> BTreeMap<String, super::config::Unit> {
    config.units.iter().map(|unit| (unit.name.clone(), unit.clone())).collect()
}

fn changed<T: PartialEq>(
    from: &BTreeMap<String, T>,
    to: &BTreeMap<String, T>,
) -> BTreeMap<String, &'static str> {
    let keys: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    let change = |key: &&String| match (from.get(*key), to.get(*key)) {
        (None, _) => Some("add"),
        (_, None) => Some("remove"),
        (is, will) if is != will => Some("modify"),
        _ => None,
    };
    keys.into_iter().filter_map(|key| Some((key.clone(), change(&key)?))).collect()
}

/// List of changes in a plan as an object from path or name to the kind of change. Every change must have a
/// reason.
fn listed(changes: &Value, key: &str) -> Value {
    let Some(changes) = changes.as_array() else {
        return json!("not a list");
    };
    let entry = |change: &Value| {
        let reasoned = change["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty());
        let kind = if reasoned { change["change"].clone() } else { json!("without a reason") };
        (change[key].as_str().unwrap_or_default().to_owned(), kind)
    };
    changes.iter().map(entry).collect::<serde_json::Map<_, _>>().into()
}

/// Kernel arguments: each entry is split at white space outside double quotes.
fn tokens(entries: &Value) -> Vec<String> {
    let mut tokens = Vec::new();
    for entry in entries.as_array().into_iter().flatten().filter_map(Value::as_str) {
        let mut quoted = false;
        let split = entry.split(|letter: char| {
            quoted ^= letter == '"';
            letter.is_whitespace() && !quoted
        });
        tokens.extend(split.filter(|token| !token.is_empty()).map(str::to_owned));
    }
    tokens
}

/// Actions of the policy for each change; `None` if one of them is a reboot.
fn disruption(
    from: &Config,
    to: &Config,
    files: &BTreeMap<String, &str>,
    units: &BTreeMap<String, &str>,
) -> Option<Vec<&'static [Action]>> {
    let os =
        |config: &Config| (config.os_image.clone(), config.kernel_type.clone(), config.extensions.clone());
    let kernel = |config: &Config| (tokens(&json!(config.kernel_arguments)), config.fips);
    if os(from) != os(to) || kernel(from) != kernel(to) {
        return None;
    }
    let files = files.keys().map(|path| policy_of(path));
    let units = units.keys().map(|name| {
        let actions: &[Action] = &[("DaemonReload", ""), ("Restart", REGISTRY)];
        (name == REGISTRY).then_some(actions)
    });
    files.chain(units).collect()
}

/// Actions of the longest policy path that is this path or a directory above it.
fn policy_of(path: &str) -> Option<&'static [Action]> {
    let covers =
        |policy: &str| path.strip_prefix(policy).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let covering = POLICY.iter().filter(|(policy, _)| covers(policy));
    covering.max_by_key(|(policy, _)| policy.len()).map(|(_, actions)| *actions)
}

/// Complaints if the plan's actions are not those of the chains, each once, or not in the order of each
/// chain.
fn misordered(actions: &Value, chains: Option<Vec<&'static [Action]>>) -> Vec<String> {
    let action = |action: &Value| {
        let kind = action["type"].as_str().unwrap_or_default().to_owned();
        let unit = if kind == "Special" { "" } else { action["unit"].as_str().unwrap_or_default() };
        (kind, unit.to_owned())
    };
    let planned: Vec<(String, String)> = actions.as_array().into_iter().flatten().map(action).collect();
    let planned: Vec<(&str, &str)> =
        planned.iter().map(|(kind, unit)| (kind.as_str(), unit.as_str())).collect();
    let planned: Vec<(&str, &str)> = planned.into_iter().filter(|action| *action != ("None", "")).collect();
    let chains = chains.unwrap_or_else(|| vec![&[("Reboot", "")]]);
    let restarts: BTreeSet<&str> =
        chains.iter().copied().flatten().filter(|a| a.0 == "Restart").map(|a| a.1).collect();
    let subsume = |action: &Action| {
        // `Special` for registries.conf affects the drain only; the action itself reloads crio.
        let unit = if action.0 == "Special" { CRIO } else { action.1 };
        if restarts.contains(unit) { ("Restart", unit) } else { *action }
    };
    let wanted: BTreeSet<Action> = chains.iter().copied().flatten().map(subsume).collect();

    let mut complaints = Vec::new();
    if planned.len() != wanted.len() || planned.iter().any(|action| !wanted.contains(action)) {
        complaints.push(format!("actions are {planned:?}, expected {wanted:?}"));
    }
    let position = |action: &Action| planned.iter().position(|planned| *planned == subsume(action));
    for pair in chains.iter().flat_map(|chain| chain.windows(2)) {
        if position(&pair[0]) > position(&pair[1]) {
            complaints.push(format!("actions {planned:?} run {:?} before {:?}", pair[1], pair[0]));
        }
    }
    if planned.iter().skip(1).any(|action| action.0 == "DaemonReload") {
        complaints.push(format!("actions {planned:?} do not reload systemd first"));
    }
    complaints
}

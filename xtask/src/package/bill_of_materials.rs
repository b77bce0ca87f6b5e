//! Bill of materials in the notation of `CycloneDX` 1.5.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::linked_crates::LinkedCrate;

/// Render the crates. The agent itself is the subject of the bill.
pub(super) fn render(crates: &[LinkedCrate]) -> Result<String> {
    let subject =
        crates.iter().find(|linked| linked.name == "flameholder").context("flameholder is not listed")?;
    let others = crates.iter().filter(|linked| linked.name != "flameholder");
    let links = crates.iter().map(|linked| {
        let on: Vec<_> = linked.dependencies.iter().map(|(name, version)| reference(name, version)).collect();
        json!({"ref": reference(&linked.name, &linked.version), "dependsOn": on})
    });
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(subject, "application")},
        "components": others.map(|linked| component(linked, "library")).collect::<Vec<_>>(),
        "dependencies": links.collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

fn component(linked: &LinkedCrate, kind: &str) -> Value {
    let LinkedCrate { name, version, license, .. } = linked;
    let reference = reference(name, version);
    // Old crates separate alternatives by a slash.
    let expression = license.replace('/', " OR ");
    let licenses: &[Value] = if license.is_empty() { &[] } else { &[json!({"expression": expression})] };
    json!({
        "type": kind,
        "bom-ref": reference,
        "name": name,
        "version": version,
        "purl": reference,
        "licenses": licenses,
    })
}

/// Package URL of a crate.
fn reference(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

//! Signatures of OS images: the demands of the host's policy are planned, recorded and shown.

use osimage::Os;
use serde_json::{Value, json};
use testbed::booted::config::full_config;
use testbed::booted::host::Host;

use crate::refusals::assert_refused;

const ACCEPTING: &str = r#"{"default": [{"type": "insecureAcceptAnything"}]}"#;

/// Host whose policy accepts every image.
fn accepting_host() -> Host {
    let host = Host::install(Os::new(1));
    host.write_etc("containers/policy.json", ACCEPTING);
    host
}

fn signature(host: &Host) -> Value {
    host.status()["deployments"][0]["generation"]["signature"].clone()
}

#[test]
fn image_of_which_no_rule_demands_the_required_signature_is_refused() {
    let host = accepting_host();
    host.write_etc("flameholder/config.d/10-image.toml", "[image]\nsignature = \"required\"\n");
    let (config, image) = (full_config("two"), host.image(&Os::new(2)));
    let words = ["the setting `image.signature` requires a signature", "default, demands nothing"];
    assert_refused(&host, &config, Some(&image), &words);
    let desired = host.config(config.json());
    let planned = host.run_ok(["flameholder", "plan", "--desired", &desired, "--os-image", &image]);
    assert!(planned.contains("but `image.signature` requires a signature"), "{planned}");
    // The setting is about images that are pulled, and not about the files of a config.
    host.update(&desired, None);
}

#[test]
fn verdict_of_the_pull_is_recorded_and_stays_with_the_image() {
    let host = accepting_host();
    let image = host.image(&Os::new(2));
    host.update(&host.config(full_config("two").json()), Some(&image));
    let verdict = json!({"rule": "default", "demand": "nothing", "keyFiles": [], "enforcement": "notNeeded"});
    assert_eq!(signature(&host), verdict);
    let status = host.run_ok(["flameholder", "status"]);
    assert!(status.contains("signature   none demanded (rule default)"), "{status}");
    host.update(&host.config(full_config("three").json()), None);
    assert_eq!(signature(&host), verdict);
}

//! Origin of a host in its status: the image that it was installed from, and changes that only an installation applies.

use std::fs;

use serde_json::json;
use testbed::booted::config::full_config;
use testbed::booted::host::{Host, confirmed_host};

const ALEPH: &str = ".coreos-aleph-version.json";

fn text_of_status(host: &Host) -> String {
    host.run_ok(["flameholder", "status"])
}

#[test]
fn status_tells_what_the_host_was_installed_from_and_with() {
    let host = confirmed_host("one");
    let nothing = json!({"bootImage": null, "irreconcilableChanges": [], "unreadable": []});
    assert_eq!(host.status()["origin"], nothing);
    let aleph = json!({"version": "43.20260301.3.0", "ostree-commit": "c", "container-image":
        {"image-name": "docker://user:secret@quay.io/fedora/fedora-coreos:stable", "image-digest": "sha256:1"}});
    fs::write(host.sysroot().join(ALEPH), aleph.to_string()).unwrap();
    let mut installed = full_config("one").json().clone();
    installed["spec"]["config"]["storage"]["luks"] =
        json!([{"name": "root", "keyFile": {"source": "data:,hunter2"}}]);
    host.write_etc("mcs-machine-config-content.json", &installed.to_string());
    let origin = host.status()["origin"].clone();
    assert_eq!(origin["bootImage"]["version"], "43.20260301.3.0");
    assert!(!origin.to_string().contains("secret") && !origin.to_string().contains("hunter2"), "{origin}");
    assert_eq!(
        origin["irreconcilableChanges"],
        json!([{"field": "spec.config.storage.luks", "change": "remove"}])
    );
    let text = text_of_status(&host);
    assert!(text.contains("from 43.20260301.3.0, "), "{text}");
    let line = "spec.config.storage.luks, changed since the installation; only a new installation";
    assert!(text.contains(line), "{text}");
    // A damaged document hides nothing else.
    fs::write(host.sysroot().join(ALEPH), "{\"version\": 43}").unwrap();
    let text = text_of_status(&host);
    assert!(text.contains("unreadable:     /sysroot/.coreos-aleph-version.json: "), "{text}");
    assert!(text.contains(line), "{text}");
}

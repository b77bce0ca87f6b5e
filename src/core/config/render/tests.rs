//! Rendering: each rule of the merge, the name of the result, and refusals.

use serde_json::{Value, json};

use super::*;

const GENERATED: &str = "machineconfiguration.openshift.io/generated-by-controller-version";

/// A `MachineConfig` with this role and spec.
fn config(name: &str, role: &str, spec: &Value) -> MachineConfig {
    annotated(name, role, &json!({}), spec)
}

/// A `MachineConfig` that the MCC generated.
fn generated(name: &str, spec: &Value) -> MachineConfig {
    annotated(name, "worker", &json!({GENERATED: "abc"}), spec)
}

fn annotated(name: &str, role: &str, annotations: &Value, spec: &Value) -> MachineConfig {
    let document = json!({
        "apiVersion": API_VERSION,
        "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {ROLE_LABEL: role}, "annotations": annotations},
        "spec": spec,
    });
    machine_config::parse_object(document, "").unwrap()
}

fn with_files(name: &str, role: &str, files: &Value) -> MachineConfig {
    config(name, role, &json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": files}}}))
}

fn rendered(configs: &[MachineConfig]) -> Result<Value, RefusalList> {
    render(configs, &RenderedName::OfPool("infra".parse().unwrap()), &ReleaseImages::default())
        .map(|config| config.document)
}

/// Render `configs` and return the value at `pointer` below the spec.
fn merged(configs: &[MachineConfig], pointer: &str) -> Value {
    rendered(configs).unwrap().pointer(&format!("/spec{pointer}")).cloned().unwrap_or_default()
}

fn source(text: &str) -> Value {
    json!({"path": "/etc/x", "contents": {"source": format!("data:,{text}")}})
}

#[test]
fn worker_configs_are_merged_first_then_by_name() {
    let file = |name, role| with_files(name, role, &json!([source(name)]));
    for (names, winner) in [
        ([("00-base", "worker"), ("50-mine", "worker")], "50-mine"),
        ([("99-base", "worker"), ("00-infra", "infra")], "00-infra"),
        ([("10", "worker"), ("9", "worker")], "9"),
        ([("a", "infra"), ("b", "master")], "b"),
    ] {
        let [first, second] = names.map(|(name, role)| file(name, role));
        let expected = json!(format!("data:,{winner}"));
        for configs in [[first.clone(), second.clone()], [second, first]] {
            assert_eq!(merged(&configs, "/config/storage/files/0/contents/source"), expected, "{names:?}");
        }
    }
}

#[test]
fn configs_with_one_without_a_role_among_them_are_merged_by_name() {
    let file = |name, role| with_files(name, role, &json!([source(name)]));
    let site = |name| MachineConfig { replaces_paths: true, ..file(name, "") };
    for (configs, winner) in [
        (vec![file("99-last", "worker"), site("30-site.ign")], "99-last"),
        (vec![file("99-last", "worker"), site("30-site.ign"), file("00-infra", "infra")], "99-last"),
        (vec![site("30-site.ign"), file("20-web", "worker")], "30-site.ign"),
    ] {
        let contents = merged(&configs, "/config/storage/files/0/contents/source");
        assert_eq!(contents, json!(format!("data:,{winner}")));
    }
}

#[test]
fn lists_of_the_spec_are_concatenated_and_flags_are_joined() {
    let configs = [
        config(
            "b",
            "worker",
            &json!({"kernelArguments": ["nosmt", "a b"], "extensions": ["usbguard"], "fips": true}),
        ),
        config("a", "worker", &json!({"kernelArguments": ["nosmt"], "extensions": ["usbguard", "sysstat"]})),
        config("c", "worker", &json!({"kernelArguments": null, "fips": false})),
    ];
    for (pointer, expected) in [
        ("/kernelArguments", json!(["nosmt", "nosmt", "a b"])),
        ("/extensions", json!(["usbguard", "sysstat", "usbguard"])),
        ("/fips", json!(true)),
    ] {
        assert_eq!(merged(&configs, pointer), expected, "{pointer}");
    }
}

#[test]
fn last_non_default_kernel_type_wins() {
    for (kernels, expected) in [
        (vec![json!(null), json!("")], "default"),
        (vec![json!("realtime"), json!("default")], "realtime"),
        (vec![json!("realtime"), json!("64k-pages")], "64k-pages"),
    ] {
        let configs: Vec<MachineConfig> = kernels
            .iter()
            .enumerate()
            .map(|(index, kernel)| config(&format!("{index}"), "worker", &json!({"kernelType": kernel})))
            .collect();
        assert_eq!(merged(&configs, "/kernelType"), expected, "{kernels:?}");
    }
}

#[test]
fn image_of_the_last_config_not_generated_by_the_mcc_wins() {
    let own = generated("00", &json!({"osImageURL": "h/generated"}));
    let none = config("01", "worker", &json!({"osImageURL": ""}));
    let mine = config("02", "worker", &json!({"osImageURL": "h/mine"}));
    let later = generated("03", &json!({"osImageURL": "h/later"}));
    let unversioned =
        annotated("04", "worker", &json!({GENERATED: ""}), &json!({"osImageURL": "h/unversioned"}));
    let release = Some("h/release");
    for (configs, release, expected) in [
        (vec![&none], None, ""),
        (vec![&none], release, "h/release"),
        (vec![&own], release, "h/release"),
        (vec![&own, &none], None, "h/generated"),
        (vec![&own, &mine, &later], None, "h/mine"),
        (vec![&own, &mine, &later], release, "h/mine"),
        (vec![&own, &later], None, "h/later"),
        (vec![&mine, &unversioned], release, "h/unversioned"),
    ] {
        let configs: Vec<MachineConfig> = configs.into_iter().cloned().collect();
        let images = ReleaseImages { os: release.map(str::to_owned), extensions: None };
        let document =
            render(&configs, &RenderedName::OfPool("worker".parse().unwrap()), &images).unwrap().document;
        assert_eq!(document["spec"]["osImageURL"], expected);
        assert_eq!(document["spec"]["baseOSExtensionsContainerImage"], "");
    }
    let extensions = config("05", "worker", &json!({"baseOSExtensionsContainerImage": "h/extensions"}));
    assert_eq!(merged(&[own, extensions], "/baseOSExtensionsContainerImage"), "h/extensions");
}

#[test]
fn compression_is_not_inherited_by_plain_contents() {
    // `hi`, gzipped.
    let squeezed = json!([{"path": "/etc/x", "contents": {"compression": "gzip",
        "source": "data:;base64,H4sIAAAAAAACA8vIBACsKpPYAgAAAA=="}}]);
    let plain = json!([source("plain")]);
    let mode = json!([{"path": "/etc/x", "mode": 384}]);
    for (parent, child, expected) in [
        (&squeezed, &plain, None),
        (&plain, &squeezed, Some("gzip")),
        // As in the MCC: contents are merged field by field, so a file without contents clears the
        // compression.
        (&squeezed, &mode, None),
    ] {
        let configs = [with_files("0", "worker", parent), with_files("1", "worker", child)];
        let compression = merged(&configs, "/config/storage/files/0/contents/compression");
        assert_eq!(compression.as_str(), expected);
    }
}

#[test]
fn files_with_contents_overwrite_unless_a_config_says_otherwise() {
    let files = json!([
        source("x"),
        {"path": "/etc/kept", "overwrite": false, "contents": {"source": "data:,"}},
        {"path": "/etc/bare", "mode": 384},
        {"path": "/etc/extended", "append": [{"source": "data:,x"}]},
    ]);
    let configs = [with_files("0", "worker", &files)];
    for (index, expected) in [json!(true), json!(false), json!(null), json!(true)].into_iter().enumerate() {
        assert_eq!(merged(&configs, &format!("/config/storage/files/{index}/overwrite")), expected);
    }
}

#[test]
fn older_ignition_versions_are_upgraded_and_a_missing_config_is_empty() {
    let old = json!({"config": {"ignition": {"version": "2.2.0"}, "storage": {"files": [
        {"filesystem": "root", "path": "/etc/x", "mode": 420, "contents": {"source": "data:,old"}}]}}});
    let configs = [
        config("0", "worker", &json!({})),
        config("1", "worker", &old),
        with_files("2", "worker", &json!([{"path": "/etc/x", "mode": 384}])),
    ];
    let expected = json!({"ignition": {"version": "3.5.0"}, "storage": {"files": [
        {"path": "/etc/x", "mode": 384, "overwrite": true, "contents": {"source": "data:,old"}}]}});
    assert_eq!(merged(&configs, "/config"), expected);
    assert_eq!(merged(&configs[..1], "/config"), json!({"ignition": {"version": "3.5.0"}}));
    let newer = json!({"config": {"ignition": {"version": "3.6.0"}}});
    assert_eq!(merged(&[config("0", "worker", &newer)], "/config/ignition/version"), "3.6.0");
}

#[test]
fn rendered_name_depends_on_pool_and_spec_only() {
    let name = |pool: &str, configs: &[MachineConfig]| {
        render(configs, &RenderedName::OfPool(pool.parse().unwrap()), &ReleaseImages::default()).unwrap().name
    };
    let spec = json!({"kernelArguments": ["nosmt"]});
    let (one, renamed) = (config("a", "worker", &spec), config("b", "infra", &spec));
    assert_eq!(name("infra", std::slice::from_ref(&one)), "rendered-infra-6a71598561354e24c7a2b5be97c82bd4");
    assert_eq!(name("infra", &[renamed]), name("infra", std::slice::from_ref(&one)));
    assert_eq!(
        name("worker", &[one]).as_str().replace("worker", "infra"),
        name("infra", &[config("a", "worker", &spec)]).as_str()
    );
    let other = config("a", "worker", &json!({"kernelArguments": ["mitigations=off"]}));
    assert_ne!(name("infra", &[other]), "rendered-infra-6a71598561354e24c7a2b5be97c82bd4");
}

#[test]
fn pool_name_is_a_short_enough_dns_subdomain() {
    for good in ["worker", "a", "gpu-1", "a.b"] {
        assert_eq!(good.parse::<PoolName>().unwrap().to_string(), good);
    }
    for bad in ["", "Worker", "a_b", "-a", "a-", "a..b", ".", "a b", "ü", &"a".repeat(212)] {
        assert_eq!(bad.parse::<PoolName>(), Err(PoolNameError), "{bad:?}");
    }
    assert!("a".repeat(211).parse::<PoolName>().is_ok());
}

#[test]
fn refusals_name_the_field_and_the_config() {
    let bad_mode = with_files("10-bad", "worker", &json!([{"path": "/etc/x", "mode": 4095}]));
    let good_mode = with_files("20-good", "worker", &json!([{"path": "/etc/x", "mode": 420}]));
    let file = with_files("0", "worker", &json!([source("x")]));
    let below = with_files("1", "worker", &json!([{"path": "/etc/x/y"}]));
    let devel = config("0", "worker", &json!({"extensions": ["sysstat", "kernel-devel"]}));
    let realtime = config("1", "worker", &json!({"kernelType": "realtime"}));
    let large = with_files("0", "worker", &json!([source(&"x".repeat(limits::CLUSTER_BYTES))]));
    for (configs, mentions) in [
        (vec![], vec!["no MachineConfig"]),
        (vec![bad_mode, good_mode], vec!["spec.config.storage.files[0].mode", "(in 10-bad)"]),
        (vec![file.clone(), file.clone()], vec!["metadata.name", "more than once"]),
        (vec![file, below], vec!["spec.config.storage.files[1].path", "/etc/x/y lies below /etc/x"]),
        (vec![devel.clone(), realtime], vec!["spec.extensions[1]", "kernel-devel", "realtime"]),
        (vec![large], vec!["bytes", "1572864"]),
    ] {
        let message = rendered(&configs).unwrap_err().to_string();
        for mention in mentions {
            assert!(message.contains(mention), "{mention}: {message}");
        }
    }
    assert_eq!(merged(&[devel], "/extensions/1"), "kernel-devel");
}

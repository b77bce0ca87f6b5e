//! Properties for arbitrary input: parsers return a value or a refusal, and a plan from a config to itself is
//! empty.

use std::collections::BTreeMap;
use std::io::Write as _;

use flameholder::core::config::contents::ContentsDecoder;
use flameholder::core::config::host_config::HostConfig;
use flameholder::core::config::{decode, document, machine_config};
use flameholder::core::plan::Plan;
use flameholder::core::plan::diff::ConfigDiff;
use flameholder::core::values::names::ManagedPath;
use flameholder::core::values::profile::Profile;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use serde_json::{Value, json};
use testbed::model::document::data_url;

/// Any JSON, with members of a `MachineConfig` among its keys so that decoding gets past the first levels.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof!["[ -~]{0,12}", Just("/etc/x".to_owned()), Just("data:,x%20y".to_owned())]
            .prop_map(Value::from),
    ];
    let keys = prop_oneof![
        Just("files"),
        Just("units"),
        Just("path"),
        Just("name"),
        Just("contents"),
        Just("source"),
        Just("mode"),
        Just("users"),
        Just("dropins"),
        Just("compression"),
        Just("append"),
        Just("links"),
    ];
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..5).prop_map(|pairs| {
                pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Value>()
            }),
        ]
    })
}

fn object(storage: &Value, systemd: &Value, passwd: &Value) -> Vec<u8> {
    let config =
        json!({"ignition": {"version": "3.4.0"}, "storage": storage, "systemd": systemd, "passwd": passwd});
    let object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": "any"}, "spec": {"config": config},
    });
    object.to_string().into_bytes()
}

/// Valid files at paths that often coincide.
fn any_host_config() -> impl Strategy<Value = HostConfig> {
    let file = ("/etc/[a-c](/[a-c]){0,2}", "[a-z]{0,4}", 0_u32..0o1000).prop_map(|(path, contents, mode)| {
        json!({"path": path, "mode": mode, "contents": {"source": format!("data:,{contents}")}})
    });
    let unit = ("[a-c]\\.service", prop::option::of(any::<bool>()), any::<bool>()).prop_map(|(name, enabled, mask)| {
        json!({"name": name, "enabled": enabled, "mask": mask, "contents": "[Install]\nWantedBy=multi-user.target\n"})
    });
    let files = prop::collection::vec(file, 0..6);
    let units = prop::collection::vec(unit, 0..4);
    (files, units).prop_filter_map("refused", |(files, units)| {
        let bytes = object(&json!({"files": files}), &json!({"units": units}), &Value::Null);
        decode::decode(&machine_config::parse(&bytes).ok()?).ok()
    })
}

/// Encodings of a source: percent encoding, and base64.
const SOURCE_ENCODINGS: [fn(&[u8]) -> String; 2] = [percent_encoded, data_url];

fn percent_encoded(bytes: &[u8]) -> String {
    let encoded: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
    format!("data:,{encoded}")
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

proptest! {
    #[test]
    fn any_bytes_are_a_document_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(refusals) = document::parse(&bytes) {
            prop_assert!(!refusals.as_slice().is_empty());
        }
    }

    #[test]
    fn any_text_is_a_document_or_refused(text in "[-{}\\[\\]:,\"'a-c0-9 \n&*!|>#%]{0,60}") {
        if let Err(refusals) = document::parse(text.as_bytes()) {
            prop_assert!(!refusals.as_slice().is_empty());
        }
    }

    #[test]
    fn any_config_is_decoded_or_refused(storage in any_json(), systemd in any_json(), passwd in any_json()) {
        let Ok(config) = machine_config::parse(&object(&storage, &systemd, &passwd)) else { return Ok(()) };
        if let Err(refusals) = decode::decode(&config) {
            prop_assert!(refusals.as_slice().iter().all(|refusal| refusal.field.starts_with("spec.")));
        }
    }

    #[test]
    fn source_is_decoded_to_the_bytes_that_it_encodes(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        encoding in prop::sample::select(&SOURCE_ENCODINGS),
        gzip in any::<bool>(),
    ) {
        let stored = if gzip { compressed(&bytes) } else { bytes.clone() };
        let source = encoding(&stored);
        let decoded = ContentsDecoder::default().decode(Some(&source), gzip.then_some("gzip"));
        prop_assert_eq!(decoded.map_err(|error| error.to_string()), Ok(bytes), "{}", source);
    }

    #[test]
    fn source_that_is_no_data_url_is_refused(source in "[^dD\\s].{0,40}", gzip in any::<bool>()) {
        let decoded = ContentsDecoder::default().decode(Some(&source), gzip.then_some("gzip"));
        prop_assert!(decoded.is_err(), "{source} is decoded to {decoded:?}");
    }

    #[test]
    fn valid_files_are_decoded_as_they_are_written(
        files in prop::collection::btree_map("/etc/[a-z]{1,8}\\.conf", ("[ -~\n]{0,40}", 0_u32..0o1000), 0..8),
    ) {
        let listed: Vec<Value> = files
            .iter()
            .map(|(path, (text, mode))| {
                json!({"path": path, "mode": mode, "contents": {"source": percent_encoded(text.as_bytes())}})
            })
            .collect();
        let object = object(&json!({"files": listed}), &Value::Null, &Value::Null);
        let decoded = decode::decode(&machine_config::parse(&object).unwrap()).unwrap();
        let found: BTreeMap<String, (String, u32)> = decoded
            .files
            .iter()
            .map(|(path, file)| {
                let text = String::from_utf8(file.contents.clone()).unwrap();
                (path.to_string(), (text, file.mode))
            })
            .collect();
        prop_assert_eq!(found, files);
    }

    #[test]
    fn parsed_path_keeps_its_spelling(spelled in "/?([a-c.]{0,3}/?){0,4}") {
        if let Ok(path) = ManagedPath::parse(&spelled) {
            prop_assert_eq!(path.as_str(), &spelled);
            prop_assert!(!spelled.split('/').any(|component| component == ".."));
        }
    }

    #[test]
    fn plan_from_a_config_to_itself_is_empty(config in any_host_config()) {
        let plan = Plan::between(Some(&config), &config, Profile::Mcd).unwrap();
        prop_assert!(plan.diff.is_empty() && plan.irreconcilable.is_empty());
        prop_assert!(!plan.disruption.drain && !plan.disruption.reboots());
    }

    #[test]
    fn reverse_diff_lists_the_same_paths(a in any_host_config(), b in any_host_config()) {
        let (there, back) = (ConfigDiff::between(&a, &b), ConfigDiff::between(&b, &a));
        prop_assert!(there.files.keys().eq(back.files.keys()));
        prop_assert!(there.units.keys().eq(back.units.keys()));
    }
}

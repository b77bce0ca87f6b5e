//! Refusals of the translation. `tests/core` compares translations with those of Butane.

use serde_json::json;

use super::*;

fn refused(text: &str) -> Vec<String> {
    let document = crate::core::config::document::parse(text.as_bytes()).unwrap();
    assert!(is_butane(&document));
    let refused = translate(document, &NoLocalFiles).unwrap_err();
    refused.as_slice().iter().map(ToString::to_string).collect()
}

fn with(body: &str) -> String {
    format!("variant: fcos\nversion: 1.5.0\n{body}")
}

#[test]
fn only_a_document_with_a_variant_is_butane() {
    for document in
        [json!({"ignition": {"version": "3.4.0"}}), json!({"kind": "Pod", "variant": "fcos"}), json!([])]
    {
        assert!(!is_butane(&document), "{document}");
    }
}

#[test]
fn unknown_variant_and_version_are_refused_with_what_is_accepted() {
    for (text, field) in [
        ("variant: flatcar\nversion: 1.0.0\n", "variant: `flatcar` is no variant"),
        ("variant: 3\n", "variant: no text is no variant"),
        ("variant: fcos\nversion: 1.8.0\n", "version: `1.8.0` is no version"),
        ("variant: openshift\nversion: 4.7.0\n", "version: `4.7.0` is no version"),
        ("variant: fcos\nversion: 1.5\n", "version: no text is no version"),
    ] {
        let refused = refused(text);
        assert!(refused[0].starts_with(field) && refused[0].contains("1.0.0 to 1.7.0"), "{refused:?}");
    }
}

#[test]
fn every_problem_is_named_by_its_field() {
    let text = with(
        "storage:
  disks: [{device: /dev/vda}]
  files:
    - {path: /etc/a, contents: {inline: a, source: 'data:,a'}}
    - {path: /etc/b, contens: {inline: b}}
    - {path: /etc/c, contents: {local: ../secret}}
    - {path: /etc/d, contents: {local: d}}
boot_device: {mirror: {devices: [/dev/vda]}}
openshift: {fips: true}
",
    );
    let mut fields: Vec<_> =
        refused(&text).iter().map(|line| line.split(": ").next().unwrap().to_owned()).collect();
    fields.sort();
    assert_eq!(
        fields,
        [
            "boot_device",
            "openshift",
            "storage.disks",
            "storage.files[0].contents",
            "storage.files[1].contens",
            "storage.files[2].contents.local",
            "storage.files[3].contents.local",
        ]
    );
}

#[test]
fn key_of_a_later_version_is_refused() {
    let text = "variant: fcos\nversion: 1.0.0\nstorage: {trees: [{local: tree}]}\n\
        systemd: {units: [{name: a.service, contents_local: a}]}\nkernel_arguments: {should_exist: [a]}\n";
    let refused = refused(text);
    for field in ["storage.trees", "systemd.units[0].contents_local", "kernel_arguments"] {
        let named = format!("{field}: unknown key; a later version");
        assert!(refused.iter().any(|line| line.starts_with(&named)), "{field}: {refused:?}");
    }
}

#[test]
fn local_file_of_a_wrong_type_is_named_without_the_value() {
    let text = with(
        "passwd: {users: [{name: core, ssh_authorized_keys_local: [[hunter2]]}]}
storage: {files: [{path: /etc/a, contents: {local: [hunter2]}}]}
",
    );
    let refused = refused(&text);
    let expected = [
        "storage.files[0].contents.local: expected a text",
        "passwd.users[0].ssh_authorized_keys_local[0]: expected a text",
    ];
    assert_eq!(refused, expected);
}

#[test]
fn value_that_the_result_would_not_show_is_refused() {
    let text = "variant: openshift\nversion: 4.14.0\nmetadata: {name: a}\nopenshift: 3\nstorage: {trees: [3]}\n\
        passwd: {users: [{name: core, ssh_authorized_keys_local: keys.pub}]}\n";
    let expected = [
        "passwd.users[0].ssh_authorized_keys_local: expected a list",
        "storage.trees[0]: expected keys and values",
        "openshift: expected keys and values",
    ];
    assert_eq!(refused(text), expected);
    assert_eq!(refused(&with("storage: {trees: tree}\n")), ["storage.trees: expected a list"]);
}

#[test]
fn sections_about_fetching_keep_their_meaning() {
    let document = crate::core::config::document::parse(
        with("ignition: {timeouts: {http_total: 30}, security: {tls: {certificate_authorities: []}}}\nstorage:\n").as_bytes(),
    );
    let translated = translate(document.unwrap(), &NoLocalFiles).unwrap();
    let expected = json!({"ignition": {
        "version": "3.4.0", "timeouts": {"httpTotal": 30}, "security": {"tls": {"certificateAuthorities": []}}}});
    assert_eq!(translated, expected);
}

/// Directory with the tree `site`: `b/`, `b/d` and a link.
#[derive(Debug)]
struct SiteTree;

impl LocalFiles for SiteTree {
    fn read(&self, _: &str) -> Result<Vec<u8>, LocalFileError> {
        Err(LocalFileError::NoDirectory)
    }

    fn tree(&self, _: &str) -> Result<Vec<LocalEntry>, LocalFileError> {
        let file = LocalNode::File { contents: b"d".into(), is_executable: true };
        let nodes =
            [("b", LocalNode::Directory), ("b/d", file), ("link", LocalNode::Link { target: "b/d".into() })];
        Ok(nodes.map(|(path, node)| LocalEntry { path: path.into(), node }).into())
    }
}

/// Expected values follow `walkTree` of Butane 0.29 (`base/v0_7/translate.go`).
#[test]
fn attributes_of_a_tree_are_given_to_all_that_it_holds() {
    let translated = |version: &str, tree: &str| {
        let text = format!("variant: fcos\nversion: {version}\nstorage: {{trees: [{tree}]}}\n");
        translate(crate::core::config::document::parse(text.as_bytes()).unwrap(), &SiteTree)
    };
    let storage = |tree: &str| translated("1.7.0", tree).unwrap()["storage"].clone();
    let plain = storage("{local: site, path: /etc/app}");
    assert_eq!(plain["directories"], json!([]));
    assert_eq!(plain["files"][0]["mode"], 0o755);

    let owned = storage("{local: site, path: /etc/app, user: {name: app}, file_mode: 0640}");
    let user = json!({"name": "app"});
    let directory = |path: &str| json!({"path": path, "user": user, "mode": 0o755});
    assert_eq!(owned["directories"], json!([directory("/etc/app"), directory("/etc/app/b")]));
    assert_eq!(owned["links"], json!([{"path": "/etc/app/link", "user": user, "target": "b/d"}]));
    assert_eq!((&owned["files"][0]["user"], &owned["files"][0]["mode"]), (&user, &json!(0o640)));

    let moded = storage("{local: site, path: /etc/app/, dir_mode: 0700, group: {}}");
    let directory = |path: &str| json!({"path": path, "mode": 0o700});
    assert_eq!(moded["directories"], json!([directory("/etc/app"), directory("/etc/app/b")]));
    let twice =
        "{local: site, path: /etc/app, dir_mode: 0700}, {local: site, path: /etc/app, dir_mode: 0700}";
    let refused = translated("1.7.0", twice).unwrap_err().to_string();
    assert!(refused.contains("/etc/app/b is in the tree, and listed on its own"), "{refused}");
    let refused = translated("1.6.0", "{local: site, file_mode: 0640}").unwrap_err().to_string();
    assert!(refused.contains("storage.trees[0].file_mode: unknown key; a later version"), "{refused}");
}

//! Tests of configs that are to be applied, and of those that were.

use serde_json::{Value, json};

use super::*;
use crate::core::config::machine_config;

fn object(spec: &Value) -> MachineConfig {
    let object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": "t"}, "spec": spec,
    });
    machine_config::parse(object.to_string().as_bytes()).unwrap()
}

fn with(section: &str, value: &Value) -> MachineConfig {
    object(&json!({"config": {"ignition": {"version": "3.5.0"}, section: value}}))
}

fn fields(refused: &RefusalList) -> Vec<&str> {
    refused.as_slice().iter().map(|refusal| refusal.field.as_str()).collect()
}

#[test]
fn unit_text_is_checked_in_a_config_that_is_to_be_applied() {
    let config = with(
        "systemd",
        &json!({"units": [{"name": "a.service", "contents": "[Unit\n",
            "dropins": [{"name": "1.conf", "contents": "[Unit]\n"}, {"name": "2.conf", "contents": "[Unit]\nx"}]}]}),
    );
    let expected =
        ["spec.config.systemd.units[0].contents", "spec.config.systemd.units[0].dropins[1].contents"];
    assert_eq!(fields(&decode(&config).unwrap_err()), expected);
    let applied = decode_applied(&config).unwrap();
    assert_eq!(applied.units["a.service"].contents.as_deref(), Some("[Unit\n"));
    assert_eq!(applied.units["a.service"].drop_ins.len(), 2);
}

#[test]
fn unknown_extension_is_left_out_of_a_config_that_was_applied() {
    let config = object(&json!({"extensions": ["wasm", "usbguard", "next"]}));
    assert_eq!(fields(&decode(&config).unwrap_err()), ["spec.extensions[2]"]);
    let applied = decode_applied(&config).unwrap();
    assert!(
        applied.left_out[0].starts_with("spec.extensions[2]: unknown extension"),
        "{:?}",
        applied.left_out
    );
    assert_eq!(applied.os.extensions, ["wasm", "usbguard", "next"]);
}

#[test]
fn other_fields_of_a_user_are_kept_with_their_values() {
    let user = json!({"name": "core", "uid": 7, "groups": [], "shell": "/bin/zsh", "shouldExist": false,
        "gecos": null, "passwordHash": "$6$secret", "sshAuthorizedKeys": ["ssh-ed25519 AAAA"]});
    let host = decode(&with("passwd", &json!({"users": [user]}))).unwrap();
    let user = &host.passwd.users[0];
    let expected = [("shell", json!("/bin/zsh")), ("shouldExist", json!(false)), ("uid", json!(7))];
    assert_eq!(user.other_fields, expected.map(|(name, value)| (name.to_owned(), value)).into());
    let shown = format!("{user:?}");
    assert!(shown.contains("shell") && !shown.contains("zsh") && !shown.contains("secret"), "{shown}");
}

#[test]
fn special_bits_of_a_file_need_ignition_3_6() {
    let config = |version: &str, mode: u32| {
        let files = json!([{"path": "/usr/local/bin/a", "mode": mode, "contents": {"source": "data:,x"}}]);
        object(&json!({"config": {"ignition": {"version": version}, "storage": {"files": files}}}))
    };
    for mode in [0o4755, 0o2775, 0o1777, 0o7777] {
        let decoded = decode(&config("3.6.0", mode)).unwrap();
        assert_eq!(decoded.files["/usr/local/bin/a"].mode, mode);
        let refused = decode(&config("3.5.0", mode)).unwrap_err().to_string();
        assert!(refused.contains("special bits need Ignition 3.6.0"), "{refused}");
    }
    for (mode, most) in [(0o10000, "7777"), (644, "0777"), (755, "0777")] {
        let refused = decode(&config("3.6.0", mode)).unwrap_err().to_string();
        let reason = format!("is not between 0 and {most}; JSON writes modes in decimal");
        assert!(refused.ends_with(&reason), "{refused}");
    }
}

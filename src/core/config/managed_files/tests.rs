//! Tests of the authorized keys file.

use serde_json::{Value, json};

use super::*;
use crate::core::config::{decode, machine_config};

const KEYS: &str = "/var/home/core/.ssh/authorized_keys.d/ignition";

/// Entries that a config with this Ignition config has on a host with the users `core` and `eve`.
fn entries(ignition: &Value, profile: Profile) -> BTreeMap<ManagedPath, FileEntry> {
    entries_beside(None, ignition, profile)
}

/// Entries on such a host with these keys.
fn entries_beside(
    keys: Option<&str>,
    ignition: &Value,
    profile: Profile,
) -> BTreeMap<ManagedPath, FileEntry> {
    let mut config = ignition.clone();
    config["ignition"] = json!({"version": "3.4.0"});
    let object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": "t"}, "spec": {"config": config},
    });
    let parsed = machine_config::parse(object.to_string().as_bytes()).unwrap();
    let passwd = "core:x:1000:1000::/var/home/core:/bin/bash\neve:x:1001:1001::/var/home/eve:/bin/bash\n";
    let accounts = AccountTable::parse([passwd], ["core:x:1000:\neve:x:1001:\n"]);
    let existing =
        ExistingFiles { keys: keys.map(|keys| keys.as_bytes().to_vec()), ..ExistingFiles::default() };
    let config = decode::decode(&parsed).unwrap();
    ManagedFiles::of(&config, &accounts, &existing, profile, UnknownOwner::Refused).unwrap().entries
}

#[test]
fn key_file_has_the_keys_of_core_only() {
    let users = |core: Value| {
        let eve = json!({"name": "eve", "sshAuthorizedKeys": ["ssh-ed25519 AAAA eve"]});
        json!({"passwd": {"users": [eve, core]}})
    };
    let owned = |mode| FileAttributes { mode, uid: 1000, gid: 1000 };
    let keys = json!({"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 AAAA core"]});
    for profile in [Profile::Native, Profile::Mcd] {
        let entries = entries(&users(keys.clone()), profile);
        let contents = b"ssh-ed25519 AAAA core\n".to_vec();
        assert_eq!(entries[KEYS], FileEntry::File { contents, attributes: owned(0o600) });
    }
    let without = users(json!({"name": "core", "passwordHash": "$6$x"}));
    let empty = FileEntry::AbsentOrEmpty { attributes: owned(0o600) };
    let expected = BTreeMap::from([(ManagedPath::constant(KEYS), empty)]);
    assert_eq!(entries(&without, Profile::Mcd), expected);
    assert_eq!(entries(&without, Profile::Native), BTreeMap::new());
    let others = users(json!({"name": "bob"}));
    for profile in [Profile::Native, Profile::Mcd] {
        assert_eq!(entries(&others, profile), BTreeMap::new());
    }
}
#[test]
fn key_file_of_ignition_or_mcd_is_as_good_as_trimmed_keys() {
    let config = json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k1\n", "k2\n"]}]}});
    let trimmed = "k1\nk2\n";
    for (found, expected) in [
        (None, trimmed),
        (Some(trimmed), trimmed),
        (Some("k1\n\nk2\n\n"), "k1\n\nk2\n\n"),
        (Some("k1\n\nk2\n"), "k1\n\nk2\n"),
        (Some("k1\n\nk2\nk3\n"), trimmed),
        (Some(""), trimmed),
    ] {
        let entries = entries_beside(found, &config, Profile::Mcd);
        let FileEntry::File { contents, .. } = &entries[KEYS] else { panic!("{entries:?}") };
        assert_eq!(contents, expected.as_bytes(), "{found:?}");
    }
}

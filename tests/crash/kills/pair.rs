//! Two configs with every kind of difference: each kind of entry appears, changes and disappears, and paths
//! change their kind.

use serde_json::{Value, json};
use testbed::model::document::{file, machine_config};

/// Left config.
pub(super) fn left() -> Value {
    let mut owned = file("/etc/owned.conf", "owned\n");
    owned["mode"] = json!(0o644);
    let files = json!([
        file("/etc/same.conf", "same\n"),
        file("/etc/changed.conf", "left\n"),
        owned,
        file("/etc/left/deep/only.conf", "left\n"),
        // Shipped by the image, and not in the other config.
        file("/etc/chrony.conf", "pool left.example\n"),
        // An administrator's file; the other config restores it.
        file("/usr/local/bin/by-hand", "#!/bin/left\n"),
        // A file here and a directory there, and the other way round.
        file("/etc/trade-one", "left\n"),
        file("/etc/trade-two/inside", "left\n"),
    ]);
    let directories = json!([
        {"path": "/etc/listed", "mode": 0o750},
        {"path": "/etc/left.d", "mode": 0o700},
    ]);
    let links = json!([
        {"path": "/etc/pointer", "target": "same.conf"},
        {"path": "/etc/left-link", "target": "/nowhere/left"},
    ]);
    let units = json!([
        unit("left.service", "left", "multi-user.target"),
        unit("both.service", "left", "multi-user.target"),
        {"name": "crio.service", "dropins": [
            {"name": "10-both.conf", "contents": "[Service]\nNice=1\n"},
            {"name": "20-left.conf", "contents": "[Service]\nNice=2\n"},
        ]},
        {"name": "zincati.service", "enabled": false},
        {"name": "rpcbind.socket", "mask": true},
        {"name": "ipsec.service", "enabled": true},
    ]);
    let core = json!({"name": "core", "passwordHash": "$6$left$left", "sshAuthorizedKeys": ["ssh-rsa AAAAleft", "ssh-rsa AAAAboth"]});
    config("rendered-left", &files, &directories, &links, &units, &core)
}

/// Right config.
pub(super) fn right() -> Value {
    let mut owned = file("/etc/owned.conf", "owned\n");
    owned["mode"] = json!(0o750);
    owned["user"] = json!({"name": "core"});
    owned["group"] = json!({"name": "wheel"});
    let files = json!([
        file("/etc/same.conf", "same\n"),
        file("/etc/changed.conf", "right\n"),
        owned,
        file("/etc/right/only.conf", "right\n"),
        // An administrator's files: one replaces a shipped file, one does not.
        file("/etc/login.defs", "UMASK 027\n"),
        file("/etc/admin.conf", "right\n"),
        file("/etc/trade-one/inside", "right\n"),
        file("/etc/trade-two", "right\n"),
    ]);
    let directories = json!([
        {"path": "/etc/listed", "mode": 0o700, "user": {"name": "core"}, "group": {"id": 10}},
        {"path": "/var/lib/right.d", "mode": 0o755},
    ]);
    let links = json!([
        {"path": "/etc/pointer", "target": "changed.conf"},
        {"path": "/etc/right-link", "target": "/nowhere/right"},
    ]);
    let units = json!([
        unit("right.service", "right", "multi-user.target"),
        unit("both.service", "right", "sockets.target"),
        {"name": "crio.service", "dropins": [
            {"name": "10-both.conf", "contents": "[Service]\nNice=3\n"},
            {"name": "30-right.conf", "contents": "[Service]\nNice=4\n"},
        ]},
        {"name": "openvswitch.service", "enabled": true},
    ]);
    let core = json!({"name": "core", "sshAuthorizedKeys": ["ssh-rsa AAAAboth", "ssh-rsa AAAAright"]});
    config("rendered-right", &files, &directories, &links, &units, &core)
}

fn unit(name: &str, program: &str, wanted_by: &str) -> Value {
    let contents = format!("[Service]\nExecStart=/bin/{program}\n[Install]\nWantedBy={wanted_by}\n");
    json!({"name": name, "enabled": true, "contents": contents})
}

fn config(
    name: &str,
    files: &Value,
    directories: &Value,
    links: &Value,
    units: &Value,
    core: &Value,
) -> Value {
    machine_config(
        name,
        &json!({
            "ignition": {"version": "3.4.0"},
            "storage": {"files": files, "directories": directories, "links": links},
            "systemd": {"units": units},
            "passwd": {"users": [core]},
        }),
    )
}

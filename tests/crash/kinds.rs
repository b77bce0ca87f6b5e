//! Changes to explore: each kind of change alone and small, and pairs of configs.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testbed::model::document::{data_url, file, machine_config, with_files};

use crate::case::Scenario;

/// `/var` is another file system on most hosts.
pub(crate) const VAR: &[&str] = &["/var"];

/// Kinds of change: name, config before and config after. New kinds are added here.
pub(crate) fn kinds() -> Vec<(&'static str, Value, Value)> {
    [files(), traded(), directories_and_links(), units(), users(), elsewhere()].concat()
}

/// Scenario of each kind of change, with these mounts.
pub(crate) fn scenarios(mounts: &'static [&'static str]) -> Vec<Scenario> {
    let kinds = kinds().into_iter();
    kinds.map(|(name, before, after)| scenario(name, Some(before), after, mounts)).collect()
}

/// Scenarios of a small first config, each config once.
pub(crate) fn first(mounts: &'static [&'static str]) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    for (name, _, after) in kinds() {
        if scenarios.iter().all(|known| known.after != after) {
            scenarios.push(scenario(&format!("first: {name}"), None, after, mounts));
        }
    }
    scenarios
}

pub(crate) fn scenario(
    name: &str,
    before: Option<Value>,
    after: Value,
    mounts: &'static [&'static str],
) -> Scenario {
    let name = if mounts.is_empty() { format!("{name}, one file system") } else { name.to_owned() };
    Scenario { name, before, after, mounts, actions: Vec::new(), damage: None }
}

/// Scenario of each ordered pair of configs that differ in their tree.
pub(crate) fn pairs(configs: &[PathBuf]) -> Vec<Scenario> {
    let mut pairs = Vec::new();
    for first in configs {
        for second in configs.iter().filter(|second| *second != first) {
            let name = format!("{} then {}", stem(first), stem(second));
            pairs.push(scenario(&name, Some(load(first)), load(second), VAR));
        }
    }
    pairs
}

/// Scenario of each config on a tree without one.
pub(crate) fn firsts(configs: &[PathBuf]) -> Vec<Scenario> {
    let first = |path: &PathBuf| scenario(&format!("first: {}", stem(path)), None, load(path), VAR);
    configs.iter().map(first).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().expect("a name").to_string_lossy().into_owned()
}

fn load(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a config")).expect("JSON")
}

fn nothing() -> Value {
    config(&json!({}), &json!([]), &json!({}))
}

fn config(storage: &Value, units: &Value, passwd: &Value) -> Value {
    let ignition = json!({"ignition": {"version": "3.5.0"}, "storage": storage,
        "systemd": {"units": units}, "passwd": passwd});
    machine_config("kind", &ignition)
}

fn stored(storage: &Value) -> Value {
    config(storage, &json!([]), &json!({}))
}

fn with(more: &[(&str, &str)]) -> Value {
    let files: Vec<Value> = more.iter().map(|(path, text)| file(path, text)).collect();
    with_files("kind", &files)
}

/// File with unusual attributes.
fn odd(path: &str, mode: u32, user: u32) -> Value {
    let mut odd = file(path, "the same");
    odd["mode"] = json!(mode);
    odd["user"] = json!({"id": user});
    with_files("kind", &[odd])
}

fn files() -> Vec<(&'static str, Value, Value)> {
    let append = |texts: &[&str]| {
        let parts: Vec<Value> =
            texts.iter().map(|text| json!({"source": data_url(text.as_bytes())})).collect();
        with_files("kind", &[json!({"path": "/etc/appended", "mode": 0o644, "append": parts})])
    };
    vec![
        ("new file", nothing(), with(&[("/etc/new.conf", "new")])),
        ("empty file", nothing(), with(&[("/etc/new.conf", "")])),
        ("changed file", with(&[("/etc/x.conf", "one")]), with(&[("/etc/x.conf", "two")])),
        ("mode only", odd("/etc/x.conf", 0o644, 0), odd("/etc/x.conf", 0o750, 0)),
        ("owner only", odd("/etc/x.conf", 0o644, 0), odd("/etc/x.conf", 0o644, 1000)),
        ("removed file", with(&[("/etc/x.conf", "one")]), nothing()),
        ("vendor file changed", nothing(), with(&[("/etc/chrony.conf", "ours")])),
        ("vendor file restored", with(&[("/etc/chrony.conf", "ours")]), nothing()),
        ("pre-image preserved", nothing(), with(&[("/etc/admin.conf", "ours")])),
        ("pre-image kept on", with(&[("/etc/admin.conf", "one")]), with(&[("/etc/admin.conf", "two")])),
        ("pre-image given back", with(&[("/etc/admin.conf", "ours")]), nothing()),
        ("appended", append(&["one\n"]), append(&["one\n", "two\n"])),
        (
            "several files",
            with(&[("/etc/a", "1"), ("/etc/b", "1"), ("/etc/c", "1")]),
            with(&[("/etc/b", "2"), ("/etc/c", "1"), ("/etc/d", "2"), ("/var/lib/e", "2")]),
        ),
    ]
}

fn traded() -> Vec<(&'static str, Value, Value)> {
    let unit = |name: &str, contents: &str| {
        config(&json!({}), &json!([{"name": name, "contents": contents}]), &json!({}))
    };
    let drop_in = |name: &str, drop_in: &str, contents: &str| {
        let dropins = json!([{"name": drop_in, "contents": contents}]);
        config(&json!({}), &json!([{"name": name, "dropins": dropins}]), &json!({}))
    };
    let service = "[Service]\nExecStart=/bin/true\n";
    let at = "/etc/systemd/system/moved.service";
    let below = "/etc/systemd/system/crio.service.d/10-moved.conf";
    vec![
        ("file to directory", with(&[("/etc/t", "file")]), with(&[("/etc/t/below", "file")])),
        ("directory to file", with(&[("/etc/t/below", "file")]), with(&[("/etc/t", "file")])),
        (
            "deep directory to file",
            with(&[("/etc/t/b/c", "1"), ("/etc/t/b/d", "1")]),
            with(&[("/etc/t/b", "file")]),
        ),
        ("file to unit", with(&[(at, "[Service]\nExecStart=/bin/false\n")]), unit("moved.service", service)),
        ("unit to file", unit("moved.service", service), with(&[(at, "[Service]\nExecStart=/bin/false\n")])),
        ("same file to unit", with(&[(at, service)]), unit("moved.service", service)),
        (
            "file to drop-in",
            with(&[(below, "[Unit]\n# file\n")]),
            drop_in("crio.service", "10-moved.conf", "[Unit]\n"),
        ),
        (
            "drop-in to file",
            drop_in("crio.service", "10-moved.conf", "[Unit]\n"),
            with(&[(below, "[Unit]\n# file\n")]),
        ),
        ("parent goes too", with(&[("/etc/deep/er/file", "x"), ("/etc/deep/other", "y")]), nothing()),
        (
            "half of the parents go",
            with(&[("/etc/deep/er/file", "x"), ("/etc/deep/other", "y")]),
            with(&[("/etc/deep/other", "y")]),
        ),
        (
            "deeper",
            with(&[("/etc/deep/file", "x")]),
            with(&[("/etc/deep/er/file", "x"), ("/etc/deep/er/still/file", "x")]),
        ),
    ]
}

fn directories_and_links() -> Vec<(&'static str, Value, Value)> {
    let directory = |mode: u32, user: u32| {
        stored(&json!({"directories": [{"path": "/etc/made", "mode": mode, "user": {"id": user}},
            {"path": "/etc/made/below", "mode": mode}]}))
    };
    let link = |target: &str| stored(&json!({"links": [{"path": "/etc/link", "target": target}]}));
    let pair = |target: &str| {
        let files = [file("/etc/one", "1"), file("/etc/two", "2")];
        stored(&json!({"files": files, "links": [{"path": "/etc/link", "target": target}]}))
    };
    let second = |text: &str, is: bool| {
        let links = if is {
            json!([{"path": "/etc/second", "target": "/etc/first", "hard": true}])
        } else {
            json!([])
        };
        stored(&json!({"files": [file("/etc/first", text)], "links": links}))
    };
    vec![
        ("directories made", nothing(), directory(0o750, 1000)),
        ("directories removed", directory(0o750, 1000), nothing()),
        ("directories get attributes", directory(0o755, 0), directory(0o700, 1000)),
        ("link made", nothing(), link("unmanaged.conf")),
        ("link removed", link("unmanaged.conf"), nothing()),
        ("link changed", link("admin.conf"), link("unmanaged.conf")),
        ("link and target removed", pair("one"), nothing()),
        ("link made with target", nothing(), pair("/etc/one")),
        ("link led elsewhere", pair("one"), pair("two")),
        ("file to link", with(&[("/etc/link", "file")]), link("admin.conf")),
        ("link to file", link("admin.conf"), with(&[("/etc/link", "file")])),
        ("hard link made", second("x", false), second("x", true)),
        ("hard link made with file", nothing(), second("x", true)),
        ("hard link follows", second("x", true), second("y", true)),
        ("hard link removed", second("x", true), second("x", false)),
        ("hard link and file removed", second("x", true), nothing()),
    ]
}

fn units() -> Vec<(&'static str, Value, Value)> {
    let all = |units: &Value| config(&json!({}), units, &json!({}));
    let main = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    let other = "[Service]\nExecStart=/bin/false\n[Install]\nWantedBy=basic.target\nAlias=also.service\n";
    let own = |contents: &str, enabled: bool| {
        all(&json!([{"name": "own.service", "contents": contents, "enabled": enabled}]))
    };
    let masked = || all(&json!([{"name": "crio.service", "mask": true}]));
    let drop_in = |text: &str| {
        all(&json!([{"name": "crio.service", "dropins": [{"name": "10-a.conf", "contents": text}]}]))
    };
    let both = |text: &str| {
        all(&json!([{"name": "own.service", "contents": main, "enabled": true,
            "dropins": [{"name": "10-a.conf", "contents": text}]}]))
    };
    let vendor = |enabled: bool| all(&json!([{"name": "docker.socket", "enabled": enabled}]));
    vec![
        ("unit made and enabled", nothing(), own(main, true)),
        ("unit enabled", own(main, false), own(main, true)),
        ("unit disabled", own(main, true), own(main, false)),
        ("unit removed", own(main, true), nothing()),
        ("unit installs elsewhere", own(main, true), own(other, true)),
        ("vendor unit enabled", nothing(), vendor(true)),
        ("vendor unit disabled", vendor(true), vendor(false)),
        ("unit masked", nothing(), masked()),
        ("unit unmasked", masked(), all(&json!([{"name": "crio.service", "mask": false, "enabled": true}]))),
        ("mask no longer listed", masked(), nothing()),
        ("own unit masked", own(main, true), all(&json!([{"name": "own.service", "mask": true}]))),
        ("drop-in made", nothing(), drop_in("[Unit]\n")),
        ("drop-in changed", drop_in("[Unit]\n"), drop_in("[Unit]\n# two\n")),
        ("drop-in removed", drop_in("[Unit]\n"), drop_in("")),
        ("unit with drop-in made", nothing(), both("[Unit]\n")),
        ("unit with drop-in removed", both("[Unit]\n"), nothing()),
    ]
}

fn users() -> Vec<(&'static str, Value, Value)> {
    let core = |keys: &[&str], hash: Option<&str>| {
        let mut core = json!({"name": "core", "sshAuthorizedKeys": keys});
        if let Some(hash) = hash {
            core["passwordHash"] = json!(hash);
        }
        config(&json!({}), &json!([]), &json!({"users": [core]}))
    };
    vec![
        ("keys made", nothing(), core(&["ssh-rsa AAAAone"], None)),
        (
            "keys changed",
            core(&["ssh-rsa AAAAone"], None),
            core(&["ssh-rsa AAAAone", "ssh-rsa AAAAtwo"], None),
        ),
        ("keys removed", core(&["ssh-rsa AAAAone"], None), nothing()),
        ("hash set", core(&["ssh-rsa AAAAone"], None), core(&["ssh-rsa AAAAone"], Some("$6$x$y"))),
        ("hash taken", core(&["ssh-rsa AAAAone"], Some("$6$x$y")), core(&["ssh-rsa AAAAone"], None)),
    ]
}

fn elsewhere() -> Vec<(&'static str, Value, Value)> {
    let places = [
        "/var/lib/made/file",
        "/usr/local/bin/ours",
        "/opt/ours/file",
        "/root/ours",
        "/home/core/ours",
        "/etc/ours",
    ];
    let all = |text: &str| with(&places.map(|path| (path, text)));
    let by_hand = "/usr/local/bin/by-hand";
    // A file that is changed ends like the one that is made: as first configs, the two are one.
    vec![
        ("file in /var made", nothing(), with(&[("/var/lib/made/file", "1")])),
        ("file in /var changed", with(&[("/var/lib/made/file", "2")]), with(&[("/var/lib/made/file", "1")])),
        ("file in /var removed", with(&[("/var/lib/made/file", "1")]), nothing()),
        ("through links made", nothing(), all("1")),
        ("through links changed", all("2"), all("1")),
        ("through links removed", all("1"), nothing()),
        ("pre-image through links preserved", nothing(), with(&[(by_hand, "ours")])),
        ("pre-image through links given back", with(&[(by_hand, "ours")]), nothing()),
    ]
}

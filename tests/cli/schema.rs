//! The documents of `plan`, `status`, `verify`, `history` and `etc-diff` against their schemas in `docs/schema`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use osimage::{Os, Scratch, SysrootBuilder};
use serde_json::{Value, json};
use testbed::model::document::{file, machine_config, with_files};
use testbed::model::rendered::real_configs;
use testbed::model::run::{Outcome, flameholder};
use testbed::model::tree::Tree;

const SCHEMAS: [&str; 9] =
    ["change", "error", "etc-diff", "fleet", "history", "plan", "status", "verify", "version"];

fn schema(name: &str) -> Value {
    let text = fs::read(testbed::repository().join("docs/schema").join(name).with_extension("json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn validator(schema: &Value) -> Validator {
    jsonschema::draft202012::new(schema).unwrap()
}

/// Forbid members that the schema does not list: a member that is added to a document needs a description.
fn without_unknown_members(mut schema: Value) -> Value {
    fn close(schema: &mut Value) {
        match schema {
            Value::Object(members) => {
                members.values_mut().for_each(close);
                // A condition repeats some members of an object and has no type.
                if members.contains_key("properties") && members.contains_key("type") {
                    members.insert("additionalProperties".to_owned(), json!(false));
                }
            }
            Value::Array(items) => items.iter_mut().for_each(close),
            _ => {}
        }
    }
    close(&mut schema);
    schema
}

/// Violations of the document's schema and of the expected exit codes in `outcome`.
fn complaints(name: &str, outcome: &Outcome, codes: &[i32]) -> Vec<String> {
    let mut complaints = Vec::new();
    if !outcome.code.is_some_and(|code| codes.contains(&code)) {
        complaints.push(format!("{name} exits with {:?}: {}", outcome.code, outcome.stderr));
    }
    match serde_json::from_str(&outcome.stdout) {
        Ok(document) => {
            let strict = validator(&without_unknown_members(schema(name)));
            let errors = strict.iter_errors(&document);
            complaints.extend(errors.map(|error| format!("{name} at {}: {error}", error.instance_path())));
        }
        Err(error) => complaints.push(format!("{name} does not print exactly one JSON document: {error}")),
    }
    complaints
}

/// Run a command with `-o json` and return its document, validated against the schema of its name.
fn documented<A: AsRef<OsStr>>(verb: &str, arguments: &[A], code: i32) -> Value {
    documented_as(verb, verb, arguments, code)
}

/// Run a command that changes something, and return its document, validated against its schema.
fn changed<A: AsRef<OsStr>>(verb: &str, arguments: &[A]) -> Value {
    documented_as("change", verb, arguments, 0)
}

fn documented_as<A: AsRef<OsStr>>(schema: &str, verb: &str, arguments: &[A], code: i32) -> Value {
    let output = [verb, "-o", "json"].map(AsRef::as_ref);
    let outcome = flameholder(output.into_iter().chain(arguments.iter().map(AsRef::as_ref)));
    let complaints = complaints(schema, &outcome, &[code]);
    assert!(complaints.is_empty(), "{}\n{}", complaints.join("\n"), outcome.stdout);
    serde_json::from_str(&outcome.stdout).unwrap()
}

fn written(folder: &Path, name: &str, document: &Value) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, document.to_string()).unwrap();
    path
}

/// MachineConfig in which every section changes something.
fn many_sided(name: &str) -> Value {
    let unit = json!({"name": "local.service", "enabled": true,
        "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
        "dropins": [{"name": "10-more.conf", "contents": "[Service]\nNice=1\n"}]});
    let mut config = with_files(name, &[file("/etc/a", "a"), file("/etc/containers/policy.json", "{}")]);
    let ignition = &mut config["spec"]["config"];
    ignition["systemd"] = json!({"units": [unit]});
    ignition["passwd"] = json!({"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-rsa AAAA"],
        "passwordHash": "$6$salt$hash"}]});
    ignition["storage"]["directories"] = json!([{"path": "/etc/d"}]);
    ignition["storage"]["links"] = json!([{"path": "/etc/l", "target": "a"}]);
    let spec = config["spec"].as_object_mut().unwrap();
    for (field, value) in [
        ("osImageURL", json!("registry.example.net/os:5")),
        ("kernelArguments", json!(["nosmt", "a b"])),
        ("kernelType", json!("realtime")),
        ("extensions", json!(["usbguard"])),
    ] {
        spec.insert(field.to_owned(), value);
    }
    config
}

/// Rewrites `docs/schema/` if `FLAMEHOLDER_BLESS` is set: after a change of a document's type.
#[test]
fn published_schemas_are_those_of_the_types() {
    let mut stale = Vec::new();
    for (name, schema) in flameholder::report::schema::all() {
        let path = testbed::repository().join("docs/schema").join(name).with_extension("json");
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("FLAMEHOLDER_BLESS").is_some() {
            fs::write(path, text).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != text {
            stale.push(path.display().to_string());
        }
    }
    assert!(
        stale.is_empty(),
        "{} differ from the types in src/report; check the change, and write it with FLAMEHOLDER_BLESS=1",
        stale.join(", ")
    );
}

#[test]
fn every_document_has_a_published_schema() {
    let names: Vec<&str> = flameholder::report::schema::all().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, SCHEMAS);
}

#[test]
fn schemas_are_valid_json_schemas() {
    for name in SCHEMAS {
        let schema = schema(name);
        assert_eq!(jsonschema::meta::validate(&schema).map_err(|error| error.to_string()), Ok(()), "{name}");
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }
}

#[test]
fn plans_between_all_configs_match_the_schema() {
    let fixtures = fs::read_dir(testbed::fixture("")).unwrap().map(|entry| entry.unwrap().path());
    let fixtures: Vec<PathBuf> = fixtures.filter(|path| path.extension() == Some("json".as_ref())).collect();
    assert!(fixtures.len() > 5, "{fixtures:?}");
    let mut found = Vec::new();
    for configs in [fixtures, real_configs()] {
        for current in &configs {
            for desired in &configs {
                for profile in ["mcd", "native"] {
                    let pair = [
                        "--current".as_ref(),
                        current.as_os_str(),
                        "--desired".as_ref(),
                        desired.as_os_str(),
                    ];
                    let options = ["plan", "-o", "json", "--profile", profile].map(AsRef::as_ref);
                    let outcome = flameholder(options.into_iter().chain(pair));
                    found.extend(complaints("plan", &outcome, &[0, 1]).iter().map(|violation| {
                        format!("{} then {}: {violation}", current.display(), desired.display())
                    }));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn plans_with_all_members_match_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    let desired = written(folder.path(), "desired.json", &many_sided("rendered-many"));
    let empty = machine_config("rendered-empty", &json!({"ignition": {"version": "3.4.0"}}));
    let current = written(folder.path(), "current.json", &empty);
    let plan = documented("plan", &["--desired".as_ref(), desired.as_os_str()], 0);
    assert_eq!(plan["current"], Value::Null);
    for (current, desired) in [(&current, &desired), (&desired, &current)] {
        let arguments =
            ["--current".as_ref(), current.as_os_str(), "--desired".as_ref(), desired.as_os_str()];
        let plan = documented("plan", &arguments, 0);
        for section in [
            "files",
            "directories",
            "links",
            "units",
            "osImage",
            "kernelArguments",
            "kernelType",
            "extensions",
        ] {
            let change = &plan["changes"][section];
            assert!(
                change.is_object() || change.as_array().is_some_and(|items| !items.is_empty()),
                "{section}: {plan}"
            );
        }
        assert_eq!(plan["rebootRequired"], true);
    }
    let mut fips = empty;
    fips["spec"]["fips"] = json!(true);
    let fips = written(folder.path(), "fips.json", &fips);
    let arguments = ["--current".as_ref(), current.as_os_str(), "--desired".as_ref(), fips.as_os_str()];
    assert_eq!(documented("plan", &arguments, 1)["irreconcilable"][0]["field"], "spec.fips");
}

#[test]
fn versions_match_their_schema() {
    assert_eq!(documented("version", &[""; 0], 0)["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_tree_before_and_after_and_damaged() {
    testbed::preconditions::require_root();
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    let desired = written(folder.path(), "desired.json", &many_sided("rendered-many"));
    let place = ["--root".as_ref(), tree.root().as_os_str()];
    let target = [place.as_slice(), &["--desired".as_ref(), desired.as_os_str()]].concat();
    assert_eq!(documented("status", &place, 0)["generation"], Value::Null);
    let plan = documented("plan", &target, 0);
    assert!(!plan["unsupported"].as_array().unwrap().is_empty(), "{plan}");
    let applied = changed("apply", &target);
    assert_eq!((&applied["result"], &applied["unsupported"]), (&json!("applied"), &plan["unsupported"]));
    assert_eq!(changed("recover", &place)["result"], "unchanged");
    assert_eq!(documented("status", &place, 0)["generation"]["config"], "rendered-many");
    assert_eq!(documented("verify", &place, 0)["drift"], json!([]));
    assert_eq!(documented("history", &place, 0)["events"][0]["event"], "applied");

    fs::write(tree.at("/etc/a"), "other").unwrap();
    fs::remove_file(tree.at("/etc/l")).unwrap();
    fs::remove_file(tree.at("/etc/systemd/system/multi-user.target.wants/local.service")).unwrap();
    let verified = documented("verify", &place, 2);
    let drift = documented("plan", &target, 0)["drift"].clone();
    let found = verified["drift"].as_array().unwrap().iter();
    let found: Vec<Value> = found
        .map(|item| json!({"path": item["path"], "kind": item["kind"], "difference": item["difference"]}))
        .collect();
    assert_eq!(json!(found), drift);
    let kinds: Vec<&str> =
        drift.as_array().unwrap().iter().map(|item| item["kind"].as_str().unwrap()).collect();
    for kind in ["content", "missing", "enablement"] {
        assert!(kinds.contains(&kind), "{kind}: {drift}");
    }
}

#[test]
fn a_sysroot_before_and_after_and_damaged() {
    testbed::preconditions::require_root();
    let scratch = Scratch::new().unwrap();
    let sysroot = scratch.path().join("sysroot");
    SysrootBuilder::new(Os::new(1)).create(&sysroot).unwrap();
    let mut config = with_files("rendered-sysroot", &[file("/etc/a", "a")]);
    config["spec"]["kernelArguments"] = json!(["nosmt"]);
    let desired = written(scratch.path(), "desired.json", &config);
    let place = ["--sysroot".as_ref(), sysroot.as_os_str()];
    let target = [place.as_slice(), &["--desired".as_ref(), desired.as_os_str()]].concat();
    assert_eq!(documented("status", &place, 0)["deployments"][0]["generation"], Value::Null);
    let layout = scratch.path().join("layout");
    osimage::write_image(&Os::new(2), &layout, None).unwrap();
    let image = format!("ostree-unverified-image:oci:{}", layout.display());
    let measured = ["--fetch-size", "--os-image", &image].map(AsRef::as_ref);
    let plan = documented("plan", &[&target[..], &measured].concat(), 0);
    let layers = plan["fetch"]["layers"].as_u64();
    assert!(layers.is_some_and(|layers| layers > 0) && plan["fetch"]["bytes"].is_u64(), "{plan:#}");
    assert_eq!(plan["changes"]["osImage"]["to"], image.as_str());
    assert_eq!(plan["preflight"][0]["check"], "skopeo");
    assert_eq!((&plan["etc"]["with"], &plan["etc"]["due"]), (&json!("present"), &json!(true)));
    let applied = changed("apply", &target);
    assert_eq!((&applied["result"], &applied["reboot"]), (&json!("applied"), &json!("outstanding")));
    let status = documented("status", &place, 0);
    assert_eq!(status["deployments"][0]["generation"]["recordMatches"], true);
    assert_eq!(documented("history", &place, 0)["events"][0]["event"], "deployed");
    assert_eq!(documented("verify", &place, 0)["drift"], json!([]));

    let merge = documented("etc-diff", &place, 0);
    assert_eq!(merge["from"], merge["to"]);
    let kept = merge["kept"].as_array().unwrap();
    assert!(kept.contains(&json!({"path": "/etc/a", "change": "add"})), "{merge}");

    let deployed = &status["deployments"][0];
    let [stateroot, commit] = ["stateroot", "commit"].map(|member| deployed[member].as_str().unwrap());
    let root = format!("ostree/deploy/{stateroot}/deploy/{commit}.{}", deployed["serial"]);
    fs::write(sysroot.join(&root).join("etc/a"), "other").unwrap();
    let difference = json!({"expected": "1 byte", "found": "5 bytes"});
    let expected = json!([
        {"path": "/etc/a", "kind": "content", "difference": difference, "policy": "report", "counts": true, "documents": [], "obstacle": null}
    ]);
    assert_eq!(documented("verify", &place, 2)["drift"], expected);
    // Settings are read from the deployment in the sysroot, not from the host.
    let fragments = sysroot.join(root).join("etc/flameholder/config.d");
    fs::create_dir_all(&fragments).unwrap();
    fs::write(fragments.join("10.toml"), "[drift]\ndefault = \"ignore\"\n").unwrap();
    assert_eq!(documented("verify", &place, 0)["drift"][0]["policy"], "ignore");
}

/// Document of each kind with as many members as possible.
fn good(name: &str) -> Value {
    let generation = json!({"generation": "0".repeat(32), "config": "c", "configHash": format!("sha256:{:064}", 1),
        "recordMatches": true, "atFinalization": false, "applied": "2026-11-23T09:12:00Z", "confirmed": null, "unsupported": ["a reason"], "deferred": [],
        "signature": {"rule": "default", "demand": "nothing", "keyFiles": [{"path": "/etc/pki/os.pub", "digest": format!("sha256:{:064}", 1)}], "enforcement": "notNeeded"}});
    match name {
        "change" => {
            json!({"schema": 1, "command": "apply", "result": "staged", "config": "c", "generation": "0".repeat(32),
            "deployment": format!("{}.0", "0".repeat(64)), "reboot": "outstanding", "seconds": 1.5, "merged": ["/etc/m"],
            "restored": ["/etc/r"], "unsupported": ["a reason"], "deferred": ["a reason"], "warnings": ["a reason"],
            "message": "staged c\n"})
        }
        "error" => {
            json!({"schema": 1, "error": {"code": 78, "message": "worker.yaml:4:3: a reason", "problems": [
            {"field": "spec.config.storage.files[1].mode", "message": "a reason", "line": 4, "column": 3}]}})
        }
        "plan" => json!({
            "schema": 1, "profile": "native", "current": null, "desired": "c",
            "changes": {
                "files": [{"path": "/etc/a", "change": "add", "onDisk": "unchanged", "reasons": ["new"]}], "directories": [], "links": [],
                "units": [{"name": "a.service", "change": "modify", "reasons": ["mask differs"]}],
                "osImage": {"from": null, "to": "h/os"}, "kernelArguments": {"from": [], "to": ["nosmt"]},
                "kernelType": {"from": "default", "to": "realtime"}, "extensions": {"from": [], "to": ["usbguard"]},
                "sshKeys": false, "password": true, "fips": false},
            "actions": [{"type": "Restart", "unit": "a.service", "because": ["it differs"]}],
            "hypothetical": true, "changesHost": true, "merges": [{"path": "/etc/m", "conflict": "a reason"}], "restores": [{"path": "/etc/a", "kind": "mode", "difference": null}],
            "drain": false, "rebootRequired": false,
            "irreconcilable": [{"field": "spec.fips", "reason": "FIPS mode cannot change"}],
            "drift": [{"path": "/etc/a", "kind": "mode", "difference": {"expected": "0644", "found": "0600"}}], "etc": {"with": "next", "due": true, "kept": 0,
                "fromImage": 1, "conflicts": 2, "notTaken": 3,
                "losses": [{"path": "/etc", "change": "modify", "lost": "directoryAttributes"}],
                "refusals": [{"path": "/etc/a", "reason": "newlyDirectory", "detail": "move it away"}]},
            "unsupported": [], "deferred": [], "warnings": [],
            "preflight": [{"check": "skopeo", "ok": true, "detail": ""}],
            "fetch": {"layers": 34, "bytes": 641_728_512}}),
        "etc-diff" => json!({"schema": 1,
            "from": {"stateroot": "fedora-coreos", "commit": "0".repeat(64), "serial": 0},
            "to": {"stateroot": "fedora-coreos", "commit": "1".repeat(64), "serial": 0},
            "kept": [{"path": "/etc/k", "change": "add"}], "fromImage": [{"path": "/etc/i", "change": "remove"}],
            "conflicts": [{"path": "/etc/c", "local": "modify", "image": "remove"}],
            "losses": [{"path": "/etc", "change": "modify", "lost": "xattrs"}],
            "notTaken": [{"path": "/etc/h", "change": "modify"}],
            "refusals": [{"path": "/etc/r", "reason": "specialFile", "detail": "remove it"}]}),
        "fleet" => json!({"schema": 1, "missing": ["a reason"],
            "pools": [{"name": "worker", "isPaused": false, "desired": "c", "nodes": 1, "updated": 0, "waiting": 1, "needHelp": 0,
                "updatedLastHour": 0}],
            "nodes": [{"name": "node-7", "pool": "worker", "phase": "AwaitingGrant", "since": "2026-11-28T23:30:00Z", "desired": "c",
                "current": null, "reason": "a reason", "isUpdated": false, "agent": "flameholder 0.1.0", "os": "Fedora CoreOS",
                "isReady": true, "isCordoned": false}],
            "slots": [{"group": "workers", "lease": "workers-0", "holder": "node-8", "renewed": "2026-11-28T23:30:00Z"}],
            "blocked": [{"config": "b", "reason": "a reason", "nodes": ["node-9"]}],
            "releases": [{"version": "42.1", "nodes": 1, "step": "next", "next": "43.1", "barrier": "a reason", "reason": null}]}),
        "history" => json!({"schema": 1, "damagedLines": 0, "events": [{
            "time": "2026-01-02T03:04:05.678Z", "event": "confirmed", "config": "c", "generation": "0".repeat(32),
            "previousGeneration": null, "image": "registry.example/os:1", "reason": "a reason", "paths": ["/etc/a"],
            "pathCount": 1, "seconds": 1, "phases": [{"phase": "Draining", "seconds": 1}],
            "requester": {"command": "apply", "user": null}, "bootId": "b"}]}),
        "version" => {
            json!({"schema": 1, "version": "0.1.0", "commit": "a", "target": "x86_64-unknown-linux-gnu", "tls": "rustls",
            "worker": {"protocol": 8, "libostree": "2022.7"}, "workerError": null})
        }
        "verify" => json!({"schema": 1, "generation": "0".repeat(32), "config": "c",
            "drift": [{"path": "/etc/a", "kind": "owner", "difference": {"expected": "0:0", "found": "7:7"},
                "policy": "repair", "counts": true, "documents": ["10-base", "20-site"], "obstacle": "a directory is in the way"}],
            "repaired": [{"path": "/etc/b", "kind": "label", "difference": null}],
            "kernelArgumentsAfterReboot": {"added": ["nosmt"], "removed": ["quiet"]}}),
        "status" => json!({"schema": 1, "published": "2026-11-23T09:14:00Z", "generation": generation,
            "condition": {"name": "Blocked", "outcome": "failed", "since": "2026-11-23T09:14:00Z", "reason": "a reason", "remedy": "flameholder retry"},
            "daemonRunning": true, "drift": 1, "deployments": [{
            "next": true, "booted": false, "staged": false, "locked": false, "rollback": true, "pinned": false, "stateroot": "fedora-coreos",
            "commit": "0".repeat(64), "serial": 0, "version": null, "image": "ostree-unverified-registry:h/os",
            "manifestDigest": null, "kernelArguments": ["rw"], "generation": null}],
            "transaction": {"current": null, "target": "1".repeat(32), "state": "prepared",
                "inProgress": false},
            "pending": {"generation": "2".repeat(32), "config": "c", "commit": "0".repeat(64), "state": "locked", "reason": null, "unlocked": false, "rpmOstreeTransactions": 1,
                "failure": {"bootId": "b", "kind": "interrupted", "reason": "a reason"}},
            "blocked": {"schema": 1, "config": "c", "configHash": format!("sha256:{:064}", 1), "imageDigest": null,
                "generation": "3".repeat(32), "reason": "a reason", "attempts": 1},
            "kernelArgumentsAfterReboot": {"added": ["nosmt"], "removed": ["quiet"]},
            "rebootPolicy": {"window": {"opens": "2026-11-28T23:30:00Z", "closes": "2026-11-29T00:30:00Z"},
                "lock": "https://lock.example.com (group workers)", "warnings": ["a reason"],
                "grant": {"config": "c", "since": "2026-11-28T22:00:00Z", "holdsSlot": true}},
            "hooks": [{"stage": "after-confirmation", "name": "10-note", "config": "c", "time": "2026-11-28T23:30:00Z", "failure": null}],
            "daemon": {"pid": 1, "source": "kube", "waitsFor": {"kind": "window", "opens": "2026-11-28T23:30:00Z"}, "phase": "BackingOff", "since": "2026-11-23T09:14:00Z", "desired": "c", "current": null, "reason": "a reason", "class": "transient", "failures": 1, "sourceDigest": null, "sourceError": null, "trustError": null,
                "pinnedImages": {"images": 2, "present": 1, "failed": 1, "isPinned": false, "failure": "a reason",
                    "sets": [{"name": "s", "generation": 1, "isPinned": false, "failure": "a reason"}]}},
            "bootCheck": {"generation": null, "phase": "checking",
                "findings": [{"check": "boot", "ok": false, "detail": "not complete"}]},
            "bootCheckSecondsLeft": 1,
            "agent": {"version": "0.1.0", "path": "/usr/bin/flameholder"},
            "unreadable": [{"path": "/var/lib/flameholder/pending.unreadable", "reason": "a reason"}],
            "origin": {"bootImage": {"version": "43.1", "image": "quay.io/os:1", "digest": null},
                "irreconcilableChanges": [{"field": "spec.config.storage.disks", "change": "add"}],
                "unreadable": [{"path": "/sysroot/.bootc-aleph.json", "reason": "a reason"}]},
            "space": [{"path": "/boot", "free": 1, "total": 2}]}),
        other => panic!("{other} has no schema"),
    }
}

#[test]
fn schemas_allow_new_members_and_require_existing_ones() {
    for name in SCHEMAS {
        let validator = validator(&schema(name));
        let whole = good(name);
        assert!(validator.is_valid(&whole), "{:?}", validator.validate(&whole));
        for pointer in objects(&whole, String::new()) {
            let mut grown = whole.clone();
            grown.pointer_mut(&pointer).unwrap()["later"] = json!(1);
            assert!(validator.is_valid(&grown), "{name}: rejects a new member in {pointer:?}");
            for member in whole.pointer(&pointer).unwrap().as_object().unwrap().keys() {
                let mut shrunk = whole.clone();
                shrunk.pointer_mut(&pointer).unwrap().as_object_mut().unwrap().remove(member);
                assert!(!validator.is_valid(&shrunk), "{name}: accepts {pointer:?} without {member}");
            }
        }
    }
}

/// JSON pointers to every object in `value`.
fn objects(value: &Value, at: String) -> Vec<String> {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, member)| (name.clone(), member)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect()
        }
        _ => Vec::new(),
    };
    let deeper = below
        .into_iter()
        .flat_map(|(name, value)| objects(value, format!("{at}/{name}")))
        .collect::<Vec<_>>();
    value.is_object().then_some(at).into_iter().chain(deeper).collect()
}

#[test]
fn damaged_documents_are_rejected() {
    let none = json!({"type": "None", "because": []});
    let damages = [
        ("plan", "/schema", json!(2)),
        ("plan", "/profile", json!("own")),
        ("plan", "/desired", Value::Null),
        ("plan", "/changes/files/0/path", json!("etc/a")),
        ("plan", "/changes/files/0/change", json!("added")),
        ("plan", "/changes/files/0/reasons", json!([])),
        ("plan", "/changes/units/0/name", json!("a")),
        ("plan", "/changes/osImage/to", json!(1)),
        ("plan", "/changes/kernelArguments", json!(["nosmt"])),
        ("plan", "/changes/kernelType/to", json!("tickless")),
        ("plan", "/changes/sshKeys", json!("no")),
        ("plan", "/actions", json!([])),
        ("plan", "/actions", json!([none, {"type": "Drain", "because": ["it"]}])),
        ("plan", "/actions/0/type", json!("Stop")),
        ("plan", "/actions/0/because", json!([])),
        ("plan", "/actions/0", json!({"type": "Reload", "because": ["it"]})),
        ("plan", "/actions/0", json!({"type": "Drain", "unit": "a.service", "because": ["it"]})),
        ("plan", "/actions/0", json!({"type": "Reboot", "because": ["it"]})),
        ("plan", "/rebootRequired", json!(true)),
        ("plan", "/changes/files/0/onDisk", json!("same")),
        ("plan", "/drift/0/kind", json!("color")),
        ("plan", "/etc", json!([])),
        ("plan", "/etc/with", json!("last")),
        ("plan", "/etc/kept", json!(["/etc/a"])),
        ("plan", "/etc/refusals/0/reason", json!("other")),
        ("etc-diff", "/from/commit", json!("abc")),
        ("fleet", "/nodes/0/since", json!(7)),
        ("fleet", "/pools/0/updated", json!(-1)),
        ("fleet", "/slots/0/lease", Value::Null),
        ("etc-diff", "/kept/0/path", json!("/usr/etc/k")),
        ("etc-diff", "/kept/0/change", json!("keep")),
        ("etc-diff", "/losses/0/lost", json!("nothing")),
        ("etc-diff", "/notTaken", Value::Null),
        ("etc-diff", "/refusals/0/detail", json!("")),
        ("plan", "/unsupported/-", json!("")),
        ("plan", "/preflight/0/ok", json!("yes")),
        ("verify", "/generation", json!("1")),
        ("verify", "/config", json!("")),
        ("verify", "/drift", Value::Null),
        ("verify", "/drift/0/kind", json!("Owner")),
        ("verify", "/drift/0/path", json!("a")),
        ("verify", "/drift/0/policy", json!("hide")),
        ("verify", "/drift/0/obstacle", json!("")),
        ("verify", "/repaired", Value::Null),
        ("verify", "/repaired/0/kind", json!("colour")),
        ("history", "/events/0/time", json!(1)),
        ("history", "/events/0/paths/0", json!("etc/a")),
        ("history", "/events/0/requester/command", Value::Null),
        ("version", "/workerError", json!("")),
        ("version", "/target", Value::Null),
        ("version", "/worker/protocol", json!("6")),
        ("status", "/generation/configHash", json!("sha256:1")),
        ("status", "/generation/unsupported", json!("none")),
        ("status", "/deployments", json!({})),
        ("status", "/agent/version", json!("")),
        ("status", "/agent/path", json!("flameholder")),
        ("status", "/deployments/0/commit", json!("abc")),
        ("status", "/deployments/0/serial", json!(-1)),
        ("status", "/deployments/0/serial", json!(0.5)),
        ("status", "/deployments/0/image", json!("h/os")),
        ("status", "/deployments/0/manifestDigest", json!("md5:1")),
        ("status", "/deployments/0/kernelArguments", json!("rw")),
        ("status", "/deployments/0/generation", json!({})),
    ];
    for (name, pointer, value) in damages {
        let mut document = good(name);
        match pointer.strip_suffix("/-") {
            Some(list) => document.pointer_mut(list).unwrap().as_array_mut().unwrap().push(value.clone()),
            None => *document.pointer_mut(pointer).unwrap() = value.clone(),
        }
        assert!(!validator(&schema(name)).is_valid(&document), "{name}: accepts {value} at {pointer}");
    }
}

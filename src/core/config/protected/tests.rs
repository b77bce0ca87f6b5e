//! Tables of entries: the field and the words of each refusal, and entries that stay manageable.

use serde_json::{Value, json};

use super::*;
use crate::core::config::{decode, machine_config};
use crate::core::values::refusal::RefusalList;

/// Parse a MachineConfig with these sections of its Ignition config.
fn object(sections: &Value) -> machine_config::MachineConfig {
    let mut ignition = sections.clone();
    ignition["ignition"] = json!({"version": "3.5.0"});
    let object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": "t"}, "spec": {"config": ignition},
    });
    machine_config::parse(object.to_string().as_bytes()).unwrap()
}

fn refusals(sections: &Value) -> Vec<(String, String)> {
    let refused = decode::decode(&object(sections)).err();
    let refused = refused.iter().flat_map(RefusalList::as_slice);
    refused.map(|refusal| (refusal.field.clone(), refusal.reason.clone())).collect()
}

#[track_caller]
fn assert_refused(sections: &Value, field: &str, words: &[&str]) {
    let refused = refusals(sections);
    let [(found, reason)] = refused.as_slice() else { panic!("one refusal of {sections}: {refused:?}") };
    assert_eq!(found, field, "{sections}");
    assert!(words.iter().all(|word| reason.contains(word)), "{words:?} in {reason}");
    let left_out = decode::decode_applied(&object(sections)).unwrap().left_out;
    assert_eq!(left_out, [format!("{field}: {reason}")], "an applied config names the entry");
}

fn file(path: &str, text: &str) -> Value {
    json!({"path": path, "mode": 420, "contents": {"source": format!("data:,{}", escaped(text))}})
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn files(entries: &[Value]) -> Value {
    json!({"storage": {"files": entries}})
}

fn unit(entry: &Value) -> Value {
    json!({"systemd": {"units": [entry]}})
}

const OWN: &str = "belongs to the agent";
const UNIT: &str = "a unit of the agent";
const FINALIZE: &str = "finalizes deployments";
/// Paths that no host takes as a file or link, with a word of the reason.
const PATHS: [(&str, &str); 59] = [
    ("/proc/sys/kernel/x", "sysctl.d"),
    ("/sys/x", "tmpfiles.d"),
    ("/dev/x", "udev"),
    ("/boot/loader/x", "spec.kernelArguments"),
    ("/efi/x", "share"),
    ("/sysroot/x", "deployments"),
    ("/ostree/x", "deployments"),
    ("/etc/passwd", "spec.config.passwd"),
    ("/etc/group", "spec.config.passwd"),
    ("/etc/shadow", "spec.config.passwd"),
    ("/etc/gshadow", "spec.config.passwd"),
    ("/etc/machine-id", "this host alone"),
    ("/etc/flameholder/generation", OWN),
    ("/etc/flameholder/originals/0", OWN),
    ("/etc/flameholder/unconfirmed", OWN),
    ("/etc/flameholder/daemon.env", OWN),
    ("/etc/flameholder/desired/a.json", OWN),
    ("/etc/flameholder", "must be a directory"),
    ("/etc/flameholder/config.d", "must be a directory"),
    ("/etc/machine-config-daemon/currentconfig", OWN),
    ("/etc/machine-config-daemon/currentimage", OWN),
    ("/etc/machine-config-daemon", "must be a directory"),
    ("/etc/ignition-machine-config-encapsulated.json", OWN),
    ("/etc/ignition-machine-config-encapsulated.json.bak", OWN),
    ("/etc/mcs-machine-config-content.json", OWN),
    ("/etc/yum.repos.d/flameholder-extensions.repo", OWN),
    ("/var/lib/flameholder/pending", OWN),
    ("/var/lib", "must be a directory"),
    ("/run/flameholder/cluster/token", OWN),
    ("/var/run/flameholder/cluster/token", OWN),
    ("/run/machine-config-daemon-force", "force file"),
    ("/var/run/machine-config-daemon-force", "force file"),
    ("/usr/local/bin/flameholder", OWN),
    ("/var/usrlocal/bin/flameholder", OWN),
    ("/usr/local/sbin/flameholder", OWN),
    ("/usr/local/libexec/flameholder/1/flameholder-ostree", OWN),
    ("/usr/local", "must be a directory"),
    ("/etc/x/.flameholder.d/y", "prepares"),
    ("/etc/systemd/system", "must be a directory"),
    ("/etc/systemd/system/flameholder-activate.service", UNIT),
    ("/etc/systemd/system.control/flameholder-daemon.service", UNIT),
    ("/run/systemd/system/flameholder-recover.service", UNIT),
    ("/var/run/systemd/transient/flameholder-recover.service", UNIT),
    ("/usr/local/lib/systemd/system/flameholder-confirm-boot.service", UNIT),
    ("/lib/systemd/system/flameholder-firstboot.service", UNIT),
    ("/etc/systemd/system/multi-user.target.wants/flameholder-daemon.service", UNIT),
    ("/etc/systemd/system/kubelet.service.requires/flameholder-activate.service", UNIT),
    ("/etc/systemd/system/flameholder-daemon.service.requires/x.service", UNIT),
    ("/etc/systemd/system/flameholder-activate.service.d/x.conf", UNIT),
    ("/etc/systemd/system/flameholder-.service.d/x.conf", UNIT),
    ("/etc/systemd/system/flameholder-confirm-.service.d/x.conf", UNIT),
    ("/etc/systemd/system/flameholder-daemon.service.d", "must be a file"),
    ("/etc/systemd/system/ostree-finalize-staged.service", FINALIZE),
    ("/etc/systemd/system/ostree-finalize-staged.path", FINALIZE),
    ("/etc/systemd/system/ostree-finalize-staged.service.d/99-x.conf", FINALIZE),
    ("/run/systemd/system/ostree-.service.d/99-x.conf", FINALIZE),
    ("/etc/systemd/system/machine-config-daemon-pull.service.d/50-flameholder.conf", "agent's own"),
    ("/etc/systemd/system/kubelet.service.d/50-flameholder.conf", "agent's own"),
    ("/etc/systemd/system/k3s.service.d/50-flameholder.conf", "agent's own"),
];

#[test]
fn path_that_no_host_takes_is_refused_with_a_remedy() {
    for (path, word) in PATHS {
        assert_refused(&files(&[file(path, "x")]), "spec.config.storage.files[0].path", &[path, word]);
        let link = json!({"storage": {"links": [{"path": path, "target": "/dev/null"}]}});
        assert_refused(&link, "spec.config.storage.links[0].path", &[path, word]);
    }
    for path in ["/boot/x", "/etc/flameholder/originals", "/var/lib/flameholder", "/run/flameholder"] {
        let directory = json!({"storage": {"directories": [{"path": path}]}});
        assert_refused(&directory, "spec.config.storage.directories[0].path", &[path, "entry"]);
    }
}

#[test]
fn path_beside_a_protected_one_is_accepted() {
    for path in [
        "/etc/passwd-",
        "/etc/subuid",
        "/etc/subgid",
        "/etc/bootc/x",
        "/bootstrap",
        "/etc/flameholder/config.d/10-x.txt",
        "/etc/flameholder/health.d/10-x",
        "/etc/flameholder/before-drain.d/10-x",
        "/etc/flameholder/after-confirmation.d/10-x",
        "/etc/machine-config-daemon/no-reboot/x",
        "/etc/yum.repos.d/x.repo",
        "/usr/local/bin/flameholder-site",
        "/var/lib/kubelet/config.json",
        "/run/x",
        "/etc/systemd/system/service.d/x.conf",
        "/etc/systemd/system/x.service",
        "/etc/systemd/system/x.service.d/50-site.conf",
        "/etc/systemd/system/x.target.wants/x.service",
        "/etc/systemd/system/flameholder-site.service",
        "/etc/systemd/system/flameholder-site.service.d/x.conf",
        "/etc/systemd/system/flameholder-daemon-x-.service.d/x.conf",
        "/etc/systemd/system/ostree-prepare-root.service.d/x.conf",
        "/etc/systemd/system/flameholder-.socket.d/x.conf",
        "/etc/systemd/user/flameholder-daemon.service",
    ] {
        assert_eq!(refusals(&files(&[file(path, "x")])), [], "{path}");
        let link = json!({"storage": {"links": [{"path": path, "target": "/dev/null"}]}});
        assert_eq!(refusals(&link), [], "{path}");
    }
    for path in [
        "/etc/flameholder",
        "/etc/flameholder/config.d",
        "/etc/systemd/system/flameholder-daemon.service.d",
        "/usr/local/bin",
        "/var/lib",
    ] {
        assert_eq!(refusals(&json!({"storage": {"directories": [{"path": path}]}})), [], "{path}");
    }
}

#[test]
fn unit_of_the_agent_or_of_ostree_is_neither_masked_nor_replaced_nor_disabled() {
    let names =
        AGENT_UNITS.into_iter().chain(["ostree-finalize-staged.service", "ostree-finalize-staged.path"]);
    for name in names {
        for (entry, part, word) in [
            (json!({"name": name, "mask": true}), "mask", "masked"),
            (json!({"name": name, "mask": false}), "mask", "unmasked"),
            (json!({"name": name, "contents": "[Service]\n"}), "contents", "replaced"),
            (json!({"name": name, "enabled": false}), "enabled", "disabled"),
        ] {
            let field = format!("spec.config.systemd.units[0].{part}");
            assert_refused(&unit(&entry), &field, &[name, word, "remove"]);
        }
        assert_eq!(refusals(&unit(&json!({"name": name, "enabled": true}))), []);
        if name != "flameholder-daemon.service" {
            let entry = json!({"name": name, "dropins": [{"name": "x.conf", "contents": "[Unit]\n"}]});
            let field = "spec.config.systemd.units[0].dropins";
            assert_refused(&unit(&entry), field, &[name, "x.conf", "remove"]);
        }
    }
}

#[test]
fn drop_in_of_the_daemon_sets_harmless_keys_only() {
    let path = "/etc/systemd/system/flameholder-daemon.service.d/10-site.conf";
    let drop_in = |name: &str, text: &str| {
        unit(&json!({"name": name, "dropins": [{"name": "10-site.conf", "contents": text}]}))
    };
    for text in ["", "[Service]\nEnvironment=A=1\nMemoryMax=1G\n[Unit]\nAfter=x.service\n"] {
        assert_eq!(refusals(&drop_in("flameholder-daemon.service", text)), []);
        assert_eq!(refusals(&files(&[file(path, text)])), []);
    }
    for (text, key) in [
        ("[Service]\nExecStart=\n", "`ExecStart`"),
        ("[Unit]\nConditionPathExists=/x\n", "`ConditionPathExists`"),
        ("[Unit]\nAssertPathExists=/x\n", "`AssertPathExists`"),
        ("[Service]\nRestart=no\n", "`Restart`"),
        ("[Service]\nType=oneshot\n", "`Type`"),
        ("[Service]\nUser=core\n", "`User`"),
        ("[Service]\nRootDirectory=/x\n", "`RootDirectory`"),
    ] {
        let words = &[key, "10-site.conf", "accepted"];
        let field = "spec.config.systemd.units[0].dropins";
        assert_refused(&drop_in("flameholder-daemon.service", text), field, words);
        assert_refused(&files(&[file(path, text)]), "spec.config.storage.files[0].path", words);
    }
    let prefix = drop_in("flameholder-.service", "[Service]\nNice=5\n");
    assert_refused(&prefix, "spec.config.systemd.units[0].dropins", &["flameholder-activate.service"]);
}

#[test]
fn settings_of_all_fragments_are_parsed() {
    let at = |name: &str, text: &str| file(&format!("/etc/flameholder/config.d/{name}"), text);
    let valid = at("10-a.toml", "[boot-check]\ntimeout = 60\n");
    let skipped = [at(".x.toml", "x"), at("x.txt", "x"), at("50-mask.toml", "")];
    assert_eq!(refusals(&files(&[std::slice::from_ref(&valid), skipped.as_slice()].concat())), []);
    let invalid = at("20-b.toml", "[boot-check]\nrollback = \"sometimes\"\n");
    let unknown = at("30-c.toml", "[drift]\nother = 1\n");
    let refused = refusals(&files(&[valid, invalid, unknown]));
    let [(first, wrong), (second, other)] = refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!(first, "spec.config.storage.files[1].contents.source");
    for word in ["/etc/flameholder/config.d/20-b.toml", "line 2, column 12", "key `rollback`", "`sometimes`"]
    {
        assert!(wrong.contains(word), "{word} in {wrong}");
    }
    assert_eq!(second, "spec.config.storage.files[2].contents.source");
    assert!(other.contains("line 2, column 1, key `other`"), "{other}");
    let appended = json!({"path": "/etc/flameholder/config.d/a.toml", "append": [{"source": "data:,x"}]});
    assert_refused(&files(&[appended]), "spec.config.storage.files[0].append", &["list it whole"]);
}

#[test]
fn health_check_that_cannot_run_is_refused() {
    let check = |text: &str, mode: u32, user: &Value| {
        let mut entry = file("/etc/flameholder/health.d/10-x", text);
        (entry["mode"], entry["user"]) = (json!(mode), user.clone());
        files(&[entry])
    };
    let root = json!({"id": 0});
    for (text, mode) in [("#!/bin/sh\n", 0o755), ("", 0o644), ("notes\n", 0o644)] {
        assert_eq!(refusals(&check(text, mode, &root)), [], "{text:?} {mode:o}");
    }
    let mode = "spec.config.storage.files[0].mode";
    assert_refused(&check("#!/bin/sh\n", 0o644, &root), mode, &["0644", "0755"]);
    assert_refused(&check("#!/bin/sh\n", 0o775, &root), mode, &["other than root", "0755"]);
    let user = "spec.config.storage.files[0].user";
    assert_refused(&check("#!/bin/sh\n", 0o755, &json!({"name": "core"})), user, &["other than root"]);
}

#[test]
fn kernel_argument_that_masks_the_agent_is_refused() {
    let refused = |argument: &str| {
        let mut config = object(&json!({}));
        config.spec.kernel_arguments = Some(vec!["quiet".to_owned(), argument.to_owned()]);
        decode::decode(&config).err().map(|refused| refused.to_string())
    };
    let said = refused("nosmt systemd.mask=flameholder-daemon.service").unwrap();
    assert!(said.starts_with("spec.kernelArguments[1]: ") && said.contains("flameholder-daemon.service"));
    for spelling in [
        "systemd.mask=flameholder-daemon",
        "\"systemd.mask=flameholder-daemon.service\"",
        "sys\"temd.mask=flameholder-daemon.service\"",
    ] {
        assert!(refused(spelling).is_some(), "{spelling}");
    }
    assert_eq!(refused("systemd.mask=zincati.service"), None);
    assert_eq!(refused("systemd.mask=zincati"), None);
}

#[test]
fn install_section_that_takes_the_agent_away_is_refused() {
    let contents = |install: &str| {
        let contents = format!("[Service]\nExecStart=/bin/true\n[Install]\n{install}\n");
        unit(&json!({"name": "flameholder.service", "enabled": true, "contents": contents}))
    };
    let field = "spec.config.systemd.units[0].contents";
    for install in [
        "Alias=flameholder-daemon.service",
        "Alias=a.service %p-daemon.service",
        "RequiredBy=flameholder-daemon.service",
        "Also=flameholder-recover.service",
    ] {
        assert_refused(&contents(install), field, &[UNIT, "remove the line"]);
    }
    assert_refused(&contents("Alias=ostree-finalize-staged.service"), field, &[FINALIZE]);
    for install in ["WantedBy=flameholder-daemon.service", "Alias=flameholder-daemon.service\nAlias="] {
        assert_eq!(refusals(&contents(install)), [], "{install}");
    }
    let drop_in = json!({"name": "10-a.conf", "contents": "[Install]\nAlias=flameholder-daemon.service\n"});
    let extended = unit(&json!({"name": "a.service", "dropins": [drop_in]}));
    assert_refused(&extended, "spec.config.systemd.units[0].dropins", &[UNIT]);
}

#[test]
fn place_of_a_fragment_takes_a_file_or_a_mask() {
    let at = |entry: &str, more: &Value| {
        let mut listed = json!({"path": "/etc/flameholder/config.d/50-a.toml"});
        listed.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"storage": {entry: [listed]}})
    };
    let must = "must be a file, or a link to /dev/null";
    assert_refused(&at("directories", &json!({})), "spec.config.storage.directories[0].path", &[must]);
    let link = at("links", &json!({"target": "/etc/elsewhere.toml"}));
    assert_refused(&link, "spec.config.storage.links[0].path", &[must]);
    assert_eq!(refusals(&at("links", &json!({"target": "/dev/null"}))), []);
    let below = files(&[file("/etc/flameholder/config.d/50-a.toml/x", "x")]);
    assert_refused(&below, "spec.config.storage.files[0].path", &[must, "50-a.toml"]);
}

#[test]
fn all_refusals_are_reported_together() {
    let mut sections = files(&[file("/etc/good", "x"), file("/etc/passwd", "x"), file("/proc/x", "x")]);
    sections["storage"]["links"] = json!([{"path": "/etc/l", "target": ""}]);
    sections["systemd"] = json!({"units": [{"name": "flameholder-daemon.service", "mask": true}]});
    let fields: Vec<String> = refusals(&sections).into_iter().map(|(field, _)| field).collect();
    assert_eq!(
        fields,
        [
            "spec.config.storage.links[0].target",
            "spec.config.storage.files[1].path",
            "spec.config.storage.files[2].path",
            "spec.config.systemd.units[0].mask",
        ]
    );
}

#[test]
fn applied_config_keeps_everything_else() {
    let daemon = json!({"name": "flameholder-daemon.service", "mask": true,
        "dropins": [{"name": "a.conf", "contents": "[Service]\nNice=5\n"},
            {"name": "b.conf", "contents": "[Service]\nUser=x\n"}]});
    let activate = json!({"name": "flameholder-activate.service", "enabled": false});
    let mut sections = files(&[file("/etc/good", "x"), file("/etc/passwd", "x")]);
    sections["systemd"] = json!({"units": [daemon, activate, {"name": "x.service", "enabled": false}]});
    let host = decode::decode_applied(&object(&sections)).unwrap();
    assert_eq!(host.files.keys().map(ManagedPath::as_str).collect::<Vec<_>>(), ["/etc/good"]);
    let kept = &host.units["flameholder-daemon.service"];
    assert_eq!((kept.mask, kept.drop_ins.keys().map(String::as_str).collect()), (None, vec!["a.conf"]));
    assert_eq!(host.units.keys().collect::<Vec<_>>(), ["flameholder-daemon.service", "x.service"]);
    assert_eq!(host.left_out.len(), 4, "{:?}", host.left_out);
}

#[test]
fn path_in_run_is_warned_of() {
    let entries = [file("/etc/x", ""), file("/run/x", ""), file("/var/run/y", "")];
    let host = decode::decode(&object(&files(&entries))).unwrap();
    let warned = warnings(&host);
    assert_eq!(warned.len(), 2, "{warned:?}");
    for (warning, path) in warned.iter().zip(["/run/x", "/var/run/y"]) {
        assert!(warning.starts_with(&format!("{path}: ")) && warning.contains("does not outlive a boot"));
    }
}

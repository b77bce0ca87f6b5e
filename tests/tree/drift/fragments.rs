//! Settings fragments below the root: precedence, invalid fragments, and the drift policy that they set.

use std::fs;
use std::os::unix::fs::symlink;

use crate::drift::host::{CONFIG, Host, RECORD};

fn listed(path: &str, policy: &str) -> String {
    format!("[[drift.path]]\npath = \"{path}\"\npolicy = \"{policy}\"\n")
}

fn default(policy: &str) -> String {
    format!("[drift]\ndefault = \"{policy}\"\n")
}

/// Policy of `/etc/b`, which has drifted.
fn policy(host: &Host) -> String {
    let found = host.found();
    let (_, _, policy) = found.iter().find(|(path, ..)| path == "/etc/b").unwrap();
    policy.clone()
}

fn damaged() -> Host {
    let host = Host::new();
    host.edit("/etc/b");
    host
}

#[test]
fn each_drift_is_listed_with_its_policy() {
    let host = damaged();
    host.mode("/etc/admin.conf", 0o600);
    host.remove("/etc/soft");
    host.settings("10.toml", &(listed("/etc/b", "ignore") + &listed("/etc/soft", "repair")));
    let of = |path: &str, kind: &str, policy: &str| [path, kind, policy].map(str::to_owned).into();
    assert_eq!(
        host.found(),
        [
            of("/etc/admin.conf", "mode", "report"),
            of("/etc/b", "content", "ignore"),
            of("/etc/soft", "missing", "repair")
        ]
    );
    let text = host.verify(&[]).stdout;
    let (counting, ignored) = text.split_once("ignored by policy: 1 drifted path\n").unwrap();
    assert!(counting.starts_with("rendered-many (generation "), "{text}");
    assert!(counting.contains("): 2 drifted paths\n"), "{text}");
    assert!(
        counting.contains(
            "  PATH             DIFFERS  WAS   IS    POLICY\n\
            \u{20} /etc/admin.conf  mode     0644  0600  report\n\
            \u{20} /etc/soft        missing  -     -     repair\n"
        ),
        "{text}"
    );
    assert!(ignored.contains("  /etc/b  content  5 bytes  8 bytes\n"), "{text}");
}

#[test]
fn ignored_drift_is_listed_but_not_counted() {
    let host = damaged();
    host.settings("10.toml", &default("ignore"));
    let outcome = host.verify(&[]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.stdout.contains("ignored by policy: 1 drifted path\n")
            && outcome.stdout.contains("\n  /etc/b  content"),
        "{outcome:?}"
    );
    assert_eq!(host.document(&[])["drift"][0]["policy"], "ignore");
}

#[test]
fn drift_of_the_record_is_never_ignored() {
    let host = Host::new();
    host.settings("10.toml", &(default("ignore") + &listed(CONFIG, "ignore") + &listed("/etc", "ignore")));
    host.mode(CONFIG, 0o644);
    host.mode(RECORD, 0o666);
    let policies: Vec<_> = host.found().into_iter().map(|(_, _, policy)| policy).collect();
    assert_eq!(policies, ["report", "report"]);
    assert_eq!(host.verify(&[]).code, Some(2));
}

#[test]
fn later_fragments_override_earlier_ones() {
    let host = damaged();
    let [vendor, run, admin] = ["/usr/lib", "/run", "/etc"].map(|top| format!("{top}/flameholder/config.d"));
    assert_eq!(policy(&host), "report");
    host.put(&format!("{vendor}/50-site.toml"), &listed("/etc/b", "repair"));
    assert_eq!(policy(&host), "repair");
    // Fragments are sorted by name across directories.
    host.put(&format!("{admin}/10-early.toml"), &listed("/etc/b", "ignore"));
    assert_eq!(policy(&host), "repair");
    host.put(&format!("{run}/60-late.toml"), &listed("/etc/b", "ignore"));
    assert_eq!(policy(&host), "ignore");
    // A file replaces an earlier one of the same name, even if it is empty.
    host.put(&format!("{admin}/60-late.toml"), "");
    assert_eq!(policy(&host), "repair");
    host.put(&format!("{run}/50-site.toml"), "# nothing\n");
    assert_eq!(policy(&host), "ignore", "of 10-early.toml");
    // A link to /dev/null masks a fragment.
    fs::remove_file(host.at(&format!("{run}/50-site.toml"))).unwrap();
    symlink("/dev/null", host.at(&format!("{run}/50-site.toml"))).unwrap();
    assert_eq!(policy(&host), "ignore", "of 10-early.toml");
    // Hidden files and other extensions are not read.
    for name in [".90.toml", "90.conf", "90.toml~", "90"] {
        host.settings(name, "not = [toml");
    }
    assert_eq!(policy(&host), "ignore");
}

#[test]
fn invalid_fragments_are_reported_with_file_and_line() {
    let host = Host::new();
    for (text, expected) in [
        ("[drift]\ndefualt = \"ignore\"\n", "10.toml:2:1: unknown field `defualt`"),
        ("[drift]\ndefault = \"never\"\n", "10.toml:2:11: unknown variant `never`"),
        ("[[drift.path]]\npath = \"b\"\npolicy = \"ignore\"\n", "10.toml:2:8: the path is not absolute"),
        ("[drift\n", "10.toml:1:7: "),
    ] {
        host.settings("10.toml", text);
        for more in [&[][..], &["--repair"]] {
            let outcome = host.verify(more);
            assert_eq!(outcome.code, Some(78), "{text}: {outcome:?}");
            let place = format!("/etc/flameholder/config.d/{expected}");
            assert!(outcome.stderr.contains(&place), "{text}: {outcome:?}");
            assert!(outcome.stdout.is_empty(), "{outcome:?}");
        }
    }
    host.put("/run/flameholder/config.d/20.toml", "[other]\n");
    let outcome = host.verify(&[]);
    for named in ["/etc/flameholder/config.d/10.toml:1:7", "/run/flameholder/config.d/20.toml:1:2"] {
        assert!(outcome.stderr.contains(named), "{named}: {outcome:?}");
    }
}

#[test]
fn fragment_links_are_followed_beneath_the_root_only() {
    let host = damaged();
    host.put("/usr/share/site.toml", &listed("/etc/b", "ignore"));
    host.settings("00.toml", "");
    let link = host.at("/etc/flameholder/config.d/10.toml");
    symlink("../../../usr/share/site.toml", &link).unwrap();
    assert_eq!(policy(&host), "ignore");

    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("x.toml"), listed("/etc/b", "ignore")).unwrap();
    let outside = outside.path().join("x.toml");
    let up = format!("{}{}", "../".repeat(20), outside.to_str().unwrap());
    for target in [outside.to_str().unwrap(), &up, "nothing", "10.toml", "../../empty.d", "/dev/zero"] {
        fs::remove_file(&link).unwrap();
        symlink(target, &link).unwrap();
        let outcome = host.verify(&[]);
        assert_eq!(outcome.code, Some(1), "{target}: {outcome:?}");
        assert!(outcome.stderr.contains("/etc/flameholder/config.d/10.toml"), "{target}: {outcome:?}");
    }
}

#[test]
fn irregular_and_large_fragments_are_refused_by_name() {
    let host = Host::new();
    host.tree.directory("/etc/flameholder/config.d/10.toml");
    let outcome = host.verify(&[]);
    assert!(
        outcome.code == Some(1) && outcome.stderr.contains("config.d/10.toml is not a file"),
        "{outcome:?}"
    );
    fs::remove_dir(host.at("/etc/flameholder/config.d/10.toml")).unwrap();

    host.settings("10.toml", &"#\n".repeat((1 << 19) + 1));
    let outcome = host.verify(&[]);
    assert!(outcome.code == Some(1) && outcome.stderr.contains("config.d/10.toml is larger"), "{outcome:?}");
}

//! Settings from fragments: precedence, and the position of faults.

use std::num::NonZeroU8;
use std::time::Duration;

use super::*;
use crate::core::config::settings::image::{BackendChoice, SignatureDemand};
use crate::core::config::settings::metrics::MetricsAddress;
use crate::core::config::settings::reboot::InhibitorChoice;
use crate::core::values::profile::Profile;

fn file(name: &str, text: &str) -> FragmentFile {
    let path = ManagedPath::constant("/etc/flameholder/config.d").join(name);
    FragmentFile { path, bytes: text.as_bytes().to_vec() }
}

fn policies(texts: &[&str]) -> DriftPolicies {
    let files: Vec<_> = texts.iter().enumerate().map(|(n, text)| file(&format!("{n}.toml"), text)).collect();
    Settings::of(&files).unwrap().drift
}

fn listed(path: &str, policy: &str) -> String {
    format!("[[drift.path]]\npath = \"{path}\"\npolicy = \"{policy}\"\n")
}

fn of(policies: &DriftPolicies, path: &str) -> DriftPolicy {
    policies.of(&ManagedPath::constant(path))
}

#[test]
fn drift_is_reported_by_default() {
    assert_eq!(of(&policies(&[]), "/etc/a"), DriftPolicy::Report);
    assert_eq!(of(&policies(&["", "[drift]\n"]), "/etc/a"), DriftPolicy::Report);
}

#[test]
fn drift_policy_of_the_longest_listed_path_applies() {
    let policies = policies(&[&(listed("/etc/app", "ignore")
        + &listed("/etc/app/keys", "repair")
        + "[drift]\ndefault = \"report\"\n")]);
    for (path, policy) in [
        ("/etc/app", DriftPolicy::Ignore),
        ("/etc/app/x/y", DriftPolicy::Ignore),
        ("/etc/app/keys", DriftPolicy::Repair),
        ("/etc/app/keys/a", DriftPolicy::Repair),
        ("/etc/application", DriftPolicy::Report),
        ("/etc", DriftPolicy::Report),
    ] {
        assert_eq!(of(&policies, path), policy, "{path}");
    }
}

#[test]
fn later_fragment_overrides_only_the_settings_it_has() {
    let first = format!("{}[drift]\ndefault = \"repair\"\n", listed("/etc/a", "ignore"));
    let policies = policies(&[&first, &listed("/etc/a", "report"), &listed("/etc/b", "ignore")]);
    assert_eq!(of(&policies, "/etc/a"), DriftPolicy::Report);
    assert_eq!(of(&policies, "/etc/b/c"), DriftPolicy::Ignore);
    assert_eq!(of(&policies, "/etc/c"), DriftPolicy::Repair);
}

#[test]
fn boot_check_settings_are_overlaid_one_by_one() {
    let first = "[boot-check]\ntimeout = 60\nrequired-units = [\"a.service\"]\nkubelet-port = 0\n";
    let files = [file("1.toml", first), file("2.toml", "[boot-check]\nsteady = 0\nrollback = \"always\"\n")];
    let boot_check = Settings::of(&files).unwrap().boot_check;
    assert_eq!((boot_check.timeout.as_secs(), boot_check.steady.as_secs(), boot_check.boots), (60, 0, 3));
    assert_eq!((boot_check.required_units.len(), boot_check.kubelet_port), (1, 0));
    assert_eq!(Settings::of(&[]).unwrap().boot_check, HealthPolicy::default());
}

#[test]
fn rules_of_disruption_lie_over_the_defaults_and_those_of_earlier_fragments() {
    use crate::core::config::policy::DisruptionAction::{
        DaemonReload, Drain, None as Nothing, Reload, Restart,
    };
    let first = "[disruption]\nssh-keys = [\"drain\"]\n[[disruption.path]]\npath = \"/etc/a\"\nactions = [\"none\"]\n\
        [[disruption.path]]\npath = \"/etc/containers\"\nactions = [\"drain\", \"restart crio.service\"]\n";
    let second = "[[disruption.path]]\npath = \"/etc/a\"\nactions = [\"reload a.service\"]\n\
        [[disruption.unit]]\nname = \"a.service\"\nactions = [\"daemon-reload\", \"restart a.service\"]\n";
    let policy = Settings::of(&[file("1.toml", first), file("2.toml", second)]).unwrap().disruption.policy();
    let of = |path: &str| policy.of_file(&ManagedPath::constant(path)).map(|(_, actions)| actions.to_vec());
    let crio = || "crio.service".to_owned();
    for (path, actions) in [
        ("/etc/a", Some(vec![Reload("a.service".to_owned())])),
        ("/etc/containers/storage.conf", Some(vec![Drain, Restart(crio())])),
        ("/etc/containers/policy.json", Some(vec![Reload(crio())])),
        ("/etc/b", None),
    ] {
        assert_eq!(of(path), actions, "{path}");
    }
    let restarted = [DaemonReload, Restart("a.service".to_owned())];
    assert_eq!(policy.of_unit("a.service"), Some(restarted.as_slice()));
    assert_eq!(policy.of_keys(), [Drain]);
    assert_eq!(Settings::default().disruption.policy().of_keys(), [Nothing]);
}

#[test]
fn settings_of_the_daemon_are_overlaid_one_by_one() {
    let first = "[source]\ndesired = \"kube\"\nnode-name = \"a\"\n[metrics]\naddress = \"[::1]:1\"\n\
        [image]\nbackend = \"rpm-ostree\"\n[reboot]\ninhibitor-timeout = 0\n[limits]\nlock-timeout = 0\n";
    let second = "[source]\ndesired = \"dir:/etc/desired\"\nprofile = \"mcd\"\n[metrics]\naddress = \"off\"\n\
        [image]\nparallel-fetches = 1\nsignature = \"required\"\n[reboot]\ninhibitors = \"obey\"\n[limits]\njob-timeout = 600\n";
    let settings = Settings::of(&[file("1.toml", first), file("2.toml", second)]).unwrap();
    let Settings { source, image, reboot, metrics, limits, .. } = settings;
    assert_eq!(source.desired.unwrap().to_string(), "dir:/etc/desired");
    assert_eq!((source.node_name.as_deref(), source.profile), (Some("a"), Some(Profile::Mcd)));
    assert_eq!(image.backend, Some(BackendChoice::RpmOstree));
    assert_eq!(image.parallel_fetches.map(NonZeroU8::get), Some(1));
    assert_eq!(image.signature, Some(SignatureDemand::Required));
    assert_eq!((reboot.inhibitors, reboot.inhibitor_timeout()), (InhibitorChoice::Obey, Duration::ZERO));
    assert_eq!(metrics.address, Some(MetricsAddress::Off));
    assert_eq!((limits.lock_timeout(), limits.job_timeout().as_secs()), (Some(Duration::ZERO), 600));
    let defaults = Settings::default();
    assert_eq!((defaults.limits.lock_timeout(), defaults.limits.job_timeout().as_secs()), (None, 7200));
    assert_eq!(defaults.reboot.inhibitor_timeout().as_secs(), 600);
}

#[test]
fn drift_of_the_record_cannot_be_ignored() {
    let all = "[drift]\ndefault = \"ignore\"\n".to_owned();
    let each = [RECORD, CURRENT_CONFIG].map(|path| listed(path, "ignore")).concat();
    for fragment in [all, each] {
        let policies = policies(&[&fragment]);
        assert_eq!(of(&policies, RECORD), DriftPolicy::Report);
        assert_eq!(of(&policies, CURRENT_CONFIG), DriftPolicy::Report);
    }
    let repaired = policies(&["[drift]\ndefault = \"repair\"\n"]);
    assert_eq!(of(&repaired, RECORD), DriftPolicy::Repair);
    let hidden = policies(&["[drift]\ndefault = \"ignore\"\n"]);
    assert_eq!(of(&hidden, &format!("{ORIGINALS}/0")), DriftPolicy::Report);
    assert_eq!(of(&hidden, "/etc/flameholder/config.d/1.toml"), DriftPolicy::Ignore);
}

#[test]
fn fault_is_reported_with_line_and_column() {
    for (text, at, mentions) in [
        ("# ö\n\"ö\" = 1\n", "2:1", "`ö`"),
        ("drift = { \"ö\" = 1, path = 1 }\n", "1:11", "`ö`"),
        ("drift = { path = \"öö\", default = 1 }\n", "1:18", "sequence"),
        ("[drift]\ndefault = \"report\"\nother = 1\n", "3:1", "`other`"),
        ("drfit = 1\n", "1:1", "`drfit`"),
        ("\n[drift]\n  default = \"sometimes\"\n", "3:13", "`sometimes`"),
        ("[[drift.path]]\npath = \"etc/a\"\npolicy = \"ignore\"\n", "2:8", "not absolute"),
        ("[[drift.path]]\npath = \"/etc/../a\"\npolicy = \"ignore\"\n", "2:8", "`..`"),
        ("[[drift.path]]\npath = \"/\"\npolicy = \"ignore\"\n", "2:8", "root"),
        ("[[drift.path]]\npath = \"/etc/a\"\n", "1:1", "`policy`"),
        ("[[drift.path]]\npath = \"/etc/a\"\npolicy = \"ignore\"\nwhy = 1\n", "4:1", "`why`"),
        ("[drift]\ndefault = report\n", "2:11", ""),
        ("[drift]\ndefault = 1\n", "2:11", ""),
        ("[drift\n", "1:7", ""),
        ("[boot-check]\ntimeout = 0\n", "2:11", "nonzero"),
        ("[boot-check]\nrollback = \"sometimes\"\n", "2:12", "`sometimes`"),
        ("[boot-check]\nrequired-units = [\"a\"]\n", "2:18", "unit name"),
        ("[drift]\ndefault = \"report\"\ndefault = \"report\"\n", "3:1", "duplicate"),
        (
            "[source]\ndesired = \"cluster\"\n",
            "2:11",
            "expected `kube`, `dir:PATH`, `https://HOST/PATH` or `oci://REGISTRY/REPOSITORY:TAG`",
        ),
        ("[source]\ndesired = \"dir:desired\"\n", "2:11", "dir:desired is not absolute"),
        ("[source]\nkubeconfig = \"kubeconfig\"\n", "2:14", "not absolute"),
        ("[source]\nprofile = \"other\"\n", "2:11", "`other`"),
        ("[source]\ntoken = 1\n", "2:1", "`token`"),
        ("[source]\ndesired = \"http://host/config/worker\"\n", "2:11", "only https://"),
        ("[source]\nserver-ca = \"ca.pem\"\n", "2:13", "not absolute"),
        ("[source]\nserver-pins = [\"sha256//a\"]\n", "2:15", "`sha256//BASE64`"),
        ("[source]\npoll-interval = 0\n", "2:17", "nonzero"),
        ("[image]\nbackend = \"bootc\"\n", "2:11", "`bootc`"),
        ("[image]\nparallel-fetches = 0\n", "2:20", "nonzero"),
        ("[image]\nsignature = \"always\"\n", "2:13", "`always`"),
        ("[reboot]\ninhibitors = true\n", "2:14", ""),
        ("[reboot]\ninhibitor-timeout = -1\n", "2:21", ""),
        ("[metrics]\naddress = \"localhost\"\n", "2:11", "`127.0.0.1:8797`"),
        ("[limits]\njob-timeout = 599\n", "2:15", "600 seconds or more"),
        ("[limits]\nfetch-timeout = 0\n", "2:17", "nonzero"),
        ("[source]\nnode-name = \"\"\n", "2:13", "empty"),
        ("[source]\nnamespace = \"\"\n", "2:13", "empty"),
        ("[limits]\nfetch_timeout = 1\n", "2:1", "`fetch_timeout`"),
    ] {
        assert_fault(text, at, mentions);
    }
}

#[test]
fn fault_of_a_rule_is_reported_with_line_and_column() {
    for (text, at, mentions) in [
        ("[disruption]\nssh-keys = []\n", "2:12", "at least one action"),
        ("[disruption]\nssh-keys = [\"none\", \"drain\"]\n", "2:12", "stand alone"),
        ("[disruption]\nssh-keys = [\"Reboot\"]\n", "2:12", "unknown action"),
        ("[disruption]\nssh-keys = [\"restart a\"]\n", "2:12", "unit name"),
        (
            "[disruption]\nssh-keys = [\"restart flameholder-daemon.service\"]\n",
            "2:12",
            "the agent works with it",
        ),
        ("[[disruption.unit]]\nname = \"a\"\nactions = [\"none\"]\n", "2:8", "unit name"),
        ("[[disruption.unit]]\nname = \"a.service\"\n", "1:1", "`actions`"),
        (
            "[[disruption.path]]\npath = \"/a\"\nactions = [\"none\"]\n[[disruption.path]]\npath = \"/a\"\nactions = [\"none\"]\n",
            "5:8",
            "duplicate rule for /a",
        ),
    ] {
        assert_fault(text, at, mentions);
    }
}

/// Panic unless a fragment with this text has a fault at this place, with `mentions` in its reason.
fn assert_fault(text: &str, at: &str, mentions: &str) {
    let error = Settings::of(&[file("a.toml", text)]).unwrap_err().to_string();
    let place = format!("/etc/flameholder/config.d/a.toml:{at}: ");
    assert!(error.contains(&place) && error.contains(mentions), "{text}: {error}");
    assert_eq!(error.lines().count(), 2, "{error}");
}

#[test]
fn duplicate_path_in_a_fragment_is_refused() {
    let twice = listed("/etc/a", "ignore") + &listed("/etc/a", "report");
    let error = Settings::of(&[file("a.toml", &twice)]).unwrap_err().to_string();
    assert!(error.contains("a.toml:5:8: duplicate path /etc/a"), "{error}");
}

#[test]
fn fragment_that_is_not_utf8_is_refused() {
    let path = ManagedPath::constant("/run/flameholder/config.d/b.toml");
    let bytes = b"[drift]\n# \xff\n".to_vec();
    let error = Settings::of(&[FragmentFile { path, bytes }]).unwrap_err().to_string();
    assert!(error.contains("/run/flameholder/config.d/b.toml:2:3: the file is not UTF-8"), "{error}");
}

#[test]
fn faults_of_all_fragments_are_reported() {
    let error = Settings::of(&[file("a.toml", "x"), file("b.toml", ""), file("c.toml", "y = 1\n")]);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("a.toml:1:2") && error.contains("c.toml:1:1") && !error.contains("b.toml"),
        "{error}"
    );
}

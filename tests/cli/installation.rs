//! Files that are installed (units, presets, Containerfile) agree with the
//! repository and with the programs that read them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flameholder::core::daemon::{message_catalog, message_ids};
use flameholder::core::history::HistoryEvent;

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(REPOSITORY).join(path)).unwrap()
}

fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(Path::new(REPOSITORY).join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn units() -> BTreeSet<String> {
    names("systemd").into_iter().filter(|name| name.starts_with("flameholder-")).collect()
}

#[test]
fn preset_enables_every_unit() {
    let preset = read("systemd/80-flameholder.preset");
    let enabled = preset.lines().filter_map(|line| line.strip_prefix("enable ")).map(str::to_owned);
    assert_eq!(enabled.collect::<BTreeSet<_>>(), units());
}

/// The installation itself is tested with `cargo xtask install`, which lays it out.
#[test]
fn containerfiles_copy_the_installation_and_name_what_the_build_needs() {
    let requirements = read("xtask/src/setup.rs");
    let (requirements, _) = requirements.split_once("TEST_REQUIREMENTS").unwrap();
    let packages: Vec<&str> = requirements.split('"').filter(|word| word.ends_with("-dev")).collect();
    assert!(packages.len() > 3, "{packages:?}");
    for path in ["Containerfile", "deploy/kubernetes/Containerfile"] {
        let text = read(path);
        assert!(text.contains("cargo xtask install --destdir /installation "), "{path}");
        assert!(text.contains("\nCOPY --from=build /installation/ /\n"), "{path}");
        for package in packages.iter().chain(&["pkg-config"]) {
            assert!(
                text.split_whitespace().any(|word| word == *package),
                "{path} does not install {package}"
            );
        }
        for image in text.lines().filter_map(|line| line.strip_prefix("FROM ")) {
            assert!(image.starts_with("${"), "{path}: {image} cannot be given by digest");
        }
    }
}

#[test]
fn each_unit_is_enabled_in_images_and_disabled_when_a_package_is_removed() {
    for path in ["Containerfile", "packaging/debian/prerm", "packaging/rpm/flameholder.spec"] {
        let text = read(path);
        let words: BTreeSet<&str> = text.split(|c: char| c.is_whitespace() || c == ';').collect();
        for unit in units() {
            let name = unit.trim_end_matches(".service");
            assert!(words.contains(name) || words.contains(unit.as_str()), "{path} does not name {unit}");
        }
    }
}

/// Rewrites the catalog if `FLAMEHOLDER_BLESS` is set: after a change of its texts.
#[test]
fn message_catalog_explains_every_message_to_journalctl() {
    let (path, text) = (Path::new(REPOSITORY).join("systemd/flameholder.catalog"), message_catalog::render());
    if std::env::var_os("FLAMEHOLDER_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap_or_default(),
        text,
        "{} is stale; write it with FLAMEHOLDER_BLESS=1",
        path.display()
    );
    let root = tempfile::tempdir().unwrap();
    let installed = root.path().join(message_catalog::CATALOG.trim_start_matches('/'));
    fs::create_dir_all(installed.parent().unwrap()).unwrap();
    fs::create_dir_all(root.path().join("var/lib/systemd/catalog")).unwrap();
    fs::write(installed, text).unwrap();
    let journalctl = |arguments: &[&str]| {
        let output =
            Command::new("journalctl").arg("--root").arg(root.path()).args(arguments).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    journalctl(&["--update-catalog"]);
    let phases = message_ids::ALL.iter().map(|(_, id)| *id);
    for id in phases.chain(HistoryEvent::ALL.iter().map(|(.., id)| *id)) {
        let explained = journalctl(&["--dump-catalog", id]);
        assert!(explained.contains("\nDefined-By: Flameholder\n"), "{id}: {explained}");
    }
}

#[test]
fn unit_commands_carry_no_path() {
    for unit in units() {
        let text = read(&format!("systemd/{unit}"));
        let commands: Vec<&str> = text.lines().filter(|line| line.starts_with("ExecSt")).collect();
        assert!(!commands.is_empty(), "{unit}");
        for command in commands {
            assert!(command.contains("=flameholder "), "{unit}: {command}");
        }
    }
}

#[test]
fn units_of_a_system_extension_differ_in_their_order_only() {
    let settings = |path: &str| -> BTreeSet<String> {
        let text = read(path);
        text.lines().filter(|line| !line.starts_with('#') && line.contains('=')).map(str::to_owned).collect()
    };
    for (name, without, with) in [
        (
            "flameholder-activate.service",
            &["Before=local-fs.target systemd-sysctl.service systemd-tmpfiles-setup.service sysinit.target"]
                [..],
            &[
                "After=systemd-sysext.service",
                "Before=systemd-sysctl.service systemd-tmpfiles-setup.service sysinit.target",
                "Wants=systemd-sysext.service",
            ][..],
        ),
        ("ostree-finalize-staged.service.d/50-flameholder.conf", &[], &["After=systemd-sysext.service"]),
    ] {
        let [usual, other] =
            ["systemd", "systemd/sysext"].map(|folder| settings(&format!("{folder}/{name}")));
        let difference = |one: &BTreeSet<String>, two: &BTreeSet<String>| -> Vec<String> {
            one.difference(two).cloned().collect()
        };
        assert_eq!(difference(&usual, &other), without, "{name}");
        assert_eq!(difference(&other, &usual), with, "{name}");
    }
}

/// Settings of services that systemd 252 does not know and ignores, with a warning.
const NEWER_SETTINGS: [&str; 2] = ["RestartSteps", "RestartMaxDelaySec"];

/// Value of a setting in the text of a unit; systemd takes the last one.
fn setting<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().rev().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// Microseconds of a time span, as systemd reads it.
fn microseconds(span: &str) -> u64 {
    let parsed = Command::new("systemd-analyze").args(["timespan", span]).output().unwrap();
    assert!(parsed.status.success(), "{span}: {parsed:?}");
    let text = String::from_utf8(parsed.stdout).unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("μs:")).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn failing_services_are_restarted_after_a_delay_by_every_systemd() {
    for unit in units() {
        let text = read(&format!("systemd/{unit}"));
        if setting(&text, "Restart").is_none() {
            continue;
        }
        let delay = setting(&text, "RestartSec").map_or(100_000, microseconds);
        let has_limit = setting(&text, "StartLimitIntervalSec").is_none_or(|span| microseconds(span) > 0);
        assert!(delay >= 1_000_000 || has_limit, "{unit} is restarted without a limit after {delay} μs");
    }
}

#[test]
fn mcd_completes_the_first_boot_where_no_unit_of_ours_claims_it() {
    for unit in ["firstboot", "pull"] {
        let text = read(&format!("systemd/machine-config-daemon-{unit}.service.d/50-flameholder.conf"));
        let settings: Vec<&str> = text.lines().filter(|line| line.contains('=')).collect();
        let expected =
            ["After=flameholder-firstboot.service", "ConditionPathExists=!/run/flameholder/owns-first-boot"];
        assert_eq!(settings, expected, "{unit}: a file of a masked unit must not count");
    }
}

#[test]
fn units_have_only_settings_that_systemd_knows() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = units()
        .into_iter()
        .map(|unit| {
            // The executable is not installed here; every other warning counts.
            let text = read(&format!("systemd/{unit}")).replace("=flameholder ", "=true ");
            let path = directory.path().join(unit);
            fs::write(&path, text).unwrap();
            path
        })
        .collect();
    let verified =
        Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&paths).output().unwrap();
    let warnings = String::from_utf8(verified.stderr).unwrap();
    let is_newer = |line: &str| NEWER_SETTINGS.iter().any(|name| line.contains(&format!("'{name}'")));
    let of_ours = |line: &&str| line.contains("flameholder-") && !is_newer(line);
    assert_eq!(warnings.lines().filter(of_ours).collect::<Vec<_>>(), Vec::<&str>::new());
}

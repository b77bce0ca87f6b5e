//! Sandbox of the units: no unit is exposed more than it was.

use std::path::Path;
use std::process::Command;

/// Exposure of each unit at most, as this version of `systemd-analyze security` scores it, from 0 to 10. Other versions score
/// differently.
const VERSION: &str = "systemd 252 ";
const EXPOSURES: [(&str, f64); 6] = [
    ("flameholder-activate", 3.9),
    ("flameholder-activate-mounts", 4.2),
    ("flameholder-confirm-boot", 4.7),
    ("flameholder-daemon", 5.5),
    ("flameholder-firstboot", 5.5),
    ("flameholder-recover", 4.2),
];

#[test]
fn units_are_not_more_exposed_than_they_were() {
    let version = Command::new("systemd-analyze").arg("--version").output().unwrap();
    if !String::from_utf8_lossy(&version.stdout).starts_with(VERSION) {
        eprintln!("SKIPPED: the exposures are those of {VERSION}");
        return;
    }
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd");
    let services = units.read_dir().unwrap().filter(|entry| {
        entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "service")
    });
    assert_eq!(services.count(), EXPOSURES.len());
    for (unit, most) in EXPOSURES {
        let path = units.join(format!("{unit}.service"));
        let analyzed = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--no-pager"])
            .arg(&path)
            .output()
            .unwrap();
        let text = String::from_utf8(analyzed.stdout).unwrap();
        let last = text.lines().last().unwrap_or_default();
        let exposure: f64 = last
            .split_once(".service: ")
            .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
            .unwrap_or_else(|| panic!("{unit}: {text} {}", String::from_utf8_lossy(&analyzed.stderr)));
        assert!(exposure <= most, "{unit}: {exposure} is more than {most}");
    }
}

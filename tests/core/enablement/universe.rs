//! Random small sets of unit files that refer to each other in every way that systemd knows.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::enablement::tree::Universe;

const UNITS: [&str; 9] = [
    "a.service",
    "b.service",
    "c.service",
    "d.socket",
    "e.mount",
    "t@.service",
    "t@x.service",
    "t@y.service",
    "s@.service",
];

const TARGETS: [&str; 7] = [
    "m.target",
    "k.target m.target",
    "n@z.target",
    "%p.target",
    "\"m.target\" 'k.target'",
    "%n.target k.target",
    "a-%i.target",
];

const ODD_TARGETS: [&str; 4] = ["n@.target", "nonsense", "%j%%.target", "m.target \"k.target"];

const ALIASES: [&str; 6] =
    ["z.service", "y.service", "z@.service", "z@x.service", "t@x.service", "m.target.wants/a.service"];

const PRESET_RULES: [&str; 10] = [
    "enable a.service",
    "disable b.*",
    "disable [cd].s*",
    "enable t@.service x y",
    "disable t@*.service",
    "disable *",
    "enable *.socket",
    "ignore c.service",
    "enable a.service b.service",
    "# disable *",
];

const LINKS: [(&str, &str); 16] = [
    ("e/m.target.wants/a.service", "/usr/lib/systemd/system/a.service"),
    ("e/m.target.wants/b.service", "/etc/systemd/system/b.service"),
    ("e/k.target.requires/a.service", "../../../../usr/lib/systemd/system/a.service"),
    ("e/m.target.wants/t@x.service", "/usr/lib/systemd/system/t@.service"),
    ("e/m.target.wants/t@q.service", "/usr/lib/systemd/system/t@.service"),
    ("e/m.target.wants/gone.service", "/usr/lib/systemd/system/gone.service"),
    ("e/b.service", "/dev/null"),
    ("e/t@x.service", "/dev/null"),
    ("e/t@x.service", "/usr/lib/systemd/system/s@.service"),
    ("e/z.service", "/usr/lib/systemd/system/a.service"),
    ("e/z.service", "/usr/lib/systemd/system/gone.service"),
    ("e/c.service", "/opt/c.service"),
    ("e/b.service", "/opt/c.service"),
    ("v/b.service", "a.service"),
    ("v/s@.service", "t@.service"),
    ("v/c.service", "/dev/null"),
];

/// Mostly valid lines: calls that are refused prove little.
fn install_line() -> impl Strategy<Value = String> {
    let targets = prop_oneof![12 => select(&TARGETS[..]), 1 => select(&ODD_TARGETS[..])];
    let key = select(vec!["WantedBy=", "WantedBy=", "RequiredBy = ", "UpheldBy="]);
    let instance = prop_oneof![8 => select(vec!["x", "y", "w", ""]), 1 => Just("a/b")];
    let odd = select(vec![
        "WantedBy=",
        "Alias=",
        "RequiredBy=",
        "[Unit]",
        "WantedBy=l.target \\",
        "# Alias=y.service",
    ]);
    prop_oneof![
        10 => (key, targets).prop_map(|(key, target)| format!("{key}{target}")),
        1 => select(&ALIASES[..]).prop_map(|value| format!("Alias={value}")),
        2 => select(&UNITS[..]).prop_map(|value| format!("Also={value}")),
        2 => instance.prop_map(|value| format!("DefaultInstance={value}")),
        1 => odd.prop_map(str::to_owned),
    ]
}

fn contents() -> impl Strategy<Value = String> {
    vec(install_line(), 0..4).prop_map(|lines| format!("[Unit]\n[Install]\n{}\n", lines.join("\n")))
}

fn file() -> impl Strategy<Value = (String, String)> {
    let unit = || select(&UNITS[..]);
    prop_oneof![
        6 => (unit(), contents()).prop_map(|(unit, contents)| (format!("v/{unit}"), contents)),
        2 => (unit(), contents()).prop_map(|(unit, contents)| (format!("e/{unit}"), contents)),
        2 => (unit(), contents()).prop_map(|(unit, contents)| (format!("v/{unit}.d/10-a.conf"), contents)),
        2 => (unit(), contents()).prop_map(|(unit, contents)| (format!("e/{unit}.d/20-b.conf"), contents)),
        1 => contents().prop_map(|contents| ("/opt/c.service".to_owned(), contents)),
        1 => unit().prop_map(|unit| (format!("e/{unit}"), String::new())),
        4 => select(&LINKS[..]).prop_map(|(path, target)| (path.to_owned(), format!("-> {target}"))),
    ]
}

fn call() -> impl Strategy<Value = String> {
    let names =
        UNITS.iter().chain(&["z.service", "t@q.service", "gone.service"]).copied().collect::<Vec<_>>();
    (select(vec!["enable", "enable", "disable", "preset"]), select(names))
        .prop_map(|(verb, name)| format!("{verb} {name}"))
}

/// Random unit files, presets and calls. Every unit has a vendor file, unless another one was drawn for that
/// path.
pub(super) fn universe() -> impl Strategy<Value = Universe> {
    let presets = vec(select(&PRESET_RULES[..]), 0..4).prop_map(|rules| rules.join("\n"));
    let vendor = UNITS.map(|unit| contents().prop_map(move |contents| (format!("v/{unit}"), contents)));
    (vec(file(), 0..6), vendor, presets, vec(call(), 2..8)).prop_map(|(mut files, vendor, presets, calls)| {
        files.extend(vendor);
        Universe { files, presets, calls }
    })
}

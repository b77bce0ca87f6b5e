//! Differences between systemd 252 and 257, unit files that cannot be computed offline, and notes beside the
//! links.

use flameholder::core::enablement::{
    EnablementError, EnablementNote, EnablementOutcome, InstallError, PresetRules, SpecifierError,
    SystemdVersion, UnitName,
};

use crate::enablement::tree::Universe;

const OLD: SystemdVersion = SystemdVersion(252);
const NEW: SystemdVersion = SystemdVersion(257);

fn universe(files: &[(&str, &str)], presets: &str, calls: &[&str]) -> Universe {
    Universe {
        files: files.iter().map(|&(path, contents)| (path.to_owned(), contents.to_owned())).collect(),
        presets: presets.to_owned(),
        calls: calls.iter().map(|&call| call.to_owned()).collect(),
    }
}

fn names(outcome: &EnablementOutcome) -> Vec<&str> {
    outcome.links.keys().map(String::as_str).collect()
}

fn unit(name: &str) -> UnitName {
    UnitName::parse(name).expect("the unit name is valid")
}

#[test]
fn upheld_by_is_ignored_by_systemd_252() {
    let universe = universe(&[("v/a.service", "[Install]\nUpheldBy=m.target\n")], "", &["enable a.service"]);
    let old = universe.operate(OLD).unwrap();
    assert!(old.links.is_empty());
    assert_eq!(old.notes, [EnablementNote::NothingToInstall { unit: unit("a.service") }]);
    assert_eq!(names(&universe.operate(NEW).unwrap()), ["m.target.upholds/a.service"]);
}

#[test]
fn presets_can_ignore_a_unit_since_systemd_254() {
    let universe = universe(
        &[
            ("v/a.service", "[Install]\nWantedBy=m.target\n"),
            ("e/n.target.wants/a.service", "-> ../a.service"),
        ],
        "ignore a.*\ndisable *",
        &["preset a.service"],
    );
    assert!(universe.operate(OLD).unwrap().links.is_empty());
    assert_eq!(names(&universe.operate(NEW).unwrap()), ["n.target.wants/a.service"]);
}

#[test]
fn broken_alias_is_replaced_since_systemd_253() {
    let universe = universe(
        &[
            ("v/a.service", "[Install]\nAlias=b.service\n"),
            ("e/b.service", "-> /usr/lib/systemd/system/gone.service"),
        ],
        "",
        &["enable a.service"],
    );
    assert_eq!(
        universe.operate(OLD),
        Err(EnablementError::OccupiedByLink {
            path: "/etc/systemd/system/b.service".to_owned(),
            target: "/usr/lib/systemd/system/gone.service".to_owned(),
        })
    );
    let new = universe.operate(NEW).unwrap();
    assert_eq!(new.links["b.service"], "/usr/lib/systemd/system/a.service");
}

#[test]
fn alias_of_a_linked_unit_points_to_the_link_since_systemd_257() {
    let universe = universe(
        &[("opt/a.service", "[Install]\nAlias=b.service\n"), ("e/a.service", "-> /opt/a.service")],
        "",
        &["enable a.service"],
    );
    assert_eq!(universe.operate(OLD).unwrap().links["b.service"], "/opt/a.service");
    assert_eq!(universe.operate(NEW).unwrap().links["b.service"], "/etc/systemd/system/a.service");
}

#[test]
fn specifiers_that_need_the_running_host_are_refused_by_name() {
    for specifier in "aAbBHlmMoqvwW".chars() {
        let value = format!("%{specifier}.target");
        let contents = format!("[Install]\nWantedBy={value}\n");
        let refused = universe(&[("v/a.service", &contents)], "", &["enable a.service"]).operate(NEW);
        let source = InstallError::Specifier(SpecifierError::HostFact { specifier, value });
        assert_eq!(refused, Err(EnablementError::Install { unit: unit("a.service"), source }));
    }
}

#[test]
fn skipped_units_are_reported_as_notes() {
    let universe = universe(
        &[
            ("v/a.service", "[Install]\nWantedBy=m.target\nAlso=b.service c.service\n"),
            ("e/b.service", "-> /dev/null"),
            ("v/d.service", "-> a.service"),
        ],
        "",
        &["enable a.service", "preset d.service", "disable gone.service"],
    );
    let missing = |name| EnablementError::Missing { unit: unit(name) };
    assert_eq!(
        universe.operate(NEW).unwrap().notes,
        [
            EnablementNote::MaskedSkipped { unit: unit("b.service") },
            EnablementNote::AlsoSkipped { unit: unit("c.service"), error: missing("c.service") },
            EnablementNote::PresetOfAlias { alias: unit("d.service"), unit: unit("a.service") },
            EnablementNote::NotLoaded { unit: unit("gone.service"), error: missing("gone.service") },
        ]
    );
}

#[test]
fn link_loop_is_refused_but_can_be_disabled() {
    let files = [("e/a.service", "-> b.service"), ("e/b.service", "-> a.service")];
    let refused = universe(&files, "", &["enable a.service"]).operate(NEW);
    assert!(matches!(refused, Err(EnablementError::LinkLoop { .. })), "{refused:?}");
    assert!(universe(&files, "", &["disable a.service"]).operate(NEW).unwrap().links.is_empty());
}

#[test]
fn invalid_preset_lines_are_returned() {
    let contents = "enable a.service\nenable\n\n# comment\n  frobnicate b.service\n\
                    enable a.service x\nignore c.service\n";
    let skipped = |version| {
        let (_, skipped) = PresetRules::parse([("10.preset", contents)], version);
        skipped.into_iter().map(|line| (line.number, line.line)).collect::<Vec<_>>()
    };
    let line = |number, line: &str| (number, line.to_owned());
    let always = [line(2, "enable"), line(5, "frobnicate b.service"), line(6, "enable a.service x")];
    assert_eq!(skipped(NEW), always);
    assert_eq!(skipped(OLD), [&always[..], &[line(7, "ignore c.service")]].concat());
}

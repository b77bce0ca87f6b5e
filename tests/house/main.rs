//! House rules that the compiler does not check: sizes, names, and the floors that imports may use.

mod rooms;
mod scan;
mod types;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 60;

/// Floors of `src/`; the higher number is the higher floor. Imports run downwards only.
const FLOORS: [(&str, u8); 15] = [
    ("main", 7),
    ("lib", 7),
    ("cli", 6),
    ("daemon", 5),
    ("firstboot", 5),
    ("transaction", 4),
    ("os", 3),
    ("source", 3),
    // Executable of the worker: the other side of `os`.
    ("bin", 3),
    ("host", 2),
    ("cluster", 2),
    ("cri", 2),
    ("https", 2),
    ("report", 2),
    ("core", 1),
];
/// Modules that each stand for one outside thing and must not import each other.
const STRANGERS: [&str; 2] = ["os", "source"];
/// Names without a subject.
const EMPTY_NAMES: [&str; 9] =
    ["common", "context", "data", "handler", "helper", "manager", "misc", "service", "util"];

struct Source {
    /// Relative to the repository's root.
    path: PathBuf,
    text: String,
    /// Text with comments and literals blanked.
    code: String,
}

impl Source {
    fn load(root: &Path, path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("a source file is UTF-8");
        Self { path: path.strip_prefix(root).unwrap_or(path).to_owned(), code: scan::code_only(&text), text }
    }

    /// Module names of the path below the source folder, without `mod.rs`.
    fn modules(&self) -> Vec<String> {
        let stem = self.path.with_extension("");
        let names = stem.components().skip_while(|c| c.as_os_str() != "src");
        names
            .skip(1)
            .map(|c| c.as_os_str().to_string_lossy().into_owned())
            .filter(|name| name != "mod")
            .collect()
    }

    fn says(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path.display())
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `folders`, which are relative to the repository's root.
fn sources(folders: &[&str]) -> Vec<Source> {
    let mut pending: Vec<_> = folders.iter().map(|folder| root().join(folder)).collect();
    let mut found = Vec::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder that exists can be listed");
            pending.extend(entries.map(|entry| entry.expect("an entry can be read").path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(Source::load(root(), &path));
        }
    }
    assert!(!found.is_empty(), "no Rust file below {folders:?}");
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn everything() -> Vec<Source> {
    sources(&[
        "src",
        "xtask/src",
        "xtask/bench/src",
        "xtask/scale/src",
        "tests/book/src",
        "tests/memory-disk/src",
        "tests/osimage/src",
        "tests/rpmostreed/src",
        "tests/testbed/src",
        "tests/vm",
    ])
}

fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

#[test]
fn files_and_functions_are_short() {
    let mut violations = Vec::new();
    for source in everything() {
        let lines = source.text.lines().count();
        if lines > FILE_LINES {
            let what = format!("{lines} lines, limit {FILE_LINES}: split the file by subject");
            violations.push(source.says(1, &what));
        }
        for function in scan::functions(&source.code) {
            if function.lines > FUNCTION_LINES {
                let what = format!(
                    "`{}` has {} lines, limit {FUNCTION_LINES}: move its steps to functions",
                    function.name, function.lines
                );
                violations.push(source.says(function.line, &what));
            }
        }
    }
    assert_none(&violations);
}

#[test]
fn every_file_begins_with_module_documentation() {
    let silent = everything().into_iter().filter(|source| {
        let first = source.text.lines().next().unwrap_or_default();
        first.trim_start_matches("//!").trim().is_empty() || !first.starts_with("//!")
    });
    let what = "begin the file with module documentation (`//!`)";
    assert_none(&silent.map(|source| source.says(1, what)).collect::<Vec<_>>());
}

#[test]
fn module_names_have_a_subject() {
    let mut violations = Vec::new();
    for source in everything() {
        let declared = scan::names_after(&source.code, "mod").map(str::to_owned);
        for name in source.modules().into_iter().chain(declared) {
            if is_empty_name(&name) {
                let what = format!("`{name}` is a name without a subject: name the module after its content");
                violations.push(source.says(1, &what));
            }
        }
    }
    assert_none(&violations);
}

/// True if the last word of `name` has no subject: in `journal_utils`, but not in `data_url`.
fn is_empty_name(name: &str) -> bool {
    let last = name.rsplit('_').next().unwrap_or(name);
    let singular = last.strip_suffix('s').unwrap_or(last);
    EMPTY_NAMES.contains(&last) || EMPTY_NAMES.contains(&singular)
}

#[test]
fn empty_names_are_recognized() {
    for name in ["utils", "helper", "journal_manager", "data"] {
        assert!(is_empty_name(name), "{name}");
    }
    for name in ["data_url", "units", "context_menu", "services_of_host", "core"] {
        assert!(!is_empty_name(name), "{name}");
    }
}

#[test]
fn no_attribute_hides_dead_code() {
    let hidden = everything().into_iter().filter(|source| scan::has_word(&source.code, "dead_code"));
    let what = "attribute hides dead code: remove the code";
    assert_none(&hidden.map(|source| source.says(1, what)).collect::<Vec<_>>());
}

/// The check of all tests leaves out tests that are services of others, by their names.
#[test]
fn ignored_tests_name_the_run_that_executes_them() {
    let mut violations = Vec::new();
    for source in sources(&["src", "tests", "xtask"]) {
        let mut lines = source.text.lines().map(str::trim_start).zip(1..);
        while let Some((attribute, line)) = lines.find(|(text, _)| text.starts_with("#[ignore")) {
            let reason = attribute.split(['"', ':']).nth(1).unwrap_or_default();
            let function = lines.find_map(|(text, _)| text.split_once("fn ")).unwrap_or_default().1;
            if !names_its_run(reason, function.split('(').next().unwrap_or_default()) {
                let what = "the reason begins with `exhaustive:`, `release:`, or `service:` if another test runs it, and the name of \
                            a service ends with `_as_a_service`";
                violations.push(source.says(line, what));
            }
        }
    }
    assert_none(&violations);
}

fn names_its_run(reason: &str, name: &str) -> bool {
    ["exhaustive", "release", "service"].contains(&reason)
        && (reason == "service") == name.ends_with("_as_a_service")
}

#[test]
fn ignored_tests_without_a_run_are_recognized() {
    assert!(names_its_run("service", "reboot_twice_as_a_service"));
    assert!(names_its_run("exhaustive", "rollback_survives_cuts"));
    assert!(!names_its_run("service", "serves"));
    assert!(!names_its_run("exhaustive", "reboot_twice_as_a_service"));
    assert!(!names_its_run("", "slow"));
}

/// A log line that ends before the cause ("opening the root /") cannot be acted upon.
#[test]
fn log_lines_name_the_causes_of_an_error() {
    let mut violations = Vec::new();
    for source in sources(&["src"]) {
        let text = fs::read_to_string(root().join(&source.path)).unwrap_or_default();
        for (at, _) in text.match_indices("log::") {
            let call = text.get(at..).and_then(|rest| rest.split(");").next()).unwrap_or_default();
            // Details for developers.
            if call.starts_with("log::debug") {
                continue;
            }
            if call.contains("!(") && call.contains("{error}") && !call.contains("chain(&error)") {
                let line = scan::line_of(&text, at);
                violations.push(source.says(line, "log the error with its causes: `error = chain(&error)`"));
            }
        }
    }
    assert_none(&violations);
}

#[test]
fn rpm_ostree_is_never_run_as_a_program() {
    let running =
        sources(&["src/os/rpm_ostree"]).into_iter().filter(|source| scan::has_word(&source.code, "Command"));
    let what = "rpm-ostree is run as a program: call rpm-ostreed over D-Bus";
    assert_none(&running.map(|source| source.says(1, what)).collect::<Vec<_>>());
}

#[test]
fn imports_run_downwards() {
    let mut violations = Vec::new();
    for source in sources(&["src"]) {
        let modules = source.modules();
        let own = modules.first().map_or("", String::as_str);
        let Some(floor) = floor_of(own) else {
            let what = format!("`{own}` has no floor: move it to a folder that has one, or add it to FLOORS");
            violations.push(source.says(1, &what));
            continue;
        };
        let library = if ["main", "bin"].contains(&own) { "flameholder" } else { "crate" };
        // `super` in a nested executable never reaches the library.
        let depth = if own == "bin" { usize::MAX } else { modules.len() };
        for reach in scan::reaches(&source.code, library, depth) {
            if let Some(fault) = fault(own, floor, &reach.name) {
                violations.push(source.says(reach.line, &fault));
            }
        }
    }
    assert_none(&violations);
}

fn floor_of(name: &str) -> Option<u8> {
    FLOORS.iter().find_map(|(floor, level)| (*floor == name).then_some(*level))
}

fn fault(own: &str, floor: u8, used: &str) -> Option<String> {
    if floor_of(used)? > floor {
        return Some(format!(
            "`{own}` uses `{used}`, a floor above it: pass the value as an argument, or move `{used}` down"
        ));
    }
    let strange = own != used && STRANGERS.contains(&own) && STRANGERS.contains(&used);
    strange.then(|| format!("`{own}` uses `{used}`: combine both on the floor above"))
}

#[test]
fn faulty_imports_are_recognized() {
    assert!(fault("core", 1, "host").is_some());
    assert!(fault("source", 3, "os").is_some());
    assert!(fault("transaction", 4, "os").is_none());
    assert!(fault("os", 3, "os").is_none());
    assert!(fault("core", 1, "Plan").is_none());
}

/// Paths in tracked files must be relative: an absolute path of one machine means nothing on another.
#[test]
fn tracked_files_contain_no_machine_specific_path() {
    let mut violations = Vec::new();
    for path in tracked_files() {
        // Files that are not text, or were just deleted, are read as empty.
        let text = fs::read_to_string(root().join(&path)).unwrap_or_default();
        if let Some(line) = text.lines().position(names_a_workplace) {
            let line = line + 1;
            violations.push(format!("{path}:{line}: give paths relative to the repository"));
        }
    }
    assert_none(&violations);
}

/// Every file that git tracks, relative to the root; outside a git work tree, every file of the source folders.
fn tracked_files() -> Vec<String> {
    let listing = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    match listing.ok().filter(|output| output.status.success()) {
        Some(listing) => {
            let tracked = String::from_utf8(listing.stdout).expect("tracked file names are UTF-8");
            tracked.split_terminator('\0').map(str::to_owned).collect()
        }
        None => everything().iter().map(|source| source.path.display().to_string()).collect(),
    }
}

fn names_a_workplace(line: &str) -> bool {
    let inside_a_path = |c: char| c.is_alphanumeric() || "._-".contains(c);
    line.match_indices(concat!("/wo", "rk/")).any(|(at, _)| !line.split_at(at).0.ends_with(inside_a_path))
}

#[test]
fn tests_that_the_threat_model_names_exist() {
    let text = fs::read_to_string(root().join("docs/threat-model.md")).unwrap();
    let quoted = text.split('`').skip(1).step_by(2);
    let is_test = |word: &&str| {
        word.matches('_').count() >= 2 && word.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    };
    let named: BTreeSet<&str> = quoted.filter(is_test).collect();
    assert!(named.len() > 40, "{named:?}");
    let sources = sources(&["src", "tests"]);
    let missing: Vec<&str> = named
        .into_iter()
        .filter(|name| !sources.iter().any(|source| source.text.contains(&format!("fn {name}("))))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

//! SELinux module: one source for refpolicy and for Fedora's policy.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Words before a parenthesis that are of m4 and of the policy language, and the module's own macros.
const LANGUAGE: [&str; 7] = [
    "define",
    "flameholder_basics",
    "flameholder_writes_security_files",
    "gen_require",
    "ifdef",
    "interface",
    "optional_policy",
];
/// Interfaces of refpolicy that are used only where Fedora's are not defined.
const REFPOLICY_ONLY: [&str; 2] = ["files_search_runtime", "kernel_read_vm_overcommit_sysctl"];

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Names that are followed by a parenthesis, outside comments.
fn called(text: &str) -> BTreeSet<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let pieces = code.flat_map(|line| line.split('(').rev().skip(1).map(str::to_owned).collect::<Vec<_>>());
    let names = pieces.map(|piece| {
        let start = piece.rfind(|c| !is_word(c)).map_or(0, |at| at + 1);
        piece[start..].to_owned()
    });
    names.filter(|name| !name.is_empty()).collect()
}

#[test]
fn interfaces_of_the_module_are_those_that_fedora_has() {
    let used: BTreeSet<_> = ["selinux/flameholder.te", "selinux/flameholder.if"]
        .iter()
        .flat_map(|path| called(&read(path)))
        .filter(|name| !LANGUAGE.contains(&name.as_str()) && !REFPOLICY_ONLY.contains(&name.as_str()))
        .collect();
    let list = read("tests/fixtures/selinux/fedora-interfaces");
    let fedora: BTreeSet<_> = list.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    assert_eq!(used, fedora, "selinux/README.md says how the list is made");
}

/// The domain that the unit asks for is one of the module, and the module lets systemd enter it.
#[test]
fn domain_of_the_daemon_unit_is_entered_by_systemd() {
    let unit = read("systemd/flameholder-daemon.service");
    let context = unit.lines().find_map(|line| line.strip_prefix("SELinuxContext=-")).unwrap();
    let domain = context.split(':').nth(2).unwrap();
    let module = read("selinux/flameholder.te");
    let transition = format!("domain_transition_pattern(init_t, flameholder_exec_t, {domain})");
    assert!(module.contains(&transition), "{transition}");
}

//! Names of types: two words, and each name once in the whole product.

use std::collections::BTreeMap;

use crate::scan::{line_of, names_after};
use crate::{assert_none, sources};

/// Glossary terms (docs/glossary.md) that name a type by one word. At most 30.
const NOUNS: [&str; 11] = [
    "Deployment",
    "Disruption",
    "Drift",
    "Lifecycle",
    "Manifest",
    "Plan",
    "Profile",
    "Refusal",
    "Root",
    "Settings",
    "Sysroot",
];

/// Types in `code` that leave their file, with the line of each.
fn public_types(code: &str) -> Vec<(String, usize)> {
    let product = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut types = Vec::new();
    let mut offset = 0;
    for line in product.split_inclusive('\n') {
        if line.trim_start().starts_with("pub") {
            for kind in ["struct", "enum", "trait", "type", "union"] {
                let name = names_after(line, kind).next().filter(|name| name.starts_with(char::is_uppercase));
                types.extend(name.map(|name| (name.to_owned(), line_of(code, offset))));
            }
        }
        offset += line.len();
    }
    types
}

fn words(name: &str) -> usize {
    let starts = name.char_indices().filter(|(at, c)| {
        let next_is_lower = name.get(at + 1..).is_some_and(|rest| rest.starts_with(char::is_lowercase));
        let after_lower = name.get(..*at).is_some_and(|before| before.ends_with(|b: char| !b.is_uppercase()));
        c.is_uppercase() && (*at == 0 || next_is_lower || after_lower)
    });
    starts.count()
}

#[test]
fn type_names_have_two_words_and_exist_once() {
    let mut violations = Vec::new();
    let mut seen = BTreeMap::<String, String>::new();
    for source in sources(&["src", "xtask/src", "xtask/bench/src", "xtask/scale/src"]) {
        for (name, line) in public_types(&source.code) {
            if words(&name) < 2 && !NOUNS.contains(&name.as_str()) {
                violations
                    .push(source.says(line, &format!("`{name}` is one word: add the noun that it is about")));
            }
            let here = format!("{}:{line}", source.path.display());
            if let Some(first) = seen.insert(name.clone(), here) {
                violations.push(
                    source.says(
                        line,
                        &format!("`{name}` exists already at {first}: give it a name of its own"),
                    ),
                );
            }
        }
    }
    assert_none(&violations);
}

#[test]
fn words_of_a_type_name_are_counted() {
    for (name, count) in
        [("Plan", 1), ("HostLock", 2), ("SELinux", 2), ("UnitFileState", 3), ("Pid1Reboot", 2)]
    {
        assert_eq!(words(name), count, "{name}");
    }
}

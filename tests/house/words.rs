//! Words that the project does not use (docs/glossary.md), in any tracked text file.

use std::fs;

use crate::{assert_none, root, tracked_files};

/// Spelt in two pieces, so that a search for one of them does not find this list.
const BANNED: [&str; 7] = [
    concat!("some", "body"),
    concat!("no", "body"),
    concat!("who", "ever"),
    concat!("what is ", "wanted"),
    concat!("gone to ", "again"),
    concat!("what came ", "of it"),
    concat!("host", "wright"),
];

/// Documents of other projects, quoted as they are.
const FOREIGN: [&str; 3] = ["tests/fixtures/", "LICENSE-", "Cargo.lock"];

#[test]
fn no_file_uses_a_banned_word() {
    let mut violations = Vec::new();
    for path in tracked_files() {
        if FOREIGN.iter().any(|foreign| path.starts_with(foreign)) {
            continue;
        }
        // A file that is not text, or was just deleted, has no words.
        let text = fs::read_to_string(root().join(&path)).unwrap_or_default();
        for (number, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            for word in BANNED {
                // The user and group of that name are the system's.
                let is_account =
                    line.contains(concat!("no", "body:")) || line.contains(concat!("`no", "body`"));
                if line.contains(word) && !is_account {
                    violations.push(format!("{path}:{}: `{word}`: name the actor or the thing", number + 1));
                }
            }
        }
    }
    assert_none(&violations);
}

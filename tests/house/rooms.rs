//! Rooms: the folders of a floor, in the order in which they may use each other.

use crate::scan::{first_names, line_of};
use crate::{assert_none, root, sources};

/// The rooms of a floor from the lowest level up. Rooms of one level do not know each other, and files beside the
/// rooms may use all of them.
const ROOMS: [(&str, &[&[&str]]); 4] = [
    (
        "core",
        &[
            &["values"],
            &["enablement"],
            &["config", "etc_merge", "image_policy"],
            &["state"],
            &["history", "plan"],
            &["pinned_images", "trust"],
            &["daemon"],
            &["fleet"],
        ],
    ),
    (
        "transaction",
        &[
            &["engine"],
            &["history"],
            &["state"],
            &["plan"],
            &["pinned_images", "trust", "update"],
            &["boot", "grant", "handover"],
        ],
    ),
    ("host", &[&["fs", "systemd"], &["facts"]]),
    ("cli", &[&["output"], &["manual"], &["change", "inspect", "systemd"]]),
];

/// The most Rust files side by side in one folder of `src/`, `mod.rs` included.
const FOLDER_FILES: usize = 16;

fn level_of(rooms: &[&[&str]], room: &str) -> Option<usize> {
    rooms.iter().position(|level| level.contains(&room))
}

/// Rooms of `floor` that `code` names by an absolute path, with the line of each.
fn rooms_used(code: &str, floor: &str) -> Vec<(String, usize)> {
    let prefix = format!("crate::{floor}::");
    let uses = code.match_indices(&prefix).flat_map(|(at, _)| {
        let path = code.get(at + prefix.len()..).unwrap_or_default();
        first_names(path).into_iter().map(move |name| (name.to_owned(), at))
    });
    uses.map(|(name, at)| (name, line_of(code, at))).collect()
}

#[test]
fn imports_between_rooms_run_one_way() {
    let mut violations = Vec::new();
    for (floor, rooms) in ROOMS {
        for source in sources(&[&format!("src/{floor}")]) {
            let modules = source.modules();
            let Some(own) = modules.get(1).and_then(|room| level_of(rooms, room)) else { continue };
            for (used, line) in rooms_used(&source.code, floor) {
                let is_same = modules.get(1) == Some(&used);
                if level_of(rooms, &used).is_some_and(|level| level >= own) && !is_same {
                    let room = modules.get(1).map_or("", String::as_str);
                    let what =
                        format!("room `{room}` uses `{used}`, which is not below it: move one of the two");
                    violations.push(source.says(line, &what));
                }
            }
        }
    }
    assert_none(&violations);
}

#[test]
fn every_folder_of_a_floor_is_a_listed_room() {
    let mut violations = Vec::new();
    for (floor, rooms) in ROOMS {
        let folder = root().join("src").join(floor);
        for entry in std::fs::read_dir(folder).expect("a floor can be listed") {
            let entry = entry.expect("an entry can be read");
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_submodule = entry.path().with_extension("rs").is_file();
            if entry.path().is_dir() && !is_submodule && level_of(rooms, &name).is_none() {
                violations.push(format!("src/{floor}/{name}: enter the room in ROOMS"));
            }
        }
        for room in rooms.iter().copied().flatten() {
            if !root().join("src").join(floor).join(room).is_dir() {
                violations.push(format!("src/{floor}/{room}: ROOMS lists a room that is not there"));
            }
        }
    }
    assert_none(&violations);
}

#[test]
fn folders_are_small() {
    let mut counts = std::collections::BTreeMap::<_, usize>::new();
    for source in sources(&["src"]) {
        *counts.entry(source.path.parent().map(std::path::Path::to_owned)).or_default() += 1;
    }
    let large = counts.into_iter().filter(|(_, files)| *files > FOLDER_FILES);
    let line = |(folder, files): (Option<std::path::PathBuf>, usize)| {
        let folder = folder.unwrap_or_default();
        format!("{}: {files} files, limit {FOLDER_FILES}: make a room", folder.display())
    };
    assert_none(&large.map(line).collect::<Vec<_>>());
}

#[test]
fn rooms_are_found_in_single_and_grouped_imports() {
    let code =
        "use crate::core::plan::Plan;\nuse crate::core::{state::record, values};\nuse crate::corelike::x;";
    let names: Vec<_> = rooms_used(code, "core");
    assert_eq!(names, [("plan".to_owned(), 1), ("state".to_owned(), 2), ("values".to_owned(), 2)]);
}

//! Configs for tests, and all pairs of them.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{fs, thread};

use super::config::Config;
pub use super::rendered::real_configs as rendered;

/// Configs that were made for the tests.
pub fn fixtures() -> Vec<PathBuf> {
    configs_in(&crate::fixture(""))
}

fn configs_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of configs");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut configs: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|kind| kind == "json")).collect();
    configs.sort();
    configs
}

/// Read the config at `path`.
pub fn load(path: &Path) -> Config {
    Config::read(&serde_json::from_slice(&fs::read(path).expect("a config")).expect("JSON"))
}

/// Run `check` on every ordered pair, several in parallel, and fail with all complaints at once.
pub fn for_every_pair(configs: &[PathBuf], check: impl Fn(&Path, &Path) -> Vec<String> + Sync) {
    let mut pairs: Vec<(&PathBuf, &PathBuf)> = Vec::new();
    for first in configs {
        pairs.extend(configs.iter().map(|second| (first, second)));
    }
    let (queue, complaints) = (Mutex::new(pairs), Mutex::new(Vec::new()));
    let work = || {
        loop {
            // A separate statement, so that the guard is dropped before the pair is checked.
            let next = queue.lock().expect("no poison").pop();
            let Some((first, second)) = next else { break };
            let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
            let pair = format!("{} then {}", name(first), name(second));
            let found = check(first, second);
            complaints
                .lock()
                .expect("no poison")
                .extend(found.iter().map(|found| format!("{pair}: {found}")));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    let mut complaints = complaints.into_inner().expect("no poison");
    complaints.sort();
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

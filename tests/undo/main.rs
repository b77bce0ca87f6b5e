//! Each effect of a change fails once: the tree is as it was before, whatever had been done by then.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reports by panicking")]
#![allow(dead_code, reason = "the model serves other tests too")]

mod failing;
#[path = "../model/snapshot.rs"]
mod snapshot;
#[path = "../model/tree.rs"]
mod tree;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use failing::Failing;
use hostwright::core::profile::Profile;
use hostwright::core::steps::Step;
use hostwright::host::Root;
use hostwright::transaction::current::Configuration;
use hostwright::transaction::live::{self, Labels, LiveError};
use hostwright::transaction::tree as transaction;
use tree::Tree;

/// Fixtures between which every kind of step is taken.
const CONFIGS: [&str; 5] = ["moves", "encodings", "units", "units-changed", "native"];

fn load(name: &str) -> Configuration {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.json"));
    Configuration::parse(&std::fs::read(path).unwrap()).unwrap()
}

fn steps(root: &Root, desired: &Configuration) -> Vec<Step> {
    let plan = transaction::plan(root, None, &desired.host, Profile::Native).unwrap();
    let steps = plan.tree.unwrap().steps;
    steps.preserve.into_iter().chain(steps.steps).collect()
}

/// What is there, without the times and numbers that putting something back cannot restore.
fn look(tree: &Path) -> BTreeMap<String, String> {
    let found = snapshot::take(tree).into_iter();
    found.map(|(path, (node, _))| (path, format!("{node:?}"))).collect()
}

/// Fails the first effect, then the second, and so on, until the change goes through.
fn fail_each(current: &str, desired: &str) -> Vec<String> {
    let tree = Tree::new();
    let root = Root::open(tree.root()).unwrap();
    transaction::apply(&root, &load(current), Profile::Native).unwrap();
    let (steps, before) = (steps(&root, &load(desired)), look(tree.root()));
    let mut complaints = Vec::new();
    for allowed in 0.. {
        let failing = Failing::after(&root, allowed);
        let outcome = live::apply(&root, &failing, &steps, &Labels::Inherited);
        if !failing.has_failed() {
            outcome.unwrap_or_else(|error| panic!("{current} then {desired}: {error}"));
            break;
        }
        let what = format!("{current} then {desired}, effect {allowed} fails");
        match outcome {
            // All is in place; only clearing away what was staged failed.
            Err(LiveError::Leftover(_)) => break,
            Err(LiveError::Undone(_)) => {}
            other => complaints.push(format!("{what}: {other:?}")),
        }
        let after = look(tree.root());
        if after != before {
            let path = after
                .iter()
                .chain(&before)
                .find(|(path, node)| before.get(*path) != Some(node) || after.get(*path) != Some(node));
            complaints.push(format!("{what}: differs at {:?}", path.map(|(path, _)| PathBuf::from(path))));
            break;
        }
    }
    complaints
}

#[test]
fn a_failed_effect_takes_the_whole_change_back() {
    let pairs = CONFIGS.iter().flat_map(|a| CONFIGS.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b);
    let complaints: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = pairs.map(|(a, b)| scope.spawn(move || fail_each(a, b))).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

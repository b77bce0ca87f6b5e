//! `operate` compared with the real systemctl on a tree with `--root`.

mod cases;
mod tree;
mod universe;
mod versions;

use std::cell::Cell;
use std::collections::BTreeSet;

use cases::CASES;
use flameholder::core::enablement::SystemdVersion;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use tree::installed_version;

const SEED: [u8; 32] = *b"links as systemctl leaves them..";
const RANDOM_UNIVERSES: u32 = 400;

/// Least number of changed links in random calls: a comparison of calls that all fail would prove little.
const ENOUGH_CHANGES: usize = 250;

#[test]
fn each_rule_leaves_the_expected_links() {
    for case in CASES {
        let links = case.universe().operate(SystemdVersion(252)).ok().map(|outcome| outcome.links);
        let links = links.as_ref().map(|links| links.keys().map(String::as_str).collect::<BTreeSet<_>>());
        assert_eq!(links, case.leaves(), "{}", case.name);
    }
}

#[test]
fn each_rule_agrees_with_systemctl() {
    let version = installed_version();
    for case in CASES {
        if let Err(difference) = case.universe().compare(version) {
            panic!("{}: {difference}", case.name);
        }
    }
}

#[test]
fn random_unit_files_agree_with_systemctl() {
    let version = installed_version();
    eprintln!("seed {:?}, {RANDOM_UNIVERSES} universes", String::from_utf8_lossy(&SEED));
    let config = Config { cases: RANDOM_UNIVERSES, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &SEED));
    let changes = Cell::new(0);
    let result = runner.run(&universe::universe(), |universe| {
        let more = universe.compare(version).map_err(TestCaseError::fail)?;
        changes.set(changes.get() + more);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
    assert!(changes.get() > ENOUGH_CHANGES, "only {} calls changed links", changes.get());
}

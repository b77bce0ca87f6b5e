//! `operate` against the real systemctl, which works on a tree with `--root`.

mod cases;
mod tree;
mod universe;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use tree::{Universe, installed_version};

const SEED: [u8; 32] = *b"links as systemctl leaves them..";
const RANDOM_UNIVERSES: u32 = 600;

#[test]
fn random_universes_end_as_systemctl_leaves_them() {
    let Some(version) = installed_version() else { return };
    eprintln!("seed {:?}, {RANDOM_UNIVERSES} universes", String::from_utf8_lossy(&SEED));
    let config = Config { cases: RANDOM_UNIVERSES, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &SEED));
    let result = runner.run(&universe::universe(), |universe| universe.compare(version).map_err(TestCaseError::fail));
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

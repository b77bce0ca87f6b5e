//! Tree that alternates between two configs, and the checks after each kill on the way.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use testbed::model::applied_tree::apply;
use testbed::model::comparison::differences;
use testbed::model::model_tree::ModelTree;
use testbed::model::pairs::load;
use testbed::model::run::{Outcome, flameholder};
use testbed::model::snapshot;
use testbed::model::tree::Tree;
use testbed::model::verdict::{self, IdentifiedNodes, Nodes, Verdict};
use testbed::strace::{self, Call};

use crate::kills::pair;

/// Two configs on disk, and the expected tree of each.
pub(super) struct Pair {
    _documents: TempDir,
    desired: [PathBuf; 2],
    /// Expected tree after the left config as the first one: paths that it does not manage are as in the
    /// image.
    first: Nodes,
    /// Expected tree by side.
    wanted: [Nodes; 2],
}

impl Pair {
    /// Write the configs, and check with the model that undisturbed applies give the expected trees.
    pub(super) fn new() -> Self {
        let documents = tempfile::tempdir().unwrap();
        let desired = [("left.json", pair::left()), ("right.json", pair::right())].map(|(name, config)| {
            let path = documents.path().join(name);
            fs::write(&path, config.to_string()).unwrap();
            path
        });
        let (tree, mut reference) = (Tree::new(), ModelTree::new());
        let mut first = None;
        let mut wanted: [Nodes; 2] = Default::default();
        for round in 0..3 {
            for side in [0, 1] {
                let outcome = apply(tree.root(), &desired[side]);
                assert_eq!(outcome.code, Some(0), "{outcome:?}");
                reference.apply(load(&desired[side]));
                let differences = differences(&snapshot::take(tree.root()), &reference.snapshot());
                assert!(differences.is_empty(), "round {round}:\n{}", differences.join("\n"));
                let now = verdict::nodes(tree.root());
                assert!(round < 2 || now == wanted[side], "alternating between the configs leaves a trace");
                first.get_or_insert_with(|| now.clone());
                wanted[side] = now;
            }
        }
        assert_ne!(wanted[0], wanted[1]);
        Self { _documents: documents, desired, first: first.unwrap(), wanted }
    }
}

/// Function that runs a command which may be killed.
pub(super) type Run<'a> = &'a dyn Fn(&[&str]) -> Outcome;

/// Tree on one of the sides, or without a config yet.
pub(super) struct Bench<'a> {
    pair: &'a Pair,
    tree: Tree,
    /// Side that the tree is on.
    side: Option<usize>,
    /// Tree before the change to the next side.
    pub before: IdentifiedNodes,
}

impl<'a> Bench<'a> {
    /// Create a tree without a config.
    pub(super) fn fresh(pair: &'a Pair) -> Self {
        let tree = Tree::new();
        let before = verdict::identified_nodes(tree.root());
        Self { pair, tree, side: None, before }
    }

    /// Create a tree on the left side that was on the right one before.
    pub(super) fn on_the_left(pair: &'a Pair) -> Self {
        let mut bench = Self::fresh(pair);
        for _ in 0..3 {
            bench.go_on();
        }
        bench
    }

    /// Next side.
    pub(super) fn next(&self) -> usize {
        self.side.map_or(0, |side| 1 - side)
    }

    /// Arguments of `flameholder` that apply the next side.
    pub(super) fn applying(&self) -> [&str; 5] {
        let [root, desired] =
            [self.tree.root(), &self.pair.desired[self.next()]].map(|path| path.to_str().unwrap());
        ["apply", "--root", root, "--desired", desired]
    }

    pub(super) fn recovering(&self) -> [&str; 3] {
        ["recover", "--root", self.tree.root().to_str().unwrap()]
    }

    /// Apply the next side undisturbed and check that the tree is the new one.
    pub(super) fn go_on(&mut self) {
        let outcome = flameholder(self.applying());
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert_eq!(self.verdict(), Verdict::New, "after an apply that succeeded");
        self.arrive();
    }

    /// Apply the next side undisturbed, and return every system call.
    pub(super) fn go_on_traced(&mut self) -> Vec<Call> {
        let calls = strace::calls(&self.applying());
        assert_eq!(self.verdict(), Verdict::New, "after a traced apply");
        self.arrive();
        calls
    }

    /// State of the tree between this side and the next one.
    pub(super) fn verdict(&self) -> Verdict {
        verdict::verdict(self.tree.root(), &self.before, self.wanted())
    }

    /// The same without the product's own files.
    pub(super) fn visible_verdict(&self) -> Verdict {
        verdict::visible_verdict(self.tree.root(), &self.before, self.wanted())
    }

    pub(super) fn root(&self) -> &Path {
        self.tree.root()
    }

    /// Check the tree after a kill, before recovery: every path is whole, and `verify` does not report half a
    /// change as a whole one.
    pub(super) fn look(&self, place: &str) {
        let torn = verdict::torn(self.tree.root(), &self.before, self.wanted());
        assert!(torn.is_empty(), "{place}:\n{}", torn.join("\n"));
        let verified = self.verify();
        let nothing_yet = self.side.is_none() && verified.stderr.contains("flameholder apply");
        if verified.code == Some(0) || verified.code == Some(1) && nothing_yet {
            let verdict = self.visible_verdict();
            let neither = matches!(verdict, Verdict::Neither { .. });
            assert!(!neither, "{place}: verify reports half a change as a whole one: {verdict:?}");
        } else {
            let is_told = verified.stderr.contains("flameholder recover");
            assert!(verified.code == Some(1) && is_told, "{place}: {verified:?}");
        }
    }

    /// Run `recover`. Returns true if the tree is the new one; panics unless it is the old or the new one.
    pub(super) fn recover(&self, place: &str) -> bool {
        let outcome = flameholder(self.recovering());
        assert_eq!(outcome.code, Some(0), "{place}: {outcome:?}");
        let is_new = match self.verdict() {
            Verdict::Old => false,
            Verdict::New => true,
            Verdict::Neither { old, new } => {
                panic!(
                    "{place}\ndiffers from the old tree:\n{}\nand from the new tree:\n{}",
                    old.join("\n"),
                    new.join("\n")
                )
            }
        };
        let verified = self.verify();
        let nothing_yet = self.side.is_none() && !is_new;
        assert_eq!(verified.code, Some(i32::from(nothing_yet)), "{place}: {verified:?}");
        is_new
    }

    /// Change sides with `run`, killed at `place`; recover and complete the change. Returns true if the kill
    /// left a committed change; `None` if the run was not killed.
    pub(super) fn attempt(&mut self, place: &str, run: Run<'_>) -> Option<bool> {
        let outcome = run(&self.applying());
        if outcome.code == Some(0) {
            assert_eq!(self.verdict(), Verdict::New, "{place}: the run was not killed");
            self.arrive();
            return None;
        }
        assert_eq!(outcome.code, None, "{place}: {outcome:?}");
        self.look(place);
        let is_new = self.recover(place);
        self.go_on();
        Some(is_new)
    }

    /// Change sides with a run that is known to be killed at the place.
    pub(super) fn survive(&mut self, place: &str) -> bool {
        let killed = self.attempt(place, &|arguments| strace::run_single_threaded(place, arguments));
        killed.unwrap_or_else(|| panic!("{place}: the run was not killed"))
    }

    fn verify(&self) -> Outcome {
        flameholder(["verify", "--root", self.tree.root().to_str().unwrap()])
    }

    fn wanted(&self) -> &Nodes {
        if self.side.is_none() { &self.pair.first } else { &self.pair.wanted[self.next()] }
    }

    /// Note that the tree is on the next side.
    pub(super) fn arrive(&mut self) {
        self.side = Some(self.next());
        self.before = verdict::identified_nodes(self.tree.root());
    }
}

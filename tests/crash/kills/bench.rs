//! A tree that goes from one config to the other and back, and what is checked after each kill on the way.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::kills::pair;
use testbed::model::judge::{self, Past, Sight, Verdict};
use testbed::model::likeness::unlike;
use testbed::model::pairs::load;
use testbed::model::reference::Reference;
use testbed::model::run::{Outcome, flameholder};
use testbed::model::settled::apply;
use testbed::model::snapshot;
use testbed::model::tree::Tree;
use testbed::strace::{self, Call};

/// The two configs on disk, and the tree that each makes.
pub struct Pair {
    _documents: TempDir,
    desired: [PathBuf; 2],
    /// The left as the first config of all: what it does not touch is still as the image has it.
    first: Sight,
    /// By side.
    wanted: [Sight; 2],
}

impl Pair {
    /// Writes the configs, and has the model confirm what the product makes of them undisturbed.
    pub fn new() -> Self {
        let documents = tempfile::tempdir().unwrap();
        let desired = [("left.json", pair::left()), ("right.json", pair::right())].map(|(name, config)| {
            let path = documents.path().join(name);
            fs::write(&path, config.to_string()).unwrap();
            path
        });
        let (tree, mut reference) = (Tree::new(), Reference::new());
        let mut first = None;
        let mut wanted: [Sight; 2] = Default::default();
        for round in 0..3 {
            for side in [0, 1] {
                let outcome = apply(tree.root(), &desired[side]);
                assert_eq!(outcome.code, Some(0), "{outcome:?}");
                reference.bring_to(load(&desired[side]));
                let unlike = unlike(&snapshot::take(tree.root()), &reference.sight());
                assert!(unlike.is_empty(), "round {round}:\n{}", unlike.join("\n"));
                let now = judge::sight(tree.root());
                assert!(round < 2 || now == wanted[side], "going back and forth leaves something behind");
                first.get_or_insert_with(|| now.clone());
                wanted[side] = now;
            }
        }
        assert_ne!(wanted[0], wanted[1]);
        Self { _documents: documents, desired, first: first.unwrap(), wanted }
    }
}

/// How a command that may be killed is run.
pub type Run<'a> = &'a dyn Fn(&[&str]) -> Outcome;

/// A tree on one of the sides, or on neither yet.
pub struct Bench<'a> {
    pair: &'a Pair,
    tree: Tree,
    /// The side that the tree is on.
    side: Option<usize>,
    /// What it was when it came there.
    pub before: Past,
}

impl<'a> Bench<'a> {
    /// A tree to which nothing was applied.
    pub fn fresh(pair: &'a Pair) -> Self {
        let tree = Tree::new();
        let before = judge::past(tree.root());
        Self { pair, tree, side: None, before }
    }

    /// A tree on the left, that has been on the right.
    pub fn on_the_left(pair: &'a Pair) -> Self {
        let mut bench = Self::fresh(pair);
        for _ in 0..3 {
            bench.go_on();
        }
        bench
    }

    /// The side to which it goes next.
    pub fn next(&self) -> usize {
        self.side.map_or(0, |side| 1 - side)
    }

    /// What `flameholder` is told, to go there.
    pub fn applying(&self) -> [&str; 5] {
        let [root, desired] =
            [self.tree.root(), &self.pair.desired[self.next()]].map(|path| path.to_str().unwrap());
        ["apply", "--root", root, "--desired", desired]
    }

    pub fn recovering(&self) -> [&str; 3] {
        ["recover", "--root", self.tree.root().to_str().unwrap()]
    }

    /// Applies the other side undisturbed, and expects it to be whole.
    pub fn go_on(&mut self) {
        let outcome = flameholder(self.applying());
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert_eq!(self.verdict(), Verdict::New, "an apply that says that it is done");
        self.arrive();
    }

    /// The same with every system call listed.
    pub fn go_on_traced(&mut self) -> Vec<Call> {
        let calls = strace::calls(&self.applying());
        assert_eq!(self.verdict(), Verdict::New, "a traced apply");
        self.arrive();
        calls
    }

    /// What the tree is, on the way to the next side.
    pub fn verdict(&self) -> Verdict {
        judge::judge(self.tree.root(), &self.before, self.wanted())
    }

    /// The same for those who do not look at what the product keeps for itself.
    pub fn visible_verdict(&self) -> Verdict {
        judge::judge_visible(self.tree.root(), &self.before, self.wanted())
    }

    pub fn root(&self) -> &Path {
        self.tree.root()
    }

    /// Looks at the tree after a kill, before anything settles it: every path is whole, and `verify` does not
    /// take half a change for a whole one.
    pub fn look(&self, place: &str) {
        let torn = judge::torn(self.tree.root(), &self.before, self.wanted());
        assert!(torn.is_empty(), "{place}:\n{}", torn.join("\n"));
        let verified = self.verify();
        let nothing_yet = self.side.is_none() && verified.stderr.contains("flameholder apply");
        if verified.code == Some(0) || verified.code == Some(1) && nothing_yet {
            let verdict = self.visible_verdict();
            let neither = matches!(verdict, Verdict::Neither { .. });
            assert!(!neither, "{place}: verify takes half a change for a whole one: {verdict:?}");
        } else {
            let is_told = verified.stderr.contains("flameholder recover");
            assert!(verified.code == Some(1) && is_told, "{place}: {verified:?}");
        }
    }

    /// Settles the tree with `recover` and says whether it is new; old is the only other thing that it may be.
    pub fn settle(&self, place: &str) -> bool {
        let outcome = flameholder(self.recovering());
        assert_eq!(outcome.code, Some(0), "{place}: {outcome:?}");
        let is_new = match self.verdict() {
            Verdict::Old => false,
            Verdict::New => true,
            Verdict::Neither { old, new } => {
                panic!("{place}\nis not old:\n{}\nand not new:\n{}", old.join("\n"), new.join("\n"))
            }
        };
        let verified = self.verify();
        let nothing_yet = self.side.is_none() && !is_new;
        assert_eq!(verified.code, Some(i32::from(nothing_yet)), "{place}: {verified:?}");
        is_new
    }

    /// Has the change made by `run`, killed at `place`; settles it and goes on. Says whether the change held;
    /// `None` where the run came through.
    pub fn attempt(&mut self, place: &str, run: Run<'_>) -> Option<bool> {
        let outcome = run(&self.applying());
        if outcome.code == Some(0) {
            assert_eq!(self.verdict(), Verdict::New, "{place} is not reached");
            self.arrive();
            return None;
        }
        assert_eq!(outcome.code, None, "{place}: {outcome:?}");
        self.look(place);
        let is_new = self.settle(place);
        self.go_on();
        Some(is_new)
    }

    /// The same where the run is known to reach the place.
    pub fn survive(&mut self, place: &str) -> bool {
        let killed = self.attempt(place, &|arguments| strace::alone(place, arguments));
        killed.unwrap_or_else(|| panic!("{place} is not reached"))
    }

    fn verify(&self) -> Outcome {
        flameholder(["verify", "--root", self.tree.root().to_str().unwrap()])
    }

    fn wanted(&self) -> &Sight {
        if self.side.is_none() { &self.pair.first } else { &self.pair.wanted[self.next()] }
    }

    /// Takes note that the tree is on the next side.
    pub fn arrive(&mut self) {
        self.side = Some(self.next());
        self.before = judge::past(self.tree.root());
    }
}

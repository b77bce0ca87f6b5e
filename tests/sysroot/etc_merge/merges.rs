//! The properties: libostree's merge equals the predicted one, and libostree refuses exactly the predicted refusals.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use flameholder::core::etc_merge::{
    EtcBody, EtcMerge, EtcNode, FileContent, MergeFindings, MergeRefusal, RefusalReason, SpecialFiles,
};
use flameholder::core::values::names::ManagedPath;
use flameholder::host::Root;
use flameholder::host::fs::etc_tree::{EtcTree, digest_where_needed};
use flameholder::os::{OsError, Sysroot as _};
use testbed::is_exhaustive;
use testbed::worker::Host;

use crate::etc_merge::bench::Bench;
use crate::etc_merge::disk;
use crate::etc_merge::draw::{Case, Draw};
use crate::etc_merge::tree::{Drawn, top};

/// Cases that are merged in one deployment.
const MERGED: usize = 2000;
/// Cases for each reason to refuse, each merged alone.
const REFUSED: usize = 6;

/// Number of kinds of findings.
const KINDS: usize = 17;

/// The seed of the cases, printed for a repetition of a failing test.
fn seed() -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let seed = std::env::var("FLAMEHOLDER_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    println!("FLAMEHOLDER_SEED={seed}");
    seed
}

/// Treatment of special files by the libostree that the worker links.
fn special_files() -> SpecialFiles {
    static KNOWN: OnceLock<SpecialFiles> = OnceLock::new();
    *KNOWN.get_or_init(|| Host::new().read().special_files())
}

fn predicted(case: &Case) -> EtcMerge {
    let tree = |plant: &Option<_>| {
        let entries: Drawn = plant.iter().map(|plant| (case.name.clone(), Clone::clone(plant))).collect();
        top(&entries)
    };
    EtcMerge::of(&tree(&case.base), &tree(&case.local), &tree(&case.new), special_files())
}

/// One line for each case that libostree merged differently than predicted.
fn complaints<'a>(root: &Path, cases: impl IntoIterator<Item = &'a Case>) -> Vec<String> {
    let mut complaints = Vec::new();
    for case in cases {
        let found = disk::found(&root.join("etc").join(&case.name));
        let merge = predicted(case);
        let expected = merge.result.at(Path::new(&case.name));
        if found.as_ref() != expected {
            complaints.push(format!("{case:#?}\nbecame {found:#?}\nnot {expected:#?}"));
        }
    }
    complaints
}

/// Deploys these cases together and, where that fails, finds the failing case.
fn merged_together(bench: &Bench, cases: &[Case]) -> Vec<String> {
    for case in cases {
        bench.change(case);
    }
    let deployed = bench.deploy();
    match (&deployed, cases) {
        (Ok(root), _) => complaints(root, cases),
        (Err(error), [case]) => vec![format!("{case:#?}\nis refused: {}", in_full(error))],
        (Err(_), _) => {
            restore(bench, cases);
            let (one, other) = cases.split_at(cases.len() / 2);
            let mut found = merged_together(bench, one);
            if found.is_empty() {
                restore(bench, one);
                found = merged_together(bench, other);
            }
            found
        }
    }
}

fn restore(bench: &Bench, cases: &[Case]) {
    for case in cases {
        bench.restore(case);
    }
}

fn in_full(error: &OsError) -> String {
    format!("{error}: {}", error.source().map(ToString::to_string).unwrap_or_default())
}

/// `true` where libostree's message fits a predicted refusal.
fn fits(said: &str, refusal: &MergeRefusal) -> bool {
    let words: &[&str] = match refusal.reason {
        RefusalReason::NewlyDirectory => {
            let path = refusal.path.display();
            return said.contains(&format!("newly defaults to directory '{path}'"));
        }
        RefusalReason::NotADirectory => &["Not a directory"],
        RefusalReason::DanglingLink => &["No such file or directory", "Too many levels of symbolic links"],
        RefusalReason::SpecialFile => &["Cannot copy non-regular/non-symlink file"],
        RefusalReason::LeavingLink => &[],
    };
    words.iter().any(|words| said.contains(words))
}

/// Checks that the cases are not trivial: unchanged trees would agree with any prediction.
fn assert_everything_occurs(cases: &[Case]) {
    let mut occurring: BTreeMap<String, usize> = BTreeMap::new();
    for case in cases {
        let MergeFindings { kept, from_image, conflicts, losses, not_taken, .. } = predicted(case).findings;
        let kinds = kept.iter().map(|item| format!("{:?} kept", item.change));
        let kinds = kinds.chain(from_image.iter().map(|item| format!("{:?} from the image", item.change)));
        let kinds =
            kinds.chain(conflicts.iter().map(|both| format!("{:?} against {:?}", both.local, both.image)));
        let kinds = kinds.chain(losses.iter().map(|loss| format!("{:?} lost", loss.lost)));
        let kinds = kinds.chain(not_taken.iter().map(|item| format!("{:?} held back", item.change)));
        for kind in kinds.collect::<BTreeSet<_>>() {
            *occurring.entry(kind).or_default() += 1;
        }
    }
    println!("{occurring:#?}");
    // Additions on both sides, changes or removals on one or both, four kinds of losses, suppressed changes.
    assert_eq!(occurring.len(), KINDS, "{occurring:#?}");
    assert!(occurring.values().all(|count| *count >= cases.len() / 200), "{occurring:#?}");
}

#[test]
fn libostree_merges_as_predicted() {
    let mut draw = Draw::from_seed(seed());
    let count = if is_exhaustive() { 10 * MERGED } else { MERGED };
    let drawn = std::iter::repeat_with(|| draw.case());
    let cases: Vec<Case> = drawn.filter(|case| predicted(case).outcome().is_ok()).take(count).collect();
    assert_everything_occurs(&cases);
    let bench = Bench::with(&cases);
    let complaints = merged_together(&bench, &cases);
    println!("{} cases of which {} were merged otherwise", cases.len(), complaints.len());
    assert!(complaints.is_empty(), "{}", complaints[0]);
}

#[test]
fn libostree_refuses_as_predicted() {
    let mut draw = Draw::from_seed(seed());
    let each = if is_exhaustive() { 10 * REFUSED } else { REFUSED };
    let mut cases: BTreeMap<RefusalReason, Vec<Case>> = BTreeMap::new();
    for case in std::iter::repeat_with(|| draw.case()).take(400 * each) {
        let merge = predicted(&case);
        let Err(refusal) = merge.outcome() else { continue };
        let alike = cases.entry(refusal.reason).or_default();
        if alike.len() < each {
            alike.push(case);
        }
    }
    let mut reasons =
        vec![RefusalReason::NewlyDirectory, RefusalReason::NotADirectory, RefusalReason::DanglingLink];
    reasons.extend((special_files() == SpecialFiles::Refused).then_some(RefusalReason::SpecialFile));
    for reason in reasons {
        assert_eq!(cases.get(&reason).map_or(0, Vec::len), each, "cases of {reason:?}");
    }
    let cases: Vec<Case> = cases.into_values().flatten().collect();
    let bench = Bench::with(&cases);
    for case in &cases {
        bench.change(case);
        let merge = predicted(case);
        let refusals = &merge.findings.refusals;
        match bench.deploy() {
            Ok(_) => panic!("{case:#?}\nwas merged, and should be refused for {refusals:#?}"),
            Err(error) => {
                let said = in_full(&error);
                let fits = refusals.iter().any(|refusal| fits(&said, refusal));
                assert!(fits, "{case:#?}\nwas refused with {said}, not for {refusals:#?}");
            }
        }
        bench.restore(case);
    }
    println!("{} cases were refused", cases.len());
}

#[test]
fn tree_read_from_disk_equals_the_planted_one() {
    let mut draw = Draw::from_seed(seed());
    let drawn = std::iter::repeat_with(|| draw.case());
    let cases: Vec<Case> = drawn.filter(|case| predicted(case).outcome().is_ok()).take(200).collect();
    let bench = Bench::with(&cases);
    for case in &cases {
        bench.change(case);
    }
    let new = bench.deploy().unwrap();

    let read = |root: &Path, place| {
        EtcTree::read(&Root::open(root).unwrap(), &ManagedPath::constant(place)).unwrap()
    };
    let mut trees = [
        read(&bench.root(), "/usr/etc"),
        read(&bench.root(), "/etc"),
        read(&new, "/usr/etc"),
        read(&new, "/etc"),
    ];
    digest_where_needed(&mut trees.each_mut()).unwrap();
    let [base, local, image, found] = trees.each_ref().map(EtcTree::node);
    let merge = EtcMerge::of(base, local, image, special_files());
    let result = merge.outcome().unwrap();
    assert_eq!(difference(result, found, "/etc"), None, "all of /etc, the cases and what else the image has");
    for case in &cases {
        let alone = predicted(case);
        let within = |node: &EtcNode| node.at(Path::new(&case.name)).map(sizes);
        assert_eq!(within(&merge.result), within(&alone.result), "{case:#?}");
        let losses = alone.findings.losses.iter();
        assert!(losses.clone().all(|loss| merge.findings.losses.contains(loss)), "{case:#?}");
    }
}

/// The first path at which the predicted tree differs from the found one, and both nodes.
fn difference(predicted: &EtcNode, found: &EtcNode, place: &str) -> Option<String> {
    let (EtcBody::Directory(left), EtcBody::Directory(right)) = (&predicted.body, &found.body) else {
        return (!is_same(predicted, found)).then(|| format!("{place}: {predicted:?}, not {found:?}"));
    };
    let names: BTreeSet<_> = left.keys().chain(right.keys()).collect();
    for name in names {
        let below = format!("{place}/{}", name.display());
        let found = match (left.get(name), right.get(name)) {
            (Some(left), Some(right)) => difference(left, right, &below),
            (left, right) => Some(format!("{below}: {left:?}, not {right:?}")),
        };
        if found.is_some() {
            return found;
        }
    }
    let is_same = (predicted.attributes, &predicted.xattrs) == (found.attributes, &found.xattrs);
    (!is_same).then(|| format!("{place} itself"))
}

/// `true` where two files are equal as far as known: a file that the merge wrote through a link lies at another path
/// than its source, and digests are taken by path.
fn is_same(left: &EtcNode, right: &EtcNode) -> bool {
    let digest = |node: &EtcNode| if let EtcBody::File(content) = &node.body { content.digest } else { None };
    let are_known = digest(left).is_some() && digest(right).is_some();
    if are_known { left == right } else { sizes(left) == sizes(right) }
}

/// The tree without the digests of its files, which are read only where needed.
fn sizes(node: &EtcNode) -> EtcNode {
    let body = match &node.body {
        EtcBody::File(content) => EtcBody::File(FileContent { digest: None, ..*content }),
        EtcBody::Directory(entries) => {
            EtcBody::Directory(entries.iter().map(|(name, node)| (name.clone(), sizes(node))).collect())
        }
        body => body.clone(),
    };
    EtcNode { body, ..node.clone() }
}

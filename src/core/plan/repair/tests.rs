//! Which steps serve which deviations.

use crate::core::plan::repair::*;
use crate::core::plan::steps::{Obstruction, Steps};
use crate::core::values::tree::Attributes;

const ATTRIBUTES: Attributes = Attributes { mode: 0o644, uid: 0, gid: 0 };

fn at(path: &str) -> ManagedPath {
    ManagedPath::constant(path)
}

fn write(path: &str) -> Step {
    Step::Write { path: at(path), contents: Vec::new(), attributes: ATTRIBUTES }
}

fn make(path: &str) -> Step {
    Step::MakeDirectory { path: at(path), attributes: ATTRIBUTES }
}

fn remove(path: &str) -> Step {
    Step::Remove { path: at(path) }
}

fn name(path: &str, target: &str) -> Step {
    Step::HardLink { path: at(path), target: at(target) }
}

fn plan(drift: &[(&str, Deviation)], steps: Vec<Step>) -> TreePlan {
    let drift = drift.iter().map(|(path, kind)| Drift { path: at(path), kind: *kind }).collect();
    let made = steps.iter().filter(|step| matches!(step, Step::MakeDirectory { .. }));
    let created_directories = made.map(|step| step.path().clone()).collect();
    TreePlan { drift, steps: Steps { steps, created_directories, ..Steps::default() }, ..TreePlan::default() }
}

fn chosen(tree: &TreePlan, paths: &[&str]) -> (Vec<Step>, Vec<String>) {
    let repair = choose(tree, &paths.iter().map(|path| at(path)).collect());
    (repair.steps, repair.hindered.into_iter().map(|(path, reason)| format!("{path}: {reason}")).collect())
}

#[test]
fn only_what_was_chosen_is_repaired() {
    let drift = [("/etc/a", Deviation::Content), ("/etc/b", Deviation::Mode)];
    let tree = plan(&drift, vec![write("/etc/a"), write("/etc/b")]);
    assert_eq!(chosen(&tree, &["/etc/b"]), (vec![write("/etc/b")], vec![]));
    assert_eq!(chosen(&tree, &[]), (vec![], vec![]));
}

#[test]
fn missing_directories_above_are_made_and_no_others() {
    let drift = [("/etc/x/y/a", Deviation::Missing), ("/etc/z/b", Deviation::Missing)];
    let steps =
        vec![make("/etc/x"), make("/etc/x/y"), make("/etc/z"), write("/etc/x/y/a"), write("/etc/z/b")];
    let tree = plan(&drift, steps);
    let repair = choose(&tree, &[at("/etc/x/y/a")].into());
    assert_eq!(repair.steps, [make("/etc/x"), make("/etc/x/y"), write("/etc/x/y/a")]);
    assert_eq!(repair.created_directories, [at("/etc/x"), at("/etc/x/y")].into());
}

#[test]
fn what_is_in_the_way_keeps_everything_below_it() {
    let drift = [("/etc/d/a", Deviation::Missing), ("/etc/e", Deviation::Type)];
    let mut tree = plan(&drift, vec![write("/etc/d/a"), write("/etc/e")]);
    tree.steps.obstructions.push(Obstruction { path: at("/etc/d"), reason: "a file stands there".into() });
    let expected = vec!["/etc/d/a: a file stands there".to_owned()];
    assert_eq!(chosen(&tree, &["/etc/d/a", "/etc/e"]), (vec![write("/etc/e")], expected));
}

#[test]
fn a_directory_that_is_replaced_has_to_be_chosen_itself() {
    let drift = [("/etc/d", Deviation::Type), ("/etc/d/a", Deviation::Missing)];
    let steps = vec![remove("/etc/d"), make("/etc/d"), write("/etc/d/a")];
    let tree = plan(&drift, steps.clone());
    let (none, hindered) = chosen(&tree, &["/etc/d/a"]);
    assert!(none.is_empty() && hindered[0].starts_with("/etc/d/a: /etc/d has to become"), "{hindered:?}");
    assert_eq!(chosen(&tree, &["/etc/d", "/etc/d/a"]), (steps, vec![]));
}

#[test]
fn empty_directories_make_room_for_what_is_chosen() {
    let gone = |path: &str| Step::RemoveDirectory { path: at(path) };
    let drift = [("/etc/a", Deviation::Type), ("/etc/b", Deviation::Type)];
    let steps = vec![gone("/etc/a/x"), gone("/etc/a"), gone("/etc/b"), write("/etc/a"), write("/etc/b")];
    let tree = plan(&drift, steps);
    let expected = vec![gone("/etc/a/x"), gone("/etc/a"), write("/etc/a")];
    assert_eq!(chosen(&tree, &["/etc/a"]), (expected, vec![]));
}

#[test]
fn other_names_follow_a_file_and_wait_for_it() {
    let tree = plan(&[("/etc/f", Deviation::Content)], vec![write("/etc/f"), name("/etc/l", "/etc/f")]);
    assert_eq!(chosen(&tree, &["/etc/f"]).0, tree.steps.steps);

    let labels = [("/etc/f", Deviation::Label), ("/etc/l", Deviation::Label)];
    let tree = plan(&labels, vec![write("/etc/f"), name("/etc/l", "/etc/f")]);
    assert_eq!(chosen(&tree, &["/etc/f"]).0, tree.steps.steps, "one file has one label");

    let both = [("/etc/f", Deviation::Missing), ("/etc/l", Deviation::Missing)];
    let tree = plan(&both, vec![write("/etc/f"), name("/etc/l", "/etc/f")]);
    assert_eq!(chosen(&tree, &["/etc/f"]).0, [write("/etc/f")], "a name that is ignored stays away");
    let (none, hindered) = chosen(&tree, &["/etc/l"]);
    assert!(none.is_empty() && hindered == ["/etc/l: it is another name of /etc/f, which is not repaired"]);
    assert_eq!(chosen(&tree, &["/etc/f", "/etc/l"]).0, tree.steps.steps);
}

#[test]
fn what_nothing_is_planned_for_stays() {
    let tree = plan(&[("/etc/d", Deviation::Xattrs), ("/etc/shadow", Deviation::Password)], vec![]);
    let (none, hindered) = chosen(&tree, &["/etc/d", "/etc/shadow"]);
    assert!(none.is_empty() && hindered.len() == 2, "{hindered:?}");
}

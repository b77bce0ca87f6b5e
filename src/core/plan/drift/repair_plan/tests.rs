//! Tests of the selection of steps that repair drift.

use super::*;
use crate::core::plan::steps::{PathObstruction, PlannedSteps};
use crate::core::values::tree::FileAttributes;

const ATTRIBUTES: FileAttributes = FileAttributes { mode: 0o644, uid: 0, gid: 0 };

fn at(path: &str) -> ManagedPath {
    ManagedPath::constant(path)
}

fn write(path: &str) -> PlanStep {
    PlanStep::Write { path: at(path), contents: Vec::new(), attributes: ATTRIBUTES }
}

fn make(path: &str) -> PlanStep {
    PlanStep::MakeDirectory { path: at(path), attributes: ATTRIBUTES }
}

fn remove(path: &str) -> PlanStep {
    PlanStep::Remove { path: at(path) }
}

fn name(path: &str, target: &str) -> PlanStep {
    PlanStep::HardLink { path: at(path), target: at(target) }
}

fn plan(drift: &[(&str, DriftKind)], steps: Vec<PlanStep>) -> TreePlan {
    let drift = drift.iter().map(|(path, kind)| Drift::new(at(path), *kind)).collect();
    let made = steps.iter().filter(|step| matches!(step, PlanStep::MakeDirectory { .. }));
    let created_directories = made.map(|step| step.path().clone()).collect();
    TreePlan {
        drift,
        steps: PlannedSteps { steps, created_directories, ..PlannedSteps::default() },
        ..TreePlan::default()
    }
}

fn chosen(tree: &TreePlan, paths: &[&str]) -> (Vec<PlanStep>, Vec<String>) {
    let repair = plan_repair(tree, &paths.iter().map(|path| at(path)).collect());
    (repair.steps, repair.obstacles.into_iter().map(|(path, reason)| format!("{path}: {reason}")).collect())
}

#[test]
fn only_chosen_paths_are_repaired() {
    let drift = [("/etc/a", DriftKind::Content), ("/etc/b", DriftKind::Mode)];
    let tree = plan(&drift, vec![write("/etc/a"), write("/etc/b")]);
    assert_eq!(chosen(&tree, &["/etc/b"]), (vec![write("/etc/b")], vec![]));
    assert_eq!(chosen(&tree, &[]), (vec![], vec![]));
}

#[test]
fn only_missing_parent_directories_are_created() {
    let drift = [("/etc/x/y/a", DriftKind::Missing), ("/etc/z/b", DriftKind::Missing)];
    let steps =
        vec![make("/etc/x"), make("/etc/x/y"), make("/etc/z"), write("/etc/x/y/a"), write("/etc/z/b")];
    let tree = plan(&drift, steps);
    let repair = plan_repair(&tree, &[at("/etc/x/y/a")].into());
    assert_eq!(repair.steps, [make("/etc/x"), make("/etc/x/y"), write("/etc/x/y/a")]);
    assert_eq!(repair.created_directories, [at("/etc/x"), at("/etc/x/y")].into());
}

#[test]
fn obstruction_blocks_every_path_below_it() {
    let drift = [("/etc/d/a", DriftKind::Missing), ("/etc/e", DriftKind::Type)];
    let mut tree = plan(&drift, vec![write("/etc/d/a"), write("/etc/e")]);
    tree.steps
        .obstructions
        .push(PathObstruction { path: at("/etc/d"), reason: "a file stands there".into() });
    let expected = vec!["/etc/d/a: a file stands there".to_owned()];
    assert_eq!(chosen(&tree, &["/etc/d/a", "/etc/e"]), (vec![write("/etc/e")], expected));
}

#[test]
fn replaced_directory_must_be_chosen_itself() {
    let drift = [("/etc/d", DriftKind::Type), ("/etc/d/a", DriftKind::Missing)];
    let steps = vec![remove("/etc/d"), make("/etc/d"), write("/etc/d/a")];
    let tree = plan(&drift, steps.clone());
    let (none, obstacles) = chosen(&tree, &["/etc/d/a"]);
    assert!(none.is_empty() && obstacles[0].starts_with("/etc/d/a: /etc/d must become"), "{obstacles:?}");
    assert_eq!(chosen(&tree, &["/etc/d", "/etc/d/a"]), (steps, vec![]));
}

#[test]
fn empty_directories_are_removed_for_a_chosen_file() {
    let gone = |path: &str| PlanStep::RemoveDirectory { path: at(path) };
    let drift = [("/etc/a", DriftKind::Type), ("/etc/b", DriftKind::Type)];
    let steps = vec![gone("/etc/a/x"), gone("/etc/a"), gone("/etc/b"), write("/etc/a"), write("/etc/b")];
    let tree = plan(&drift, steps);
    let expected = vec![gone("/etc/a/x"), gone("/etc/a"), write("/etc/a")];
    assert_eq!(chosen(&tree, &["/etc/a"]), (expected, vec![]));
}

#[test]
fn hard_links_are_repaired_only_with_their_file() {
    let tree = plan(&[("/etc/f", DriftKind::Content)], vec![write("/etc/f"), name("/etc/l", "/etc/f")]);
    assert_eq!(chosen(&tree, &["/etc/f"]).0, tree.steps.steps);

    let labels = [("/etc/f", DriftKind::Label), ("/etc/l", DriftKind::Label)];
    let tree = plan(&labels, vec![write("/etc/f"), name("/etc/l", "/etc/f")]);
    assert_eq!(chosen(&tree, &["/etc/f"]).0, tree.steps.steps, "one file has one label");

    let both = [("/etc/f", DriftKind::Missing), ("/etc/l", DriftKind::Missing)];
    let tree = plan(&both, vec![write("/etc/f"), name("/etc/l", "/etc/f")]);
    assert_eq!(
        chosen(&tree, &["/etc/f"]).0,
        [write("/etc/f")],
        "a hard link with drift policy `ignore` stays missing"
    );
    let (none, obstacles) = chosen(&tree, &["/etc/l"]);
    assert!(none.is_empty() && obstacles == ["/etc/l: it is a hard link to /etc/f, which is not repaired"]);
    assert_eq!(chosen(&tree, &["/etc/f", "/etc/l"]).0, tree.steps.steps);
}

#[test]
fn drift_without_a_step_is_not_repaired() {
    let tree = plan(&[("/etc/d", DriftKind::Xattrs), ("/etc/shadow", DriftKind::Password)], vec![]);
    let (none, obstacles) = chosen(&tree, &["/etc/d", "/etc/shadow"]);
    assert!(none.is_empty() && obstacles.len() == 2, "{obstacles:?}");
}

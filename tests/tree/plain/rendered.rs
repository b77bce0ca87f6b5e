//! Every pair of configs in both orders, on a tree and as a plan, compared with a model written from the
//! specification.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testbed::model::comparison::differences;
use testbed::model::config::Config;
use testbed::model::document::{file, with_files};
use testbed::model::model_tree::ModelTree;
use testbed::model::pairs::{fixtures, for_every_pair, load, rendered};
use testbed::model::plan;
use testbed::model::run::{Outcome, flameholder};
use testbed::model::snapshot::{self, Body, Snapshot};
use testbed::model::tree::Tree;

/// Panics if the model's tree cannot be built.
fn require_reference() {
    testbed::preconditions::require_root();
    testbed::preconditions::require_installed(&["systemctl"]);
}

#[test]
fn real_configs_applied_in_pairs_match_the_model() {
    require_reference();
    for_every_pair(&rendered(), succession);
}

#[test]
fn fixtures_applied_in_pairs_match_the_model() {
    require_reference();
    for_every_pair(&fixtures(), succession);
}

#[test]
fn plans_between_real_configs_match_the_model() {
    for_every_pair(&rendered(), planned);
}

#[test]
fn plans_between_fixtures_match_the_model() {
    for_every_pair(&fixtures(), planned);
}

/// Errors that one change does not show may add up over many: pre-images and enablement are remembered
/// throughout.
#[test]
fn configs_applied_in_a_row_on_one_tree_match_the_model() {
    require_reference();
    let configs = [fixtures(), rendered()].concat();
    let (tree, mut reference) = (Tree::new(), ModelTree::new());
    let mut walk = Vec::new();
    for (index, one) in configs.iter().enumerate() {
        walk.extend(configs[index + 1..].iter().step_by(3).flat_map(|other| [one, other]));
    }
    for (step, path) in walk.into_iter().enumerate() {
        let failed = failure("apply", &apply(&tree, path));
        reference.apply(load(path));
        let differences = differences(&snapshot::take(tree.root()), &reference.snapshot());
        let complaints: Vec<String> = failed.into_iter().chain(differences).collect();
        assert!(complaints.is_empty(), "step {step}, {}:\n{}", path.display(), complaints.join("\n"));
    }
}

/// Apply one config, then another, and return complaints about the tree.
fn succession(first: &Path, second: &Path) -> Vec<String> {
    let (tree, mut reference) = (Tree::new(), ModelTree::new());
    let before = snapshot::take(tree.root());
    let mut complaints = Vec::new();
    let mut managed = Vec::new();
    for path in [first, second] {
        complaints.extend(failure("apply", &apply(&tree, path)));
        reference.apply(load(path));
        managed.extend(reference.managed());
        complaints.extend(differences(&snapshot::take(tree.root()), &reference.snapshot()));
    }
    let settled = snapshot::take(tree.root());
    complaints.extend(rewritten(&before, &settled, &reference.snapshot(), &managed));
    complaints.extend(failure(
        "verify",
        &flameholder(["verify".as_ref(), "--root".as_ref(), tree.root().as_os_str()]),
    ));
    complaints.extend(failure("apply again", &apply(&tree, second)));
    let again = snapshot::changes(&settled, &snapshot::take(tree.root()));
    complaints.extend(again.into_iter().map(|path| format!("a second apply changes {path}")));
    complaints
}

fn apply(tree: &Tree, desired: &Path) -> Outcome {
    let root = tree.root().as_os_str();
    flameholder(["apply".as_ref(), "--root".as_ref(), root, "--desired".as_ref(), desired.as_os_str()])
}

fn failure(what: &str, outcome: &Outcome) -> Option<String> {
    (outcome.code != Some(0))
        .then(|| format!("{what} exits with {:?}: {}{}", outcome.code, outcome.stdout, outcome.stderr))
}

/// Complaints about unmanaged files that were rewritten.
fn rewritten(before: &Snapshot, is: &Snapshot, wanted: &Snapshot, managed: &[String]) -> Vec<String> {
    let left_alone = before.iter().filter(|(path, (node, _))| {
        let enablement = matches!(node.body, Body::Link(_)) && path.starts_with("etc/systemd/system/");
        let kept = wanted.get(*path).is_some_and(|(wanted, _)| wanted == node);
        kept && node.body != Body::Directory && !enablement && !managed.contains(path)
    });
    left_alone
        .filter(|(path, (_, was))| {
            let now = is.get(*path).map(|(_, now)| (now.0, now.1));
            // Setting and locking a hash may leave the same text in a new file.
            now != Some((was.0, was.1)) && *path != "etc/shadow"
        })
        .map(|(path, _)| format!("{path} is unmanaged but was rewritten"))
        .collect()
}

/// Plan from one config to another and return complaints about the plan.
fn planned(first: &Path, second: &Path) -> Vec<String> {
    let (from, to) = (load(first), load(second));
    let run = |more: &[&str]| {
        let pair = [
            "plan".as_ref(),
            "--current".as_ref(),
            first.as_os_str(),
            "--desired".as_ref(),
            second.as_os_str(),
        ];
        flameholder(pair.into_iter().chain(more.iter().map(AsRef::as_ref)))
    };
    let outcome = run(&["-o", "json"]);
    let mut complaints: Vec<String> = failure("plan", &outcome).into_iter().collect();
    match serde_json::from_str(&outcome.stdout) {
        Ok(plan) => complaints.extend(plan::complaints(&plan, &from, &to)),
        Err(error) => complaints.push(format!("plan does not print exactly one JSON document: {error}")),
    }
    let wanted = if plan::differ(&from, &to) { 2 } else { 0 };
    let code = run(&["--exit-code"]).code;
    if code != Some(wanted) {
        complaints.push(format!("plan --exit-code exits with {code:?}, expected {wanted}"));
    }
    complaints
}

/// Plan between two documents, and complaints about it.
fn plan_between(from: &Value, to: &Value) -> (Value, Vec<String>) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str, document: &Value| {
        let path = folder.path().join(name);
        fs::write(&path, document.to_string()).expect("a config");
        path.into_os_string()
    };
    let (current, desired) = (path("current.json", from), path("desired.json", to));
    let arguments =
        ["plan".into(), "--current".into(), current, "--desired".into(), desired, "-o".into(), "json".into()];
    let outcome = flameholder::<std::ffi::OsString>(arguments);
    let plan = serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    let complaints = plan::complaints(&plan, &Config::read(from), &Config::read(to));
    (plan, complaints)
}

#[test]
fn merged_policies_keep_the_order_of_each() {
    let mut complaints = Vec::new();
    for (index, (one, _)) in plan::POLICY.iter().enumerate() {
        for (other, _) in &plan::POLICY[index..] {
            // A path below a policy's path has the same policy.
            let below = format!("{other}/deeper/still");
            for other in [*other, &below, "/etc/iri-registry.but-another-name"] {
                if other.starts_with(&format!("{one}/")) {
                    continue; // one path would be a file and a directory
                }
                let mut files = vec![file(one, "x"), file(other, "y")];
                files.dedup_by(|one, other| one["path"] == other["path"]);
                let (_, wrong) = plan_between(&with_files("none", &[]), &with_files("some", &files));
                complaints.extend(wrong.iter().map(|wrong| format!("{one} and {other}: {wrong}")));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn registry_change_drains_if_pulls_can_change_their_source() {
    const SEARCH: &str = "unqualified-search-registries = ['one.example', 'two.example']\n";
    let registry = |location: &str, more: &str| format!("[[registry]]\nlocation = '{location}'\n{more}\n");
    let mirror =
        |location: &str, more: &str| format!("[[registry.mirror]]\nlocation = '{location}'\n{more}\n");
    let digests = |location: &str| mirror(location, "pull-from-mirror = 'digest-only'");
    let base = SEARCH.to_owned() + &registry("one.example", "") + &digests("mirror.example");
    let with = |more: &str| base.clone() + more;
    let cases = [
        ("a comment", with("# said in passing\n"), false),
        (
            "a registry with mirrors for digests",
            with(&(registry("new.example", "") + &digests("m.example"))),
            false,
        ),
        (
            "a registry with a mirror for tags",
            with(&(registry("new.example", "") + &mirror("m.example", ""))),
            true,
        ),
        ("a mirror for digests", with(&digests("second.example")), false),
        ("a mirror for tags", with(&mirror("second.example", "")), true),
        ("a mirror less", SEARCH.to_owned() + &registry("one.example", ""), true),
        ("a registry less", SEARCH.to_owned(), true),
        ("a mirror that now serves tags", base.replace("pull-from-mirror = 'digest-only'", ""), true),
        ("a blocked registry", base.replace("'one.example'\n\n", "'one.example'\nblocked = true\n"), true),
        ("an insecure registry", base.replace("'one.example'\n\n", "'one.example'\ninsecure = true\n"), true),
        ("another prefix", base.replace("'one.example'\n\n", "'one.example'\nprefix = 'x.example'\n"), true),
        ("a search list cut short", base.replace(", 'two.example'", ""), true),
        (
            "a search list that goes on",
            base.replace("'two.example']", "'two.example', 'three.example']"),
            false,
        ),
        (
            "a search list in another order",
            base.replace("'one.example', 'two.example'", "'two.example', 'one.example'"),
            true,
        ),
    ];
    let document = |text: &str| with_files("registries", &[file("/etc/containers/registries.conf", text)]);
    let mut complaints = Vec::new();
    for (name, text, drain) in cases {
        assert_ne!(text, base, "{name} must be a change");
        let (plan, wrong) = plan_between(&document(&base), &document(&text));
        complaints.extend(wrong.iter().map(|wrong| format!("{name}: {wrong}")));
        if plan["drain"] != drain {
            complaints.push(format!("{name}: drain is {}, expected {drain}", plan["drain"]));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn equivalent_spellings_of_a_config_are_equal() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut complaints = Vec::new();
    for twin in ["twins/kargs.yaml", "twins/kargs-list.json"] {
        let [current, desired] = ["kargs.json", twin].map(|name| folder.join(name));
        let pair = ["--current".as_ref(), current.as_os_str(), "--desired".as_ref(), desired.as_os_str()];
        let outcome = flameholder(["plan".as_ref(), "--exit-code".as_ref()].into_iter().chain(pair));
        if outcome.code != Some(0) {
            complaints.push(format!("{twin}: {outcome:?}"));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

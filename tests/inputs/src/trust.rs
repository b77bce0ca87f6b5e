//! Trust material of a cluster, and the kubeconfigs that get it.

use flameholder::core::plan::steps::PlanStep;
use flameholder::core::trust::certificate::{CaCertificate, parse_bundle, parse_valid};
use flameholder::core::trust::document::TrustDocument;
use flameholder::core::trust::kubeconfig::rotated;
use flameholder::core::trust::material::TrustMaterial;
use flameholder::core::trust::trust_plan::{FoundPath, TrustFacts, plan_files, plan_registries};
use flameholder::core::values::names::ManagedPath;
use flameholder::core::values::paths::REGISTRY_CAS;
use flameholder::core::values::tree::{FileAttributes, FileKind};

use crate::halves;

const ATTRIBUTES: FileAttributes = FileAttributes { mode: 0o755, uid: 0, gid: 0 };

/// The input is a kubeconfig, and after the first NUL the certificates that it gets.
pub(crate) fn kubeconfig(input: &[u8]) {
    let (kubeconfig, bundle) = halves(input);
    let Ok((authority, _)) = parse_valid(bundle) else { return };
    let encoded = CaCertificate::encode_all(&authority);
    assert_eq!(parse_bundle(encoded.as_bytes()).as_ref(), Ok(&authority));
    let Ok(Some(first)) = rotated(kubeconfig, &authority) else { return };
    assert!(!first.added.is_empty());
    assert_eq!(rotated(&first.contents, &authority), Ok(None), "a kubeconfig has what it was given");
}

/// The input is a document. Its plan leads to a disk on which nothing is left to do.
pub(crate) fn trust_material(input: &[u8]) {
    let Ok(document) = serde_json::from_slice::<TrustDocument>(input) else { return };
    let Ok(material) = TrustMaterial::decode(&document) else { return };
    let mut facts = TrustFacts::default();
    let top = ManagedPath::constant(REGISTRY_CAS);
    let directory = FoundPath { kind: FileKind::Directory, attributes: ATTRIBUTES, contents: None };
    for path in top.ancestors().chain([top.clone(), top.join("another")]) {
        facts.found.insert(path, directory.clone());
    }
    for step in &steps(&material, &facts) {
        assert!(step.path().is_within("/etc"), "{step:?}");
        carry_out(step, &mut facts);
    }
    assert_eq!(steps(&material, &facts), []);
}

fn steps(material: &TrustMaterial, facts: &TrustFacts) -> Vec<PlanStep> {
    let plans = [plan_files(material, facts), plan_registries(material, facts)];
    let steps = plans.into_iter().map(|plan| match plan {
        Ok(plan) => plan.steps,
        Err(obstacles) => panic!("nothing is in the way, but {obstacles:?}"),
    });
    steps.collect::<Vec<_>>().concat()
}

fn carry_out(step: &PlanStep, facts: &mut TrustFacts) {
    let path = step.path().clone();
    match step {
        PlanStep::MakeDirectory { attributes, .. } => {
            let found = FoundPath { kind: FileKind::Directory, attributes: *attributes, contents: None };
            assert!(facts.found.insert(path, found).is_none());
        }
        PlanStep::Write { contents, attributes, .. } => {
            let parent = path.parent();
            assert!(parent.is_none_or(|parent| facts.found.contains_key(&parent)), "{step:?}");
            let contents = Some(contents.clone());
            let found = FoundPath { kind: FileKind::File, attributes: *attributes, contents };
            facts.found.insert(path, found);
        }
        PlanStep::Remove { .. } | PlanStep::RemoveDirectory { .. } => drop(facts.found.remove(&path)),
        step => panic!("{step:?}"),
    }
}

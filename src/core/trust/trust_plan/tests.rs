//! Plans of trust material for disks in memory.

use super::*;
use crate::core::trust::kubeconfig::tests::{fixture, kubeconfig as kubeconfig_text};
use crate::core::values::paths::{CLOUD_CA, KUBELET_CA, MERGED_PULL_SECRET};

fn path(text: &str) -> ManagedPath {
    ManagedPath::constant(text)
}

/// Facts of a disk with these files, with their parents.
fn disk(files: &[(&str, &str, u32)]) -> TrustFacts {
    let mut facts = TrustFacts::default();
    let directory = FoundPath { kind: FileKind::Directory, attributes: DIRECTORY, contents: None };
    for (name, contents, mode) in files {
        for above in path(name).ancestors() {
            facts.found.insert(above, directory.clone());
        }
        let attributes = FileAttributes { mode: *mode, ..FILE };
        let contents = Some(contents.as_bytes().to_vec());
        facts.found.insert(path(name), FoundPath { kind: FileKind::File, attributes, contents });
    }
    facts
}

fn material(files: &[(&str, &str, bool)], registries: &[(&str, &str)]) -> TrustMaterial {
    let file = |(name, contents, is_secret): &(&str, &str, bool)| {
        (path(name), TrustFile { contents: contents.as_bytes().to_vec(), is_secret: *is_secret })
    };
    let registry =
        |(name, contents): &(&str, &str)| (path(REGISTRY_CAS).join(name), contents.as_bytes().to_vec());
    TrustMaterial {
        files: files.iter().map(file).collect(),
        registries: registries.iter().map(registry).collect(),
        ..TrustMaterial::default()
    }
}

/// The steps in words, with the mode of each written file.
fn planned(material: &TrustMaterial, facts: &TrustFacts) -> Vec<String> {
    let plans = [plan_files(material, facts), plan_registries(material, facts)];
    let text = |step: &PlanStep| match step {
        PlanStep::Write { attributes, .. } | PlanStep::SetAttributes { attributes, .. } => {
            format!("{step:?} {:o}", attributes.mode)
        }
        step => format!("{step:?}"),
    };
    plans.iter().flat_map(|plan| plan.as_ref().unwrap().steps.iter().map(text)).collect()
}

#[test]
fn only_differing_files_are_written_and_keep_their_mode() {
    let wanted = material(&[(KUBELET_CA, "new\n", false), (CLOUD_CA, "\n", false)], &[]);
    let facts = disk(&[(KUBELET_CA, "old\n", 0o640), (CLOUD_CA, "\n", 0o600)]);
    assert_eq!(planned(&wanted, &facts), [format!("write {KUBELET_CA} 640")]);
    let facts = disk(&[(KUBELET_CA, "new\n", 0o640), (CLOUD_CA, "\n", 0o600)]);
    assert!(planned(&wanted, &facts).is_empty(), "nothing is written when nothing changed");
}

#[test]
fn secret_is_private_and_missing_directories_are_made() {
    let wanted = material(&[(MERGED_PULL_SECRET, "{}\n", true)], &[]);
    let facts = disk(&[("/etc/passwd", "", 0o644)]);
    assert_eq!(
        planned(&wanted, &facts),
        ["make directory /etc/mco".to_owned(), format!("write {MERGED_PULL_SECRET} 600")]
    );
    let of_mcd = disk(&[(MERGED_PULL_SECRET, "{}\n", 0o644)]);
    assert_eq!(planned(&wanted, &of_mcd), [format!("set attributes of {MERGED_PULL_SECRET} 600")]);
}

#[test]
fn difference_of_the_registries_is_applied_and_removals_come_last() {
    let of_old = "/etc/docker/certs.d/old:5000";
    let facts = disk(&[
        ("/etc/docker/certs.d/kept:5000/ca.crt", "a", 0o644),
        ("/etc/docker/certs.d/changed/ca.crt", "b", 0o644),
        (&format!("{of_old}/ca.crt"), "c", 0o644),
        (&format!("{of_old}/client/key"), "d", 0o600),
        ("/etc/docker/certs.d/file", "not a directory", 0o644),
    ]);
    let wanted = material(&[], &[("kept:5000", "a"), ("changed", "x"), ("new:443", "y")]);
    assert_eq!(
        planned(&wanted, &facts),
        [
            "make directory /etc/docker/certs.d/new:443",
            "write /etc/docker/certs.d/changed/ca.crt 644",
            "write /etc/docker/certs.d/new:443/ca.crt 644",
            "remove /etc/docker/certs.d/old:5000/ca.crt",
            "remove /etc/docker/certs.d/old:5000/client/key",
            "remove directory /etc/docker/certs.d/old:5000/client",
            "remove directory /etc/docker/certs.d/old:5000",
        ]
    );
    let elsewhere = disk(&[("/etc/passwd", "", 0o644)]);
    assert!(planned(&wanted, &elsewhere).is_empty(), "as with MCD, without the directory nothing is done");
}

#[test]
fn files_of_the_current_config_have_precedence() {
    let mut facts = disk(&[
        (KUBELET_CA, "of the config\n", 0o644),
        ("/etc/docker/certs.d/site:5000/ca.crt", "of the config", 0o644),
    ]);
    facts.managed = [path(KUBELET_CA), path("/etc/docker/certs.d/site:5000/ca.crt")].into();
    let wanted = material(&[(KUBELET_CA, "other\n", false)], &[]);
    assert!(planned(&wanted, &facts).is_empty());
    let plan = plan_files(&wanted, &facts).unwrap();
    assert!(plan.left_out[0].contains("has precedence"), "{:?}", plan.left_out);
}

#[test]
fn obstacle_is_named() {
    let facts = disk(&[("/etc/kubernetes/kubelet-ca.crt/x", "", 0o644)]);
    let wanted = material(&[(KUBELET_CA, "x\n", false)], &[]);
    let obstacles = plan_files(&wanted, &facts).unwrap_err();
    assert_eq!(obstacles, ["/etc/kubernetes/kubelet-ca.crt is no file; move it away"]);
    let mut facts = disk(&[("/etc/docker/certs.d/old/ca.crt", "", 0o644)]);
    facts.found.get_mut(&path("/etc/docker/certs.d/old/ca.crt")).unwrap().kind = FileKind::Other;
    let plan = plan_registries(&material(&[], &[]), &facts).unwrap();
    assert!(plan.steps.is_empty() && plan.left_out[0].contains("socket"), "{plan:?}");
    let facts = disk(&[("/etc/docker/certs.d/plain", "a file", 0o644)]);
    let obstacles = plan_registries(&material(&[], &[("plain", "x")]), &facts).unwrap_err();
    assert_eq!(obstacles, ["/etc/docker/certs.d/plain is no directory; move it away"]);
}

/// Plan of a rotation to `after` where both kubeconfigs have `before`.
fn rotation(before: &[CaCertificate], after: &[CaCertificate]) -> (TrustPlan, KubeletRestart) {
    let text = kubeconfig_text(before);
    let facts = disk(&[(KUBECONFIG, &text, 0o600), (KUBELET_KUBECONFIG, &text, 0o600)]);
    plan_rotation(after, &facts).unwrap()
}

#[test]
fn rotation_writes_both_kubeconfigs_and_restarts_the_kubelet() {
    let (old, new) = (fixture("server-1"), fixture("server-2"));
    let (plan, restart) = rotation(&old, &[old.clone(), new].concat());
    let written: Vec<_> = plan.steps.iter().map(|step| step.path().as_str()).collect();
    assert_eq!(written, [KUBECONFIG, KUBELET_KUBECONFIG]);
    assert_eq!(restart, KubeletRestart::Now);
}

#[test]
fn restart_is_deferred_only_for_the_three_signers() {
    let old = fixture("server-1");
    let with = |names: &[&str]| {
        let added = names.iter().flat_map(|name| fixture(name));
        old.iter().cloned().chain(added).collect::<Vec<_>>()
    };
    for (names, expected) in [
        (&[][..], KubeletRestart::Unneeded),
        (&["lb"], KubeletRestart::Deferred),
        (&["lb", "localhost"], KubeletRestart::Deferred),
        (&["lb", "server-2"], KubeletRestart::Now),
    ] {
        let (plan, restart) = rotation(&old, &with(names));
        assert_eq!(restart, expected, "{names:?}");
        assert_eq!(plan.steps.is_empty(), names.is_empty());
    }
}

#[test]
fn missing_kubeconfig_of_the_kubelet_needs_no_restart() {
    let (old, new) = (fixture("server-1"), fixture("server-2"));
    let facts = disk(&[(KUBECONFIG, &kubeconfig_text(&old), 0o600)]);
    let (plan, restart) = plan_rotation(&new, &facts).unwrap();
    assert_eq!((plan.steps.len(), restart), (1, KubeletRestart::Unneeded));
    assert!(plan.left_out[0].contains("is missing"), "{:?}", plan.left_out);
    let mut managed = facts.clone();
    managed.managed.insert(path(KUBECONFIG));
    let obstacles = plan_rotation(&new, &managed).unwrap_err();
    assert!(obstacles[0].contains("the current config lists it"), "{obstacles:?}");
    let damaged = disk(&[(KUBECONFIG, "{ very-secret", 0o600)]);
    let obstacles = plan_rotation(&new, &damaged).unwrap_err();
    assert_eq!(obstacles, ["/etc/kubernetes/kubeconfig is not a kubeconfig in YAML; restore it"]);
}

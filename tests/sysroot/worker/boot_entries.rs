//! Boot entries: their kernel arguments and their order.

use std::fs;

use flameholder::core::values::kernel_arguments::KernelArguments;
use flameholder::os::{Deployment, DeploymentOrigin, OsError, Sysroot as _};
use osimage::{Os, SysrootBuilder};
use testbed::worker::{Host, snapshot};

/// Pins a deployment as `ostree admin pin` does.
fn pin(host: &Host, deployment: &Deployment) -> Deployment {
    let origin = host.sysroot().join(format!("{}.origin", deployment.id.path()));
    let text = fs::read_to_string(&origin).unwrap();
    fs::write(&origin, format!("{text}\n[libostree-transient]\npinned=true\n")).unwrap();
    Deployment { pinned: true, ..deployment.clone() }
}

#[test]
fn boot_entry_has_exactly_the_requested_arguments() {
    let host = Host::new();
    let asked = KernelArguments::parse_all(&[
        "root=LABEL=root",
        "rw",
        "console=tty0",
        "console=ttyS0,115200n8",
        "console=tty0",
        "cgroup_no_v1=\"all\"",
        "dyndbg=\"file a +p\"",
        "nosmt",
        "isolcpus=2-3,nohz",
        "module.parameter=a=b",
        "\"quoted parameter=1\"",
    ]);
    let mut session = host.write();
    let mut request = host.request(&host.default().id.commit, DeploymentOrigin::MergeDeployment);
    request.kernel_arguments.clone_from(&asked);
    let deployment = session.deploy(&request).unwrap();
    session.finish().unwrap();

    assert_eq!(deployment.kernel_arguments, asked);
    assert_eq!(host.default().kernel_arguments, asked);
    let entries = host.boot_entries();
    let line = format!("options {asked} ostree=/ostree/boot.");
    let holding = entries.values().filter(|entry| entry.contains(&line));
    assert_eq!(holding.count(), 1, "{entries:?}");
}

#[test]
fn arguments_that_libostree_would_change_are_refused_before_deploying() {
    let host = Host::new();
    let before = host.boot_entries();
    let mut session = host.write();
    let mut request = host.request(&host.default().id.commit, DeploymentOrigin::MergeDeployment);
    for argument in ["ostree=/elsewhere", "quoted=\"line\nfeed\"", "null\0byte"] {
        request.kernel_arguments = KernelArguments::parse_all(&["rw", argument]);
        let error = session.deploy(&request).unwrap_err();
        assert!(matches!(error, OsError::KernelArguments { .. }), "{argument:?}: {error}");
    }
    let error = session.finish().unwrap_err();
    assert!(matches!(error, OsError::Protocol { .. }), "{error}");
    assert_eq!(host.boot_entries(), before);
    assert_eq!(host.deployments().len(), 1);
}

#[test]
fn update_does_not_change_previous_deployment() {
    let host = Host::of(&SysrootBuilder::new(Os::new(1)).kernel_argument("a=\"b c\""));
    let previous = host.default();
    let tree = snapshot(&host.root_of(&previous.id));
    let new = host.update(&Os::new(2));

    let now = host.deployments();
    assert_eq!(now.first(), Some(&new));
    assert_eq!(now.last(), Some(&previous));
    assert_eq!(now.len(), 2);
    assert_eq!(snapshot(&host.root_of(&previous.id)), tree);
}

#[test]
fn third_deployment_replaces_the_first() {
    let host = Host::new();
    let first = host.default();
    let second = host.update(&Os::new(2));
    let third = host.update(&Os::new(3));
    assert_eq!(host.deployments(), [third, second]);
    assert!(!host.root_of(&first.id).exists());
    let images = host.sysroot().join("ostree/repo/refs/heads/ostree/container/image");
    let references = snapshot(&images).into_keys().filter(|path| path.is_file());
    assert_eq!(references.count(), 2, "its image is gone as well");
}

#[test]
fn pinned_and_foreign_stateroot_deployments_stay() {
    let host = Host::new();
    SysrootBuilder::new(Os::new(7)).stateroot("other").create(&host.sysroot()).unwrap();
    let [other, installed] = host.deployments().try_into().unwrap();
    let pinned = pin(&host, &installed);

    let mut order = Vec::new();
    for version in [2, 3] {
        let image = host.image(&Os::new(version), &version.to_string());
        let mut session = host.write();
        let imported = session.import(&image.clone().into(), &mut |_| ()).unwrap();
        let mut request = host.request(&imported.commit, DeploymentOrigin::Image(image));
        request.stateroot.clone_from(&pinned.id.stateroot);
        request.merge.clone_from(&pinned.id);
        order.insert(0, session.deploy(&request).unwrap());
        session.finish().unwrap();
    }
    order.extend([other, pinned]);
    assert_eq!(host.deployments(), order);
}

#[test]
fn pin_is_neither_inherited_nor_lost() {
    let host = Host::new();
    let pinned = pin(&host, &host.default());
    let second = host.update(&Os::new(2));
    let mut session = host.write();
    let mut request = host.request(&pinned.id.commit, DeploymentOrigin::MergeDeployment);
    request.merge.clone_from(&pinned.id);
    let again = session.deploy(&request).unwrap();
    session.finish().unwrap();
    assert!(!again.pinned);
    assert_eq!(again.image, pinned.image);
    assert_eq!(host.deployments(), [again, second, pinned]);
}

#[test]
fn rollback_changes_the_order_only() {
    let host = Host::new();
    let first = host.default();
    let second = host.update(&Os::new(2));
    let trees = [&first, &second].map(|deployment| snapshot(&host.root_of(&deployment.id)));
    host.write().set_default(&first.id).unwrap();

    assert_eq!(host.deployments(), [first.clone(), second.clone()]);
    let now = [&first, &second].map(|deployment| snapshot(&host.root_of(&deployment.id)));
    assert!(now == trees);
    // A bootloader takes the entry with the highest version.
    let default = host.boot_entries().into_values().max_by_key(|entry| {
        let version = entry.lines().find_map(|line| line.strip_prefix("version "));
        version.and_then(|number| number.parse::<u32>().ok())
    });
    assert!(default.unwrap().contains("6.17.1-300"));
}

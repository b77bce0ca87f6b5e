//! Deployed trees: merged `/etc`, labels, and refused deployments.

use std::fs;
use std::path::Path;

use flameholder::os::protocol::SysrootAccess;
use flameholder::os::worker::{WorkerProgram, WorkerSession};
use flameholder::os::{DeploymentId, DeploymentOrigin, OsError, Sysroot as _};
use osimage::{Os, SysrootBuilder};
use testbed::worker::{Host, program, worker_after};

#[test]
fn update_merges_etc_before_writing_the_boot_entry() {
    let host = Host::new();
    let etc = host.root_of(&host.default().id).join("etc");
    fs::write(etc.join("chrony.conf"), "local\n").unwrap();
    fs::write(etc.join("added"), "local\n").unwrap();
    fs::remove_file(etc.join("hosts")).unwrap();
    let entries = host.boot_entries();
    let image = host.image(&Os::new(2), "v2");
    let mut session = host.write();
    let imported = session.import(&image.clone().into(), &mut |_| ()).unwrap();
    let new = session.deploy(&host.request(&imported.commit, DeploymentOrigin::Image(image))).unwrap();

    let etc = host.root_of(&new.id).join("etc");
    let names = |name: &str| etc.join(name).exists();
    assert_eq!(fs::read_to_string(etc.join("chrony.conf")).unwrap(), "local\n");
    assert_eq!(fs::read_to_string(etc.join("added")).unwrap(), "local\n");
    assert!(!names("hosts"), "a local removal is kept");
    assert!(names("os/version-2.conf"), "what the image adds arrives");
    assert!(!names("os/version-1.conf"), "what the image drops goes");
    assert_eq!(host.boot_entries(), entries);
}

#[test]
fn deployment_reports_its_commit_and_image() {
    let host = Host::new();
    let installed = host.default();
    assert_eq!(installed.version, Some(Os::new(1).version()));
    let image = installed.image.unwrap().to_string();
    assert_eq!(
        image,
        format!("ostree-unverified-registry:registry.invalid/fedora-coreos:{}", Os::new(1).version())
    );
    assert_eq!(installed.kernel_arguments.to_string(), "root=LABEL=root rw console=ttyS0");
    assert!(!installed.pinned && !installed.staged && !installed.booted);

    let digest = osimage::write_image(&Os::new(2), &host.path("again"), None).unwrap();
    let new = host.update(&Os::new(2));
    assert_eq!(new.manifest_digest, Some(digest));
    assert_eq!(new.version, Some(Os::new(2).version()));
    assert_eq!(new.image, Some(host.layout(&Os::new(2).version())));
}

#[test]
fn same_commit_is_deployed_with_the_next_serial() {
    let host = Host::new();
    let installed = host.default();
    let mut session = host.write();
    let request = host.request(&installed.id.commit, DeploymentOrigin::MergeDeployment);
    let mut again = session.deploy(&request).unwrap();
    session.finish().unwrap();
    assert_eq!(again.id.serial, installed.id.serial + 1);
    again.id.serial = installed.id.serial;
    assert_eq!(again, installed);
    assert_eq!(host.deployments().len(), 2);
}

/// A worker in a mount namespace of its own, in which `/usr/bin` is a copy changed by the script `change`.
fn worker_with_programs(host: &Host, change: &str) -> WorkerProgram {
    let layers = host.path("programs");
    let layers = layers.display();
    let script = format!(
        "mkdir {layers}\nmount -t tmpfs tmpfs {layers}\nmkdir {layers}/upper {layers}/work\n\
         mount -t overlay -o lowerdir=/usr/bin,upperdir={layers}/upper,workdir={layers}/work overlay /usr/bin\n{change}"
    );
    worker_after(host, &script)
}

#[test]
fn labels_are_those_of_the_new_deployment() {
    let host = Host::new();
    let image = host.image(&Os::new(2).with_selinux(), "v2");
    // Replaces the sandbox in which libostree runs the image's `semodule`, which this image does not have.
    let program = worker_with_programs(&host, "ln -sf true /usr/bin/bwrap");
    let mut session = host.write_with(&program).unwrap();
    let imported = session.import(&image.clone().into(), &mut |_| ()).unwrap();
    session.deploy(&host.request(&imported.commit, DeploymentOrigin::Image(image))).unwrap();
    let asked = [
        ("/etc/shadow", 0o100_000),
        ("/etc/kubernetes", 0o040_755),
        ("/usr/local/bin/tool", 0o100_755),
        ("/run/anything", 0o100_644),
    ];
    let labels = session.labels(&asked.map(|(path, mode)| (path.to_owned(), mode))).unwrap();
    let expected = [Some("shadow_t"), Some("kubernetes_file_t"), Some("bin_t"), None];
    let expected = expected.map(|kind| kind.map(|kind| format!("system_u:object_r:{kind}:s0")));
    assert_eq!(labels, expected);
}

#[test]
fn missing_bubblewrap_is_reported() {
    let host = Host::new();
    let image = host.image(&Os::new(2).with_selinux(), "v2");
    let program = worker_with_programs(&host, "rm -f /usr/bin/bwrap");
    let mut session = host.write_with(&program).unwrap();
    let imported = session.import(&image.clone().into(), &mut |_| ()).unwrap();
    let request = host.request(&imported.commit, DeploymentOrigin::Image(image));
    let error = session.deploy(&request).unwrap_err();
    assert!(matches!(&error, OsError::ToolMissing { tool, .. } if tool == "bubblewrap"), "{error}");
}

#[test]
fn tree_without_policy_has_no_labels() {
    let host = Host::new();
    let mut session = host.write();
    let paths = [("/etc/shadow".to_owned(), 0o100_000)];
    let early = session.labels(&paths).unwrap_err();
    assert!(matches!(early, OsError::Protocol { .. }), "{early}");
    session.deploy(&host.request(&host.default().id.commit, DeploymentOrigin::MergeDeployment)).unwrap();
    assert_eq!(session.labels(&paths).unwrap(), [None]);
}

#[test]
fn missing_deployments_and_commits_are_named() {
    let host = Host::of(&SysrootBuilder::new(Os::new(1)).stateroot("os"));
    let mut session = host.write();
    let good = host.request(&host.default().id.commit, DeploymentOrigin::MergeDeployment);

    for stateroot in ["elsewhere", "../deploy", ""] {
        let mut request = good.clone();
        request.stateroot = stateroot.into();
        let error = session.deploy(&request).unwrap_err();
        let OsError::NoSuchStateroot { found, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(found, &["os"]);
    }
    let gone = DeploymentId { serial: 9, ..good.merge.clone() };
    let mut request = good.clone();
    request.merge = gone.clone();
    for error in [session.deploy(&request).unwrap_err(), session.set_default(&gone).unwrap_err()] {
        assert!(matches!(error, OsError::NoSuchDeployment { .. }), "{error}");
    }
    let mut request = good.clone();
    request.commit = "0".repeat(64);
    let error = session.deploy(&request).unwrap_err();
    assert!(matches!(error, OsError::Other { .. }), "{error}");

    session.deploy(&good).unwrap();
    session.finish().unwrap();
}

#[test]
fn directory_without_repository_is_no_sysroot() {
    let missing = Path::new("/nonexistent/sysroot");
    for access in [SysrootAccess::Read, SysrootAccess::Write] {
        let error = WorkerSession::open(&program(), missing, access).unwrap_err();
        assert_eq!(error, OsError::NotASysroot { path: missing.into() });
    }
}

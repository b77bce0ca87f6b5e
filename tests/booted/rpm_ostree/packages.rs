//! Kernel types and extensions.

use std::fs;
use std::path::Path;

use osimage::Os;
use rpmostreed::Faults;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use testbed::booted::config::{Config, assert_config, full_config};
use testbed::booted::host::{Host, assert_unlocked};

use crate::rpm_ostree::peers::bus::{Bus, fail};

const REPOSITORY: &str = "yum.repos.d/flameholder-extensions.repo";
const REALTIME: [&str; 3] = ["kernel-rt-core", "kernel-rt-modules", "kernel-rt-modules-extra"];

/// Offers these packages on the host in a repository of the administrator's.
pub(crate) fn offer(host: &Host, packages: &[&str]) {
    let directory = host.var("lib/packages");
    fs::create_dir_all(&directory).unwrap();
    for package in packages {
        fs::write(directory.join(package), format!("{package} 1\n")).unwrap();
    }
    host.write_etc("yum.repos.d/local.repo", "[local]\nbaseurl=file:///var/lib/packages\n");
}

/// Writes an extensions image like those of a cluster: one layer with packages. Returns its reference.
fn extensions_image(host: &Host, packages: &[&str]) -> String {
    let mut layer = tar::Builder::new(Vec::new());
    for package in packages {
        let text = format!("{package} 1\n");
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        let path = format!("usr/share/rpm-ostree/extensions/{package}");
        layer.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    let directory = host.path("media/extensions");
    let blob = |bytes: &[u8]| blob(&directory, bytes);
    let layer = blob(&layer.into_inner().unwrap());
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    });
    let described = |kind: &str, mut found: Value| {
        found["mediaType"] = format!("application/vnd.oci.image.{kind}").into();
        found
    };
    let config = described("config.v1+json", blob(config.to_string().as_bytes()));
    let layers = [described("layer.v1.tar", layer)];
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config, "layers": layers,
    });
    let manifest = described("manifest.v1+json", blob(manifest.to_string().as_bytes()));
    fs::write(directory.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(directory.join("index.json"), index.to_string()).unwrap();
    "ostree-unverified-image:oci:/run/media/extensions".to_owned()
}

fn blob(directory: &Path, bytes: &[u8]) -> Value {
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let blobs = directory.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join(&digest), bytes).unwrap();
    json!({"digest": format!("sha256:{digest}"), "size": bytes.len()})
}

/// A host whose `os-release` names RHEL CoreOS.
fn enterprise() -> Host {
    let host = Host::install(Os::new(1));
    name_os(&host, "ID=\"rhcos\"\nVARIANT_ID=coreos\n");
    host
}

/// Replaces the link to the image's `os-release` by a file with this text.
fn name_os(host: &Host, text: &str) {
    fs::remove_file(host.etc("os-release")).unwrap();
    host.write_etc("os-release", text);
}

/// A config with this kernel type and these extensions.
fn with(host: &Host, config: &Config, kernel: &str, extensions: &[&str], image: &str) -> String {
    let mut config = config.json().clone();
    config["spec"]["kernelType"] = kernel.into();
    config["spec"]["extensions"] = json!(extensions);
    config["spec"]["baseOSExtensionsContainerImage"] = image.into();
    host.config(&config)
}

/// The packages installed in the booted deployment, and those removed from it.
fn installed(host: &Host) -> Vec<String> {
    let found = fs::read_dir(host.booted().at("usr/share/packages")).into_iter().flatten().flatten();
    let mut names: Vec<String> = found.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A host whose booted config `one` has brought the extension `usbguard`, and the reference of the extensions image.
fn with_usbguard() -> (Host, String) {
    let host = enterprise();
    let extensions_ref = extensions_image(&host, &["usbguard"]);
    let bus = Bus::start(&host);
    assert_unlocked(&host.apply(&with(&host, &full_config("one"), "", &["usbguard"], &extensions_ref), None));
    drop(bus);
    host.reboot();
    assert_eq!(installed(&host), ["usbguard"]);
    (host, extensions_ref)
}

fn ensure_repository_removed(host: &Host) {
    for path in [host.etc(REPOSITORY), host.var("lib/flameholder/extensions")] {
        assert!(!path.exists(), "{} remains", path.display());
    }
}

fn transactions(host: &Host) -> u64 {
    host.status()["pending"]["rpmOstreeTransactions"].as_u64().unwrap()
}

#[test]
fn kernel_extensions_and_image_change_in_one_transaction() {
    let host = enterprise();
    let extensions_ref = extensions_image(&host, &[&REALTIME[..], &["usbguard"]].concat());
    let wanted = with(&host, &full_config("one"), "realtime", &["usbguard"], &extensions_ref);
    let image = host.image(&Os::new(2));
    let bus = Bus::start(&host);
    assert_unlocked(&host.apply(&wanted, Some(&image)));
    assert_eq!(transactions(&host), 1);
    ensure_repository_removed(&host);
    drop(bus);
    host.reboot();
    assert_config(&host, "one", "two");
    assert!(host.etc("os/version-2.conf").exists());
    let expected = [
        "kernel-core.removed",
        "kernel-modules-core.removed",
        "kernel-modules-extra.removed",
        "kernel-modules.removed",
        "kernel-rt-core",
        "kernel-rt-modules",
        "kernel-rt-modules-extra",
        "kernel.removed",
        "usbguard",
    ];
    assert_eq!(installed(&host), expected);
    let status = host.status();
    assert_eq!(status["deployments"][0]["generation"]["unsupported"], json!([]), "{status}");
    // An update without changes of that kind needs neither daemon nor registry, which are both absent.
    fs::remove_dir_all(host.path("media/images")).unwrap();
    let files = with(&host, &full_config("two"), "realtime", &["usbguard"], &extensions_ref);
    host.update(&files, None);
    assert_config(&host, "two", "one");
    assert_eq!(installed(&host), expected);
    // Back to the default kernel, without extensions.
    let bus = Bus::start(&host);
    let plain = with(&host, &full_config("three"), "default", &[], &extensions_ref);
    let outcome = host.apply(&plain, None);
    assert_unlocked(&outcome);
    assert_eq!(transactions(&host), 1, "{outcome:?}");
    drop(bus);
    host.reboot();
    assert_config(&host, "three", "two");
    assert_eq!(installed(&host), [""; 0]);
    ensure_repository_removed(&host);
    host.assert_no_drift();
    // A rollback restores both.
    let rolled_back = host.run(["flameholder", "rollback"]);
    assert_unlocked(&rolled_back);
    assert_eq!(transactions(&host), 0);
    host.reboot();
    assert_config(&host, "two", "three");
    assert_eq!(installed(&host), expected);
}

#[test]
fn packages_survive_an_image_update() {
    let (host, extensions_ref) = with_usbguard();
    let (config, image) =
        (with(&host, &full_config("two"), "", &["usbguard"], &extensions_ref), host.image(&Os::new(2)));
    // libostree alone would lose the packages, so it is refused.
    let refused = host.apply(&config, Some(&image));
    assert!(refused.code == Some(1) && refused.stderr.contains("(usbguard)"), "{refused:?}");
    let bus = Bus::start(&host);
    assert_unlocked(&host.apply(&config, Some(&image)));
    assert_eq!(transactions(&host), 1);
    drop(bus);
    host.reboot();
    assert_config(&host, "two", "one");
    assert!(host.etc("os/version-2.conf").exists());
    assert_eq!(installed(&host), ["usbguard"]);
}

#[test]
fn packages_follow_the_booted_deployment_after_a_choice_in_the_boot_menu() {
    let (host, extensions_ref) = with_usbguard();
    host.shut_down();
    host.boot_entry(1).assert_success();
    assert_eq!(installed(&host), [""; 0]);
    let image = host.image(&Os::new(2));
    let bus = Bus::start(&host);
    assert_unlocked(&host.apply(&with(&host, &full_config("two"), "", &[], &extensions_ref), Some(&image)));
    drop(bus);
    host.reboot();
    assert!(host.etc("os/version-2.conf").exists());
    assert_eq!(installed(&host), [""; 0]);
}

#[test]
fn temporary_repository_is_removed_after_failures_and_kills() {
    let host = enterprise();
    let extensions_ref = extensions_image(&host, &["usbguard"]);
    let config = with(&host, &full_config("one"), "", &["usbguard"], &extensions_ref);
    let bus = Bus::start(&host);
    fail(&host, &Faults { fail: Some("Could not depsolve".into()), ..Faults::default() });
    let outcome = host.apply(&config, None);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    ensure_repository_removed(&host);
    fail(&host, &Faults::default());
    // Killed while the daemon installs the package.
    let killed = "rm -f /run/rpm-ostree-transaction.sock; flameholder apply --desired $0 --locked & while ! test -e /run/rpm-ostree-transaction.sock; do sleep 0.02; done; kill -KILL $!";
    fail(&host, &Faults { slow: 1500, ..Faults::default() });
    host.run(["sh", "-c", killed, &config]);
    assert!(host.etc(REPOSITORY).exists(), "the kill came while the repository was in place");
    drop(bus);
    host.power_cut();
    host.boot().assert_success();
    ensure_repository_removed(&host);
    let bus = Bus::start(&host);
    assert_unlocked(&host.apply(&config, None));
    drop(bus);
    host.reboot();
    assert_eq!(installed(&host), ["usbguard"]);
}

#[test]
fn packages_missing_from_the_image_are_named() {
    let host = enterprise();
    let extensions_ref = extensions_image(&host, &["usbguard"]);
    let config = with(&host, &full_config("one"), "", &["sandboxed-containers"], &extensions_ref);
    let _bus = Bus::start(&host);
    let outcome = host.apply(&config, None);
    assert!(outcome.code == Some(1) && outcome.stderr.contains("kata-containers"), "{outcome:?}");
    assert!(!host.is_staged());
    ensure_repository_removed(&host);
}

#[test]
fn unsupported_changes_are_listed_with_reason() {
    let host = Host::install(Os::new(1));
    let config = with(&host, &full_config("one"), "realtime", &["usbguard"], "h/x:1");
    let unsupported = |host: &Host| {
        let planned = host.run_ok(["flameholder", "plan", "-o", "json", "--desired", &config]);
        serde_json::from_str::<Value>(&planned).unwrap()["unsupported"].to_string()
    };
    assert!(
        unsupported(&host).contains("only rpm-ostreed on a running host can change packages"),
        "{}",
        unsupported(&host)
    );
    let _bus = Bus::start(&host);
    assert!(
        unsupported(&host).contains("only for RHEL CoreOS and CentOS Stream CoreOS"),
        "{}",
        unsupported(&host)
    );
    name_os(&host, "ID=scos\n");
    assert_eq!(unsupported(&host), "[]");
    let pages = with(&host, &full_config("one"), "64k-pages", &[], "h/x:1");
    if std::env::consts::ARCH != "aarch64" {
        let refused = host.apply(&pages, None);
        assert!(refused.stderr.contains("64 KiB pages exist for aarch64 only"), "{refused:?}");
    }
}

#[test]
fn restaged_generation_keeps_its_packages() {
    let host = enterprise();
    let extensions_ref = extensions_image(&host, &["usbguard"]);
    let (config, image) =
        (with(&host, &full_config("one"), "", &["usbguard"], &extensions_ref), host.image(&Os::new(2)));
    let bus = Bus::start(&host);
    assert_unlocked(&host.apply(&config, Some(&image)));
    drop(bus);
    // Power is cut, and the daemon is absent after the boot.
    host.power_cut();
    let boot = host.boot().assert_success();
    assert!(boot.recover.stdout.contains("it is staged again"), "{boot:?}");
    host.update(&config, Some(&image));
    assert_config(&host, "one", "two");
    assert_eq!(installed(&host), ["usbguard"]);
    let origin = host.run_ok(["sh", "-c", "cat /sysroot/ostree/deploy/*/deploy/*.origin"]);
    assert!(
        origin.contains("requested=usbguard;") && origin.contains("container-image-reference="),
        "{origin}"
    );
    assert!(host.etc("os/version-2.conf").exists());
    host.assert_no_drift();
}

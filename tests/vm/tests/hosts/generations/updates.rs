//! Successful updates and rollbacks.

use anyhow::{Context as _, Result, ensure};
use vm::config::Config;
use vm::operator::{
    apply, enable_rpm_ostreed, ensure_current, ensure_readers_saw, roll_back, run_until_rebooted, status,
    update,
};
use vm::{Host, scenario};

use crate::change::Change;
use crate::prepared::{running_one, staged, two};

const RPM: &str = "org.projectatomic.rpmostree1";
const RPM_PATH: &str = "/org/projectatomic/rpmostree1/Sysroot";
const KEY: &str = "/var/home/core/.ssh/authorized_keys.d/ignition";

#[test]
fn image_arguments_files_units_and_keys_switch_together_and_roll_back() -> Result<()> {
    scenario(staged(Change::Image)?, |host| {
        let transactions = status(host)?["pending"]["rpmOstreeTransactions"].clone();
        ensure!(transactions == 1, "expected one transaction of rpm-ostreed, found {transactions}");
        // It replaces the deployment that rpm-ostreed staged.
        host.run_ok("test -e /run/ostree/staged-deployment-locked")?;
        // Local changes between staging and power-off are in the new generation. The registry is down.
        host.run_ok(
            "echo late > /etc/late && mkdir -p /etc/os && echo local > /etc/os/changed-in-both && cp -a /etc /var/etc-before",
        )?;
        run_until_rebooted(host, &Change::Image.command())?;
        ensure_current(host, "two")?;
        ensure_readers_saw(host, "two")?;
        assert_eq!(host.run_ok("cat /usr/lib/os-version /etc/late /run/ours.service.ran")?, "2\nlate\ntwo\n");
        assert_eq!(host.run_ok("cat /etc/os/changed /etc/os/changed-in-both")?, "version 2\nlocal\n");
        assert!(host.run_ok("cat /proc/cmdline")?.contains("flameholder-test=two"));
        assert_eq!(host.run_ok(&format!("cat {KEY}"))?.trim(), "ssh-ed25519 AAAA two");
        ensure_old_etc_unchanged(host)?;

        // Unmanaged files that are written after the update are not rolled back.
        host.run_ok("echo pod > /etc/kubernetes/manifests/etcd.yaml && echo rotated > /etc/host_key")?;
        roll_back(host, "one")?;
        ensure_readers_saw(host, "one")?;
        let output = host.run_ok("cat /var/tmp/output")?;
        for path in ["/etc/host_key", "/etc/kubernetes/manifests/etcd.yaml"] {
            ensure!(
                output.contains(&format!("\n  {path}\n")),
                "rollback does not list the unmanaged path {path}: {output}"
            );
        }
        ensure!(
            !output.contains("/etc/os/changed\n"),
            "rollback lists an unchanged file of the image: {output}"
        );
        assert_eq!(
            host.run_ok("cat /usr/lib/os-version /etc/kubernetes/manifests/etcd.yaml /etc/host_key")?,
            "1\npod\nrotated\n"
        );
        assert!(!host.run_ok("cat /proc/cmdline")?.contains("flameholder-test=two"));
        assert_eq!(
            host.run_ok(&format!("cat {KEY}"))?.trim(),
            "ssh-ed25519 AAAA two",
            "a rollback keeps the newer keys"
        );
        let blocked = status(host)?["blocked"].clone();
        ensure!(blocked["config"] == "two", "the config that was rolled back is not blocked: {blocked}");

        let refused = host.run("flameholder apply --desired /var/tmp/desired.json --reboot auto")?;
        ensure!(refused.code == 1 && refused.stderr.contains("flameholder retry"), "{}", refused.stderr);
        host.run_ok("flameholder retry")?;
        let again = two(host);
        update(host, &again)?;
        ensure_readers_saw(host, "two")
    })
}

/// Check that `/etc` of the previous deployment is as it was at the shutdown.
fn ensure_old_etc_unchanged(host: &mut Host) -> Result<()> {
    let status = status(host)?;
    let previous =
        status["deployments"].as_array().into_iter().flatten().find(|other| other["booted"] == false);
    let previous = previous.context("the previous deployment does not exist")?;
    let (commit, serial) = (previous["commit"].as_str().unwrap_or_default(), &previous["serial"]);
    let etc = format!("/sysroot/ostree/deploy/os/deploy/{commit}.{serial}/etc");
    let seen =
        host.run_ok(&format!("cat {etc}/witness {etc}/late && diff -r {etc} /var/etc-before | cut -d: -f2"))?;
    ensure!(seen == "onelate\n", "unexpected content of the previous deployment's /etc: {seen:?}");
    Ok(())
}

#[test]
fn update_without_image_deploys_same_commit() -> Result<()> {
    scenario(running_one()?, |host| {
        let commit = |host: &mut Host| -> Result<String> {
            Ok(vm::operator::booted(&status(host)?)?["commit"].to_string())
        };
        let before = commit(host)?;
        // rpm-ostreed makes no transaction, and lists the staged deployment.
        enable_rpm_ostreed(host)?;
        apply(host, &Config::named("between").kernel_argument("between"), "--locked")?;
        let seen = host.run_ok(&format!("busctl call {RPM} {RPM_PATH} {RPM}.Sysroot Reload && busctl get-property {RPM} {RPM_PATH} {RPM}.Sysroot Deployments"))?;
        ensure!(seen.contains("\"staged\" b true"), "{seen}");
        ensure!(
            status(host)?["pending"]["rpmOstreeTransactions"] == 0,
            "rpm-ostreed was asked for a change without an image"
        );
        update(host, &Config::named("two").kernel_argument("flameholder-test=two"))?;
        assert_eq!(commit(host)?, before);
        ensure_readers_saw(host, "two")?;
        roll_back(host, "one")?;
        ensure_readers_saw(host, "one")
    })
}

//! Updates as they should be.

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
        ensure!(transactions == 1, "rpm-ostreed was asked {transactions} times");
        // What others write between staging and power-off is in the new generation. The registry is down.
        host.run_ok(
            "echo late > /etc/late && mkdir -p /etc/os && echo local > /etc/os/changed-in-both && cp -a /etc /var/etc-before",
        )?;
        run_until_rebooted(host, Change::Image.command())?;
        ensure_current(host, "two")?;
        ensure_readers_saw(host, "two")?;
        assert_eq!(host.run_ok("cat /usr/lib/os-version /etc/late /run/ours.service.ran")?, "2\nlate\ntwo\n");
        assert_eq!(host.run_ok("cat /etc/os/changed /etc/os/changed-in-both")?, "version 2\nlocal\n");
        assert!(host.run_ok("cat /proc/cmdline")?.contains("flameholder-test=two"));
        assert_eq!(host.run_ok(&format!("cat {KEY}"))?.trim(), "ssh-ed25519 AAAA two");
        ensure_old_etc_unchanged(host)?;

        // Written by others, after the switch: it does not go back in time.
        host.run_ok("echo pod > /etc/kubernetes/manifests/etcd.yaml && echo rotated > /etc/host_key")?;
        roll_back(host, "one")?;
        ensure_readers_saw(host, "one")?;
        let output = host.run_ok("cat /var/tmp/output")?;
        for path in ["/etc/host_key", "/etc/kubernetes/manifests/etcd.yaml"] {
            ensure!(output.contains(&format!("\n  {path}\n")), "{path} does not go back: {output}");
        }
        ensure!(!output.contains("/etc/os/changed\n"), "the image's own goes back: {output}");
        assert_eq!(
            host.run_ok("cat /usr/lib/os-version /etc/kubernetes/manifests/etcd.yaml /etc/host_key")?,
            "1\npod\nrotated\n"
        );
        assert!(!host.run_ok("cat /proc/cmdline")?.contains("flameholder-test=two"));
        assert_eq!(
            host.run_ok(&format!("cat {KEY}"))?.trim(),
            "ssh-ed25519 AAAA two",
            "keys are never older"
        );
        let blocked = status(host)?["blocked"].clone();
        ensure!(blocked["config"] == "two", "what was left is held: {blocked}");

        let refused = host.run("flameholder apply --desired /var/tmp/desired.json")?;
        ensure!(refused.code == 1 && refused.stderr.contains("flameholder retry"), "{}", refused.stderr);
        host.run_ok("flameholder retry")?;
        let again = two(host);
        update(host, &again)?;
        ensure_readers_saw(host, "two")
    })
}

/// The deployment that was left is as it was when it was left.
fn ensure_old_etc_unchanged(host: &mut Host) -> Result<()> {
    let status = status(host)?;
    let previous =
        status["deployments"].as_array().into_iter().flatten().find(|other| other["booted"] == false);
    let previous = previous.context("the old deployment is gone")?;
    let (commit, serial) = (previous["commit"].as_str().unwrap_or_default(), &previous["serial"]);
    let etc = format!("/sysroot/ostree/deploy/os/deploy/{commit}.{serial}/etc");
    let seen =
        host.run_ok(&format!("cat {etc}/witness {etc}/late && diff -r {etc} /var/etc-before | cut -d: -f2"))?;
    ensure!(seen == "onelate\n", "the old deployment's /etc holds {seen:?}");
    Ok(())
}

#[test]
fn update_without_image_deploys_same_commit() -> Result<()> {
    scenario(running_one()?, |host| {
        let commit = |host: &mut Host| -> Result<String> {
            Ok(vm::operator::booted(&status(host)?)?["commit"].to_string())
        };
        let before = commit(host)?;
        // rpm-ostreed is not asked, and sees it.
        enable_rpm_ostreed(host)?;
        apply(host, &Config::named("between").kernel_argument("between"), "--reboot never")?;
        let seen = host.run_ok(&format!("busctl call {RPM} {RPM_PATH} {RPM}.Sysroot Reload && busctl get-property {RPM} {RPM_PATH} {RPM}.Sysroot Deployments"))?;
        ensure!(seen.contains("\"staged\" b true"), "{seen}");
        ensure!(status(host)?["pending"]["rpmOstreeTransactions"] == 0, "it was asked");
        update(host, &Config::named("two").kernel_argument("flameholder-test=two"))?;
        assert_eq!(commit(host)?, before);
        ensure_readers_saw(host, "two")?;
        roll_back(host, "one")?;
        ensure_readers_saw(host, "one")
    })
}

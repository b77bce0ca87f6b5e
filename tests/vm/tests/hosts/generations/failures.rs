//! Failures during an update, and foreign deployments.

use anyhow::{Result, ensure};
use vm::config::Config;
use vm::operator::{
    allow_rollback, apply, booted, ensure_current, ensure_readers_saw, run_until_rebooted, status, update,
};
use vm::{Host, HostOrigin, scenario};

use crate::prepared::{running_one, running_two};

/// Restore the unit's own command, without our drop-in, and unlock the staged deployment: it boots without
/// its config.
const BYPASS: &str = "mkdir -p /run/systemd/system/ostree-finalize-staged.service.d && printf '[Service]\\nExecStop=\\nExecStop=/usr/bin/ostree admin finalize-staged\\n' > /run/systemd/system/ostree-finalize-staged.service.d/99-bypass.conf && systemctl daemon-reload && rm /run/ostree/staged-deployment-locked";

fn kubelet_starts(host: &mut Host) -> Result<usize> {
    Ok(host.run_ok("wc -l < /var/log/kubelet-stand-in")?.trim().parse()?)
}

#[test]
fn generation_booted_without_config_gets_it_before_workload() -> Result<()> {
    scenario(running_one()?, |host| {
        let starts = kubelet_starts(host)?;
        apply(host, &Config::named("two").kernel_argument("flameholder-test=two"), "--locked")?;
        host.run_ok(BYPASS)?;
        let before = host.boot_id()?;
        host.spawn("systemctl reboot")?;
        host.wait_for_console("the configuration is now written", std::time::Duration::from_secs(600))?;
        host.wait_for_boot(&before, std::time::Duration::from_secs(600))?;
        ensure_current(host, "two")?;
        ensure_readers_saw(host, "two")?;
        ensure!(kubelet_starts(host)? == starts + 1, "the workload ran in the boot without the config");
        Ok(())
    })
}

#[test]
fn failed_finalization_boots_old_generation_and_is_staged_again() -> Result<()> {
    scenario(running_one()?, |host| {
        let second = Config::named("two");
        apply(host, &second, "--locked")?;
        // Break the worker, so that finalization fails at shutdown.
        host.run_ok("mount --bind /dev/null /usr/libexec/flameholder/flameholder-ostree && rm /run/ostree/staged-deployment-locked")?;
        host.allow_error("flameholder-ostree");
        host.allow_error("finalizeFailed: ");
        host.reboot()?;
        ensure_readers_saw(host, "one")?;
        let status = status(host)?;
        ensure!(booted(&status)?["generation"]["config"] == "one", "{status:#}");
        let pending = &status["pending"];
        ensure!(pending["config"] == "two" && pending["unlocked"] == false, "{status:#}");
        ensure!(pending["failure"]["kind"] == "config-not-written", "{status:#}");
        update(host, &second)?;
        ensure_readers_saw(host, "two")
    })
}

#[test]
fn boot_menu_rollback_carries_run_time_files_forward() -> Result<()> {
    scenario(running_two()?, |host| {
        host.run_ok("echo pod > /etc/kubernetes/manifests/etcd.yaml && ostree admin set-default 1")?;
        host.reboot()?;
        ensure_readers_saw(host, "one")?;
        // The keys are newer than those of `one`: `verify` reports that and succeeds.
        let verified = host.run("flameholder verify")?;
        ensure!(verified.code == 0 && verified.stdout.contains("authorized_keys"), "{}", verified.stdout);
        assert_eq!(host.run_ok("cat /etc/kubernetes/manifests/etcd.yaml")?, "pod\n");
        let keys = host.run_ok("cat /var/home/core/.ssh/authorized_keys.d/ignition")?;
        assert_eq!(keys.trim(), "ssh-ed25519 AAAA two", "a rollback keeps the newer keys");
        let blocked = status(host)?["blocked"].clone();
        ensure!(blocked["config"] == "two", "the config that was rolled back is not blocked: {blocked}");
        allow_rollback(host);
        Ok(())
    })
}

#[test]
fn apply_is_refused_until_foreign_staged_deployment_boots() -> Result<()> {
    scenario(running_one()?, |host| {
        host.run_ok("ostree admin deploy --stage $(ostree admin status | sed -n 's/^\\* [^ ]* \\([0-9a-f]*\\).*/\\1/p')")?;
        let config = Config::named("two");
        host.write("/var/tmp/desired.json", config.render())?;
        let refused = host.run("flameholder apply --desired /var/tmp/desired.json --locked")?;
        ensure!(refused.code == 1 && refused.stderr.contains("is staged already"), "{}", refused.stderr);
        host.reboot()?;
        ensure_readers_saw(host, "one")?;
        let status = status(host)?;
        ensure!(booted(&status)?["generation"]["recordMatches"] == false, "{status:#}");
        run_until_rebooted(host, "flameholder apply --desired /var/tmp/desired.json --reboot auto")?;
        ensure_current(host, "two")?;
        ensure_readers_saw(host, "two")
    })
}

#[test]
fn full_disk_refuses_update_before_staging() -> Result<()> {
    scenario(HostOrigin::Fresh, |host| {
        host.registry().start()?;
        let image = host.image(2)?;
        host.write("/var/tmp/desired.json", Config::named("two").image(&image).render())?;
        let boot = host.boot_id()?;
        for (place, name) in [("/var/tmp", "file system of /var"), ("/boot", "file system of /boot")] {
            host.run_ok(&format!(
                "fallocate -l $(($(stat -f -c '%a*%S' {place}) - 1048576)) {place}/filler"
            ))?;
            let refused = host.run("flameholder apply --desired /var/tmp/desired.json --reboot auto")?;
            host.run_ok(&format!("rm {place}/filler"))?;
            ensure!(refused.code == 1 && refused.stderr.contains(name), "{place}: {}", refused.stderr);
            ensure!(status(host)?["pending"].is_null(), "{place}: a deployment is staged");
            ensure!(host.boot_id()? == boot, "{place}: the host was rebooted");
        }
        // An update also succeeds with a clock near the epoch.
        host.run_ok("date --set=@1000")?;
        run_until_rebooted(host, "flameholder apply --desired /var/tmp/desired.json --reboot auto")?;
        ensure_current(host, "two")?;
        ensure_readers_saw(host, "two")
    })
}

#[test]
fn unmounted_state_directory_keeps_only_an_unconfirmed_generation_from_serving() -> Result<()> {
    scenario(running_one()?, |host| {
        let starts = kubelet_starts(host)?;
        // Mount the agent's state directory from a device that never appears.
        host.run_ok("echo '/dev/disk/by-label/missing /var/lib/flameholder ext4 nofail,x-systemd.device-timeout=5s 0 0' >> /etc/fstab")?;
        host.allow_failed_unit("var-lib-flameholder.mount");
        host.reboot()?;
        ensure!(kubelet_starts(host)? == starts + 1, "a confirmed generation does not serve");
        host.run_ok("echo '{}' > /etc/flameholder/unconfirmed")?;
        host.reboot()?;
        ensure!(kubelet_starts(host)? == starts + 1, "the workload started without its configuration");
        ensure!(
            host.run("systemctl is-active kubelet.service")?.stdout.trim() == "inactive",
            "the kubelet runs"
        );
        host.run_ok("sed -i '/missing/d' /etc/fstab")?;
        host.reboot()?;
        ensure!(kubelet_starts(host)? == starts + 2, "the workload did not start");
        ensure_readers_saw(host, "one")
    })
}

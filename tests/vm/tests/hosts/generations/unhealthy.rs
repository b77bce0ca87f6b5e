//! Generations that fail their boot check: automatic rollback, reason, and a blocked target until
//! `flameholder retry`.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use vm::operator::{
    allow_rollback, booted, ensure_current, ensure_readers_saw, generation_argument, run_until_rebooted,
    status, wait_for_journal,
};
use vm::{Host, scenario};

use crate::change::REBOOT;
use crate::prepared::{faulty, running_one, staged_faulty};

/// Time limit of a boot with a boot check of two minutes, an orderly shutdown and another boot, emulated on a
/// busy machine.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(900);

/// Boot the faulty generation, and check its automatic rollback and that it stays blocked. `expected` is part
/// of the reported reason.
fn ensure_rolled_back_and_blocked(fault: &str, expected: &str) -> Result<()> {
    scenario(staged_faulty()?, |host| {
        ensure_rolled_back(host, fault, expected)?;
        let refused = host.run("flameholder apply --desired /var/tmp/desired.json --reboot auto")?;
        ensure!(refused.code == 1 && refused.stderr.contains("flameholder retry"), "{}", refused.stderr);
        Ok(())
    })
}

fn ensure_rolled_back(host: &mut Host, fault: &str, expected: &str) -> Result<()> {
    host.run_ok(&format!("echo {fault} > /var/fault && sync"))?;
    let old = generation_argument(host)?;
    let (before, begun) = (host.boot_id()?, Instant::now());
    host.spawn("flameholder apply --desired /var/tmp/desired.json --reboot auto")?;
    host.wait_for_console("reboot: Restarting system", REBOOT)?;
    host.wait_for_boot_with(&old, ROLLBACK_TIMEOUT)?;
    ensure!(host.boot_id()? != before, "the host did not reboot");
    eprintln!("{fault}: rolled back after {:.0} s", begun.elapsed().as_secs_f64());
    ensure_current(host, "one")?;
    ensure_readers_saw(host, "one")?;
    let blocked = status(host)?["blocked"].clone();
    let reason = blocked["reason"].as_str().unwrap_or_default();
    ensure!(
        blocked["config"] == "faulty" && blocked["attempts"] == 1 && reason.contains(expected),
        "{blocked}"
    );
    for path in ["/run/motd.d/60-flameholder.motd", "/run/issue.d/60-flameholder.issue"] {
        let notice = host.run_ok(&format!("cat {path}"))?;
        ensure!(notice.contains("faulty is blocked") && notice.contains(expected), "{path}: {notice}");
    }
    // A reset leaves the journal no time to store the line, and perhaps a file that journalctl cannot search.
    if fault != "reset" {
        wait_for_journal(host, "--unit='flameholder*'", "is rolled back and blocked")?;
    }
    allow_rollback(host);
    // Of systemd, about a health check that failed or hangs.
    host.allow_error("Failed to start flameholder-check-");
    Ok(())
}

#[test]
fn failed_required_unit_rolls_back_until_retry() -> Result<()> {
    scenario(staged_faulty()?, |host| {
        ensure_rolled_back(host, "unit", "unit needed.service: failed")?;
        host.run_ok("rm /var/fault && flameholder retry")?;
        host.registry().start()?;
        run_until_rebooted(host, "flameholder apply --desired /var/tmp/desired.json --reboot auto")?;
        ensure_current(host, "faulty")?;
        ensure_readers_saw(host, "faulty")?;
        let status = status(host)?;
        ensure!(status["blocked"].is_null() && status["bootCheck"]["phase"] == "healthy", "{status:#}");
        ensure!(booted(&status)?["version"] == "3", "{status:#}");
        Ok(())
    })
}

#[test]
#[ignore = "exhaustive: the rollback is the same as for other failures"]
fn lost_network_rolls_back() -> Result<()> {
    ensure_rolled_back_and_blocked("network", "network: no interface is up")
}

#[test]
#[ignore = "exhaustive: the rollback is the same as for other failures, and tests without a boot cover the timeout"]
fn hanging_health_check_rolls_back() -> Result<()> {
    ensure_rolled_back_and_blocked("hang", "check 10-hang: timed out after")
}

#[test]
#[ignore = "exhaustive: the rollback is the same as for other failures, and tests without a boot cover drift"]
fn lost_usr_local_rolls_back() -> Result<()> {
    ensure_rolled_back_and_blocked("usr-local", "/usr/local/bin/program")
}

#[test]
fn reset_in_every_boot_rolls_back() -> Result<()> {
    ensure_rolled_back_and_blocked("reset", "it was booted 2 times")
}

#[test]
fn var_that_does_not_mount_rolls_back() -> Result<()> {
    scenario(running_one()?, |host| {
        let fstab = host.run_ok("cat /etc/fstab")?;
        let missing =
            "/dev/disk/by-label/missing /var/lib/flameholder ext4 defaults,x-systemd.device-timeout=5s 0 0\n";
        let config = faulty(host).file("/etc/fstab", &format!("{fstab}{missing}"));
        host.write("/var/tmp/desired.json", config.render())?;
        host.registry().start()?;
        let old = generation_argument(host)?;
        host.spawn("flameholder apply --desired /var/tmp/desired.json --reboot auto")?;
        host.wait_for_console("reboot: Restarting system", REBOOT)?;
        // Without the mount, local-fs.target fails, and the host ends in the emergency shell.
        host.allow_error("You are in emergency mode");
        host.wait_for_boot_with(&old, ROLLBACK_TIMEOUT)?;
        ensure_current(host, "one")?;
        ensure_readers_saw(host, "one")?;
        let blocked = status(host)?["blocked"].clone();
        ensure!(blocked["config"] == "faulty", "{blocked}");
        allow_rollback(host);
        host.allow_error("var-lib-flameholder.mount");
        host.allow_error("missing");
        Ok(())
    })
}

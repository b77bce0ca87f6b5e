//! The daemon as a systemd unit, and the handover of a host between it and the MCD.

use std::time::Duration;

use anyhow::Result;
use vm::operator::{ensure_current, wait_for_journal};
use vm::{Host, scenario, until};

use crate::change::REBOOT;
use crate::prepared::{running_one, three};

const SOURCE: &str = "dir:/var/lib/desired.json";
/// Time limit for the daemon to reach a phase: `Verifying` reads all managed files, emulated.
const PHASE_TIMEOUT: Duration = Duration::from_secs(180);

/// Return a property of the daemon's unit.
fn unit_property(host: &mut Host, property: &str) -> Result<String> {
    let value =
        host.run_ok(&format!("systemctl show --value --property={property} flameholder-daemon.service"))?;
    Ok(value.trim().to_owned())
}

/// Wait until the daemon reports this status to systemd.
pub(crate) fn wait_for_status(host: &mut Host, text: &str) -> Result<()> {
    until(&format!("the daemon to report `{text}`"), PHASE_TIMEOUT, || {
        let status = unit_property(host, "StatusText")?;
        Ok(status.starts_with(&format!("{text} (since ")).then_some(()))
    })
}

/// Start the daemon with this desired config.
pub(crate) fn order(host: &mut Host, desired: &str) -> Result<()> {
    host.write("/var/lib/desired.json", desired)?;
    host.write("/etc/flameholder/daemon.env", format!("FLAMEHOLDER_SOURCE={SOURCE}\n"))?;
    // It may reboot the host before systemd has answered.
    host.spawn("systemctl start flameholder-daemon.service").map(drop)
}

#[test]
fn daemon_applies_desired_config_and_hands_host_over() -> Result<()> {
    scenario(running_one()?, |host| {
        // The daemon reboots the host by itself to apply the desired config.
        let before = host.boot_id()?;
        order(host, &three().render())?;
        host.wait_for_boot(&before, REBOOT)?;
        ensure_current(host, "three")?;
        wait_for_status(host, "Done three")?;
        ensure_phase_is_logged(host)?;
        ensure_restart_after_kill(host)?;
        // The daemon ends on SIGTERM, without being killed.
        host.run_ok("systemctl stop flameholder-daemon.service")?;
        assert_eq!(unit_property(host, "Result")?, "success");
        hand_over(host)
    })
}

fn ensure_phase_is_logged(host: &mut Host) -> Result<()> {
    let fields =
        "--boot --unit=flameholder-daemon.service --output=json --output-fields=MESSAGE,MESSAGE_ID,PRIORITY";
    let done = wait_for_journal(host, fields, "\"Done three (")?;
    assert!(done.contains("MESSAGE_ID") && done.contains("\"PRIORITY\":\"5\""), "{done}");
    Ok(())
}

fn ensure_restart_after_kill(host: &mut Host) -> Result<()> {
    let pid = unit_property(host, "MainPID")?;
    host.run_ok(&format!("kill -KILL {pid}"))?;
    until("systemd to start it again", PHASE_TIMEOUT, || {
        let now = unit_property(host, "MainPID")?;
        Ok((now != pid && now != "0").then_some(()))
    })?;
    wait_for_status(host, "Done three")?;
    assert_eq!(unit_property(host, "NRestarts")?, "1");
    Ok(())
}

/// Release the host to the MCD, and adopt it again as a pod does: with executables in `/run`, by systemd-run.
fn hand_over(host: &mut Host) -> Result<()> {
    let released = host.run_ok("flameholder release 2>&1")?;
    assert!(released.contains("three is managed by the machine-config-daemon again"), "{released}");
    assert_ne!(host.run("test -e /etc/flameholder/generation")?.code, 0);
    assert_ne!(host.run("test -e /etc/flameholder/daemon.env")?.code, 0);
    host.run_ok(
        "install -D -m 0755 /usr/bin/flameholder /run/flameholder/pod/flameholder && \
         install -D -m 0755 /usr/libexec/flameholder/flameholder-ostree /run/flameholder/pod/flameholder-ostree",
    )?;
    // A cluster's image has no agent: one of the same version would be used in place of the copy.
    host.run_ok("mount --bind /dev/null /usr/bin/flameholder")?;
    let adopt = format!(
        "systemd-run --pipe --wait --collect --quiet --unit=flameholder-adopt /bin/sh -c \
         'exec \"$0/flameholder\" adopt \"$@\"' /run/flameholder/pod --source {SOURCE} 2>&1"
    );
    let adopted = host.run_ok(&adopt)?;
    assert!(adopted.contains("adopted the current config three as generation "), "{adopted}");
    ensure_current(host, "three")?;
    wait_for_status(host, "Done three")?;
    assert_eq!(unit_property(host, "FragmentPath")?, "/etc/systemd/system/flameholder-daemon.service");
    let command = host.run_ok("readlink /usr/local/bin/flameholder")?;
    assert!(command.starts_with("../libexec/flameholder/"), "{command}");
    let executable =
        host.run_ok("readlink /proc/$(systemctl show --value --property=MainPID flameholder-daemon)/exe")?;
    assert!(executable.contains("/usrlocal/libexec/flameholder/"), "{executable}");
    // A second start of the pod does not restart the daemon.
    let pid = unit_property(host, "MainPID")?;
    let again = host.run_ok(&adopt)?;
    assert!(again.contains("three is managed by flameholder already"), "{again}");
    assert_eq!(unit_property(host, "MainPID")?, pid);
    Ok(())
}

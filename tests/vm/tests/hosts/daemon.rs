//! The daemon as a unit of a real systemd, and a host that changes hands with it.

use std::time::Duration;

use anyhow::Result;
use vm::operator::settled;
use vm::{Host, scenario, until};

use crate::change::REBOOT;
use crate::prepared::{running_one, three};

const SOURCE: &str = "dir:/var/lib/desired.json";
/// From one phase to the last: what is verified is read by an emulated machine.
const PHASES: Duration = Duration::from_secs(180);

/// A property of the daemon's unit.
fn shows(host: &mut Host, property: &str) -> Result<String> {
    let value =
        host.run_ok(&format!("systemctl show --value --property={property} flameholder-daemon.service"))?;
    Ok(value.trim().to_owned())
}

/// Waits until it tells systemd that.
fn until_told(host: &mut Host, text: &str) -> Result<()> {
    until(&format!("the daemon to say `{text}`"), PHASES, || {
        Ok((shows(host, "StatusText")? == text).then_some(()))
    })
}

#[test]
fn the_daemon_and_a_handover() -> Result<()> {
    scenario(running_one()?, |host| {
        // What it follows decides: a reboot that nobody here asks for.
        host.write("/var/lib/desired.json", three().render())?;
        host.write("/etc/flameholder/daemon.env", format!("FLAMEHOLDER_SOURCE={SOURCE}\n"))?;
        let before = host.boot_id()?;
        host.spawn("systemctl start flameholder-daemon.service")?;
        host.wait_for_boot(&before, REBOOT)?;
        settled(host, "three")?;
        until_told(host, "Done three")?;
        is_told_to_the_journal(host)?;
        outlives_a_kill(host)?;
        // It ends when it is asked to, by itself.
        host.run_ok("systemctl stop flameholder-daemon.service")?;
        assert_eq!(shows(host, "Result")?, "success");
        changes_hands(host)
    })
}

fn is_told_to_the_journal(host: &mut Host) -> Result<()> {
    let fields = host.run_ok(
        "journalctl --boot --unit=flameholder-daemon.service --output=json --output-fields=MESSAGE,MESSAGE_ID,PRIORITY",
    )?;
    let done = fields.lines().find(|line| line.contains("\"Done three\"")).expect("it says so");
    assert!(done.contains("MESSAGE_ID") && done.contains("\"PRIORITY\":\"5\""), "{done}");
    Ok(())
}

fn outlives_a_kill(host: &mut Host) -> Result<()> {
    let pid = shows(host, "MainPID")?;
    host.run_ok(&format!("kill -KILL {pid}"))?;
    until("systemd to start it again", PHASES, || {
        let now = shows(host, "MainPID")?;
        Ok((now != pid && now != "0").then_some(()))
    })?;
    until_told(host, "Done three")?;
    assert_eq!(shows(host, "NRestarts")?, "1");
    Ok(())
}

/// Given back, and taken over again as a pod does it: with executables that lie in `/run`, by systemd-run.
fn changes_hands(host: &mut Host) -> Result<()> {
    let released = host.run_ok("flameholder release 2>&1")?;
    assert!(released.contains("three is managed by the machine-config-daemon again"), "{released}");
    assert_ne!(host.run("test -e /etc/flameholder/generation")?.code, 0);
    assert_ne!(host.run("test -e /etc/flameholder/daemon.env")?.code, 0);
    host.run_ok(
        "install -D -m 0755 /usr/bin/flameholder /run/flameholder/pod/flameholder && \
         install -D -m 0755 /usr/libexec/flameholder/flameholder-ostree /run/flameholder/pod/flameholder-ostree",
    )?;
    let adopt = format!(
        "systemd-run --pipe --wait --collect --quiet --unit=flameholder-adopt /bin/sh -c \
         'exec \"$0/flameholder\" adopt \"$@\"' /run/flameholder/pod --source {SOURCE} 2>&1"
    );
    let adopted = host.run_ok(&adopt)?;
    assert!(adopted.contains("adopted the current config three as generation "), "{adopted}");
    settled(host, "three")?;
    until_told(host, "Done three")?;
    assert_eq!(shows(host, "FragmentPath")?, "/etc/systemd/system/flameholder-daemon.service");
    let command = host.run_ok("readlink /usr/local/bin/flameholder")?;
    assert!(command.starts_with("../libexec/flameholder/"), "{command}");
    let runs =
        host.run_ok("readlink /proc/$(systemctl show --value --property=MainPID flameholder-daemon)/exe")?;
    assert!(runs.contains("/usrlocal/libexec/flameholder/"), "{runs}");
    // A pod that is started anew disturbs nobody.
    let pid = shows(host, "MainPID")?;
    let again = host.run_ok(&adopt)?;
    assert!(again.contains("three is managed by flameholder already"), "{again}");
    assert_eq!(shows(host, "MainPID")?, pid);
    Ok(())
}

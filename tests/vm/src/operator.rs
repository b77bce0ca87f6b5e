//! What an operator does on the guest, and what they look at.
#![allow(clippy::indexing_slicing, reason = "of a JSON value it gives null where nothing is")]

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::config::Config;
use crate::host::Host;

/// From the call to the host being up again: an import, a shutdown and a boot, emulated.
const UPDATE: Duration = Duration::from_secs(900);

/// Applies a configuration, with whatever follows `apply --desired FILE`.
pub fn apply(host: &mut Host, config: &Config, arguments: &str) -> Result<String> {
    host.write("/var/tmp/desired.json", config.render())?;
    host.run_ok(&format!("flameholder apply --desired /var/tmp/desired.json {arguments} 2>&1"))
}

/// Applies a configuration that needs a reboot, and returns when the host is up again.
pub fn update(host: &mut Host, config: &Config) -> Result<()> {
    host.write("/var/tmp/desired.json", config.render())?;
    run_until_rebooted(host, "flameholder apply --desired /var/tmp/desired.json")?;
    ensure_current(host, config.name())
}

/// Runs a command that reboots the host, and returns when it is up again.
pub fn run_until_rebooted(host: &mut Host, command: &str) -> Result<()> {
    let before = host.boot_id()?;
    // Nobody waits for its end: the host may be gone by then.
    host.spawn(&format!("{command} > /var/tmp/output 2>&1"))?;
    let booted = host.wait_for_boot(&before, UPDATE);
    let output = |host: &mut Host| host.run_ok("cat /var/tmp/output").unwrap_or_default();
    booted.map_err(|error| error.context(format!("`{command}` printed: {}", output(host))))
}

/// Goes back, and returns when the host is up again.
pub fn roll_back(host: &mut Host, to: &str) -> Result<()> {
    run_until_rebooted(host, "flameholder rollback")?;
    ensure_current(host, to)
}

/// The generation of this configuration runs, is whole, and nothing is left open.
pub fn ensure_current(host: &mut Host, config: &str) -> Result<()> {
    let status = status(host)?;
    ensure!(status["pending"].is_null() && status["transaction"].is_null(), "not settled: {status:#}");
    let booted = booted(&status)?;
    ensure!(booted["next"] == true, "another deployment boots next: {status:#}");
    ensure!(booted["generation"]["config"] == config, "{config} does not run: {status:#}");
    ensure!(booted["generation"]["recordMatches"] == true, "the record is another's: {status:#}");
    let name = booted["generation"]["generation"].as_str().unwrap_or_default();
    let line = host.run_ok("cat /proc/cmdline")?;
    ensure!(line.contains(&format!("flameholder.generation={name}")), "{name} is not in {line}");
    host.run_ok("flameholder verify")?;
    Ok(())
}

/// `status -o json`.
pub fn status(host: &mut Host) -> Result<Value> {
    let text = host.run_ok("flameholder status -o json")?;
    serde_json::from_str(&text).with_context(|| format!("reading {text}"))
}

/// What has the message bus start the stand-in for rpm-ostreed: a path, and what is there.
pub const RPM_OSTREED: (&str, &str) = (
    "/usr/local/share/dbus-1/system-services/org.projectatomic.rpmostree1.service",
    "[D-BUS Service]\nName=org.projectatomic.rpmostree1\nExec=/bin/false\nUser=root\nSystemdService=rpm-ostreed.service\n",
);

/// From now on images and packages are rpm-ostreed's, as on CoreOS.
pub fn enable_rpm_ostreed(host: &mut Host) -> Result<()> {
    let (path, text) = RPM_OSTREED;
    let directory = path.rsplit_once('/').map_or("/", |(directory, _)| directory);
    host.run_ok(&format!("mkdir -p {directory}"))?;
    host.write(path, text)?;
    host.run_ok("systemctl reload dbus.service && sync")?;
    Ok(())
}

/// The deployment that runs.
pub fn booted(status: &Value) -> Result<&Value> {
    let deployments = status["deployments"].as_array().context("no deployments")?;
    deployments.iter().find(|deployment| deployment["booted"] == true).context("none runs")
}

/// Every reader of this boot saw this generation, and no other.
pub fn ensure_readers_saw(host: &mut Host, expected: &str) -> Result<()> {
    let boot = host.boot_id()?;
    for (moment, witness) in host.witnesses()? {
        ensure!(witness.boot == boot, "{moment} is of another boot");
        for (path, seen) in &witness.seen {
            // Nothing of /var is mounted for generators.
            let is_hidden = moment == "generator" && path != "/etc/witness";
            let wanted = (!is_hidden).then_some(expected);
            ensure!(seen.as_deref() == wanted, "{moment} saw {seen:?} in {path}");
        }
    }
    let kubelet = host.run_ok("tail -n 1 /var/log/kubelet-stand-in")?;
    ensure!(kubelet.contains(&boot), "the kubelet was not started in this boot: {kubelet}");
    ensure!(kubelet.contains(&format!("/etc/witness={expected}")), "{kubelet}");
    Ok(())
}

//! First boots of nodes that join a cluster.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use vm::config::data_url;
use vm::operator::RPM_OSTREED;
use vm::{Host, HostOrigin, Lab, scenario};

use super::node::{desired, ensure_complete, ignition_config};
use crate::change::REBOOT;

/// Time limit for Ignition and the first boot up to the reboot or the last unit, emulated on a busy machine.
const FIRST_BOOT_TIMEOUT: Duration = Duration::from_secs(900);
/// htpasswd file with the login of the pull secret: bcrypt of `right`.
const NODE_LOGIN: &str = "node:$2b$05$a39gS2vGvfBQ68x/Zx3rpOHQQvCFNs01dDwbkD9gAN/3xJvg.3Ro6\n";
const FOREIGN_LOGIN: &str = "someone:$2b$05$a39gS2vGvfBQ68x/Zx3rpOHQQvCFNs01dDwbkD9gAN/3xJvg.3Ro6\n";
/// Pull secret with the login `node:right`.
const PULL_SECRET: &str = r#"{"auths": {"10.0.2.100:5000": {"auth": "bm9kZTpyaWdodA=="}}}"#;

fn image(version: u32) -> Result<String> {
    Lab::locate()?.image(version)
}

/// Return a machine that Ignition provisions with this rendered config.
fn unprovisioned(object: &serde_json::Value) -> Result<HostOrigin> {
    // The machine has rpm-ostreed's stand-in, as CoreOS has rpm-ostreed.
    let mut config: serde_json::Value = serde_json::from_str(&ignition_config(object)?)?;
    let (path, text) = RPM_OSTREED;
    let file = serde_json::json!({"path": path, "mode": 0o644, "contents": {"source": data_url(text)}});
    config["storage"]["files"].as_array_mut().context("the Ignition config has no files")?.push(file);
    Ok(HostOrigin::Unprovisioned(config.to_string()))
}

#[test]
fn first_boot_replaces_image_with_one_reboot_once_registry_answers() -> Result<()> {
    let object = desired(&image(2)?, PULL_SECRET)?;
    scenario(unprovisioned(&object)?, |host| {
        // The registry is down at first, then denies access, then accepts the login.
        host.wait_for_console("the first boot waits for the network", FIRST_BOOT_TIMEOUT)?;
        let before = host.boot_id()?;
        host.registry().start_for(FOREIGN_LOGIN)?;
        host.wait_for_console("the registry denies access; check the pull secret", FIRST_BOOT_TIMEOUT)?;
        host.registry().start_for(NODE_LOGIN)?;
        host.wait_for_console(
            "rebooting: the first boot continues in the deployment of",
            FIRST_BOOT_TIMEOUT,
        )?;
        host.wait_for_boot(&before, REBOOT)?;
        host.registry().stop();
        ensure_complete(host, object["metadata"]["name"].as_str().unwrap_or_default(), 2)?;
        // The reboot stops the unit and the workload that waits for it, which systemd logs as an error.
        host.allow_error("flameholder-firstboot.service");
        let line = host.run_ok("cat /proc/cmdline")?;
        ensure!(!line.contains("ignition.firstboot"), "{line}");
        ensure_second_run_changes_nothing(host)
    })
}

/// Run the first boot again, and check that it changes nothing.
fn ensure_second_run_changes_nothing(host: &mut Host) -> Result<()> {
    let before = host.state_hash()?;
    host.run_ok("systemctl restart flameholder-firstboot.service")?;
    ensure!(host.state_hash()? == before, "a second run changed the state");
    let output = host.run_ok("flameholder firstboot")?;
    ensure!(output.contains("no first boot to complete"), "{output}");
    Ok(())
}

#[test]
fn first_boot_without_changes_starts_workload_without_reboot() -> Result<()> {
    let mut object = desired(&image(4)?, PULL_SECRET)?;
    object["spec"]["kernelArguments"] = serde_json::json!(["quiet"]);
    // Ignition enables units by presets, which systemd does not apply on a machine with an empty machine ID.
    object["spec"]["config"]["systemd"]["units"] = serde_json::json!([]);
    let config = ignition_config(&object)?.replace("data:,draft", "data:,final");
    scenario(HostOrigin::Unprovisioned(config), |host| {
        host.wait_for_console("the first boot is complete", FIRST_BOOT_TIMEOUT)?;
        host.wait_for_boot_with("ignition.firstboot", FIRST_BOOT_TIMEOUT)?;
        ensure_complete(host, object["metadata"]["name"].as_str().unwrap_or_default(), 4)?;
        ensure_second_run_changes_nothing(host)
    })
}

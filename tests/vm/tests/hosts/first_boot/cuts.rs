//! Power cuts during a first boot: the disk boots the installed system or the complete desired config.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vm::config::Config;
use vm::writelog::{BootedSystem, Side};
use vm::{HostOrigin, Lab, scenario};

use super::node::{ensure_complete, ignition_config};
use crate::cuts::expected::Expected;
use crate::cuts::judge::{DiskJudge, Generation, record_mismatches};
use crate::cuts::orders::{is_exhaustive, memory, seed};
use crate::cuts::sweep::Sweep;

/// Time limit of a complete first boot: Ignition, an import, a reboot and a boot.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(1500);
/// Minimum number of power cuts.
const MIN_CUTS: usize = 10;

/// Judge of the disks of a machine in its first boot.
#[derive(Debug)]
struct FirstBootJudge {
    desired: Generation,
    is_complete: bool,
}

impl DiskJudge for FirstBootJudge {
    fn side(&mut self, booted: &BootedSystem) -> Result<Side> {
        let (deployment, desired) = (&booted.deployment, &self.desired);
        let version = deployment.text("usr/lib/os-version")?.unwrap_or_default();
        let Some(id) = booted.entry.argument("flameholder.generation") else {
            ensure!(version.trim() == "4", "version {version} boots without a generation");
            ensure!(!deployment.has("etc/flameholder/generation")?, "the installed deployment has a record");
            return Ok(Side::Old);
        };
        let desired = Generation { id: id.to_owned(), ..desired.clone() };
        let absent = Expected::new(&Config::named("absent"), 4);
        let mut found = desired.expected.differences(&absent, deployment, true);
        found.extend(desired.expected.differences(&absent, &booted.var, false));
        found.extend(desired.expected.argument_differences(&absent, &booted.entry));
        found.extend(record_mismatches(&desired, deployment)?);
        ensure!(version.trim() == "2", "the desired config is on OS version {version}");
        ensure!(found.is_empty(), "a mixture: {}", found.join("; "));
        let seed = "etc/ignition-machine-config-encapsulated.json";
        let (is_open, is_complete) = (deployment.has(seed)?, deployment.has(&format!("{seed}.bak"))?);
        ensure!(
            is_open != is_complete,
            "expected either the encapsulated config or its .bak file: {is_open}, {is_complete}"
        );
        self.is_complete = is_complete && !booted.var.has("lib/flameholder/pending")?;
        Ok(Side::New)
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }
}

#[test]
fn first_boot_completes_after_power_cut_at_any_step() -> Result<()> {
    let config = Config::named("final").image(&Lab::locate()?.image(2)?).unit("ours.service");
    let config = config.kernel_argument("flameholder-test=final").file("/etc/app/a.conf", "final");
    let object: Value = serde_json::from_str(&config.render())?;
    let mut ignition: Value = serde_json::from_str(&ignition_config(&object)?)?;
    ignition["ignition"]["version"] = "3.3.0".into();
    let machine = HostOrigin::Unprovisioned(ignition.to_string());
    let desired = Generation { id: String::new(), expected: Expected::new(&config, 2) };
    let mut judge = FirstBootJudge { desired, is_complete: false };
    let memory = memory()?;
    let mut sweep = Sweep::new(&machine, memory.path(), seed()?)?;
    scenario(machine, |host| {
        host.registry().start()?;
        sweep.run(host, &mut judge, COMPLETION_TIMEOUT, |_, _| Ok(false))?;
        host.power_cut();
        Ok(())
    })?;
    eprintln!("{sweep}");
    ensure!(sweep.faults.is_empty() && sweep.cuts() >= MIN_CUTS, "{sweep}");
    let first = sweep.kept.first().context("no disk was kept")?;
    let kept: Vec<_> = if is_exhaustive() { sweep.kept.iter().collect() } else { vec![first] };
    for kept in kept {
        scenario(HostOrigin::SwitchedOff(kept.image.clone()), |host| {
            host.registry().start()?;
            host.switch_on()?;
            if kept.side == Side::Old {
                host.wait_for_console(
                    "rebooting: the first boot continues in the deployment of",
                    COMPLETION_TIMEOUT,
                )?;
            }
            host.wait_for_boot_with("flameholder-test=final", COMPLETION_TIMEOUT)?;
            host.allow_error("flameholder-firstboot.service");
            ensure_complete(host, "final", 2)
        })?;
        eprintln!("booted the disk of a cut in step {}", kept.step);
    }
    Ok(())
}

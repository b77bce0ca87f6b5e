//! The power goes while a first boot is completed: the disk boots what was installed, or all that the configuration says.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vm::config::Config;
use vm::writelog::{Booted, Side};
use vm::{Lab, Start, Warm, scenario, scenario_from};

use super::node::{ensure_complete, served};
use crate::cuts::expected::Expected;
use crate::cuts::judge::{Generation, Judging, record_deviations};
use crate::cuts::orders::{is_exhaustive, memory, seed};
use crate::cuts::sweep::Sweep;

/// Ignition, an import, a reboot and the rest.
const ALL: Duration = Duration::from_secs(1500);
/// At least so often the power goes.
const CUTS: usize = 10;

/// For disks of a machine that completes its first boot.
#[derive(Debug)]
struct FirstBoot {
    wanted: Generation,
    is_complete: bool,
}

impl Judging for FirstBoot {
    fn side(&mut self, booted: &Booted) -> Result<Side> {
        let (deployment, wanted) = (&booted.deployment, &self.wanted);
        let version = deployment.text("usr/lib/os-version")?.unwrap_or_default();
        let Some(id) = booted.choice.argument("flameholder.generation") else {
            ensure!(version.trim() == "4", "version {version} boots without a generation");
            ensure!(!deployment.has("etc/flameholder/generation")?, "what was installed has a record");
            return Ok(Side::Old);
        };
        let wanted = Generation { id: id.to_owned(), ..wanted.clone() };
        let nothing = Expected::new(&Config::named("nothing"), 4);
        let mut found = wanted.expected.differences(&nothing, deployment, true);
        found.extend(wanted.expected.differences(&nothing, &booted.var, false));
        found.extend(wanted.expected.argument_differences(&nothing, &booted.choice));
        found.extend(record_deviations(&wanted, deployment)?);
        ensure!(version.trim() == "2", "the configuration is on version {version}");
        ensure!(found.is_empty(), "a mixture: {}", found.join("; "));
        let seed = "etc/ignition-machine-config-encapsulated.json";
        let (is_open, is_complete) = (deployment.has(seed)?, deployment.has(&format!("{seed}.bak"))?);
        ensure!(is_open != is_complete, "whether it is complete is not said: {is_open}, {is_complete}");
        self.is_complete = is_complete && !booted.var.has("lib/flameholder/pending")?;
        Ok(Side::New)
    }

    fn is_settled(&self) -> bool {
        self.is_complete
    }
}

#[test]
fn a_first_boot_goes_on_wherever_it_was_cut() -> Result<()> {
    let config = Config::named("final").image(&Lab::locate()?.image(2)?).unit("ours.service");
    let config = config.kernel_argument("flameholder-test=final").file("/etc/app/a.conf", "final");
    let object: Value = serde_json::from_str(&config.render())?;
    let mut served: Value = serde_json::from_str(&served(&object)?)?;
    served["ignition"]["version"] = "3.3.0".into();
    let machine = Warm::Unprovisioned(served.to_string());
    let wanted = Generation { id: String::new(), expected: Expected::new(&config, 2) };
    let mut judge = FirstBoot { wanted, is_complete: false };
    let memory = memory()?;
    let mut sweep = Sweep::new(&machine, memory.path(), seed()?)?;
    scenario_from(Start { warm: machine, write_log: None }, |host| {
        host.registry().start()?;
        sweep.run(host, &mut judge, ALL, |_, _| Ok(false))?;
        host.power_cut();
        Ok(())
    })?;
    eprintln!("{sweep}");
    ensure!(sweep.faults.is_empty() && sweep.cuts() >= CUTS, "{sweep}");
    let first = sweep.kept.first().context("no disk was kept")?;
    let kept: Vec<_> = if is_exhaustive() { sweep.kept.iter().collect() } else { vec![first] };
    for kept in kept {
        scenario(Warm::SwitchedOff(kept.image.clone()), |host| {
            host.registry().start()?;
            host.switch_on()?;
            if kept.side == Side::Old {
                host.wait_for_console("rebooting: the first boot continues in the deployment of", ALL)?;
            }
            host.wait_for_boot_with("flameholder-test=final", ALL)?;
            host.allow_error("flameholder-firstboot.service");
            ensure_complete(host, "final", 2)
        })?;
        eprintln!("booted the disk of a cut while {}", kept.step);
    }
    Ok(())
}

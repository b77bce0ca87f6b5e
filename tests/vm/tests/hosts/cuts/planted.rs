//! A planted fault that cuts and replay have to detect: the config is written after the deployment was
//! finalized.

use anyhow::{Result, ensure};
use vm::{Start, scenario_from};

use super::judge::ChangeJudge;
use super::orders::{memory, replay_log, seed};
use super::sweep::Sweep;
use crate::change::{Change, REBOOT};
use crate::prepared::staged;

/// Drop-in that replaces our command. The new command has the same name and verb, since the agent checks the
/// unit's command before it unlocks the deployment.
const LATE_DROP_IN: &str = "[Service]
ExecStop=
ExecStop=/var/late/flameholder finalize
";

/// Replacement for `flameholder finalize`: the new boot entry exists before the new config is in `/etc`.
const LATE_CONFIG_WRITE: &str = "#!/bin/sh -e
/usr/bin/ostree admin finalize-staged
mount -o remount,rw /sysroot
cd $(ls -1tcd /sysroot/ostree/deploy/os/deploy/*/ | head -n 1)
echo -n three > etc/witness
sync
";

#[test]
fn config_written_after_finalization_is_detected() -> Result<()> {
    let change = Change::Files;
    let staged = staged(change)?;
    let seed = seed()?;
    let memory = memory()?;
    let log = memory.path().join("log");
    let start = Start { write_log: Some(log.clone()), ..staged.clone().into() };
    let mut sweep = Sweep::new(&staged, memory.path(), seed)?;
    let mut judge = None;
    scenario_from(start, |host| {
        let judge = judge.insert(ChangeJudge::of(change, host)?);
        let folder = "/run/systemd/system/ostree-finalize-staged.service.d";
        host.run_ok(&format!("mkdir -p {folder} /var/late"))?;
        host.write(&format!("{folder}/99-late.conf"), LATE_DROP_IN)?;
        host.write("/var/late/flameholder", LATE_CONFIG_WRITE)?;
        host.run_ok("chmod 755 /var/late/flameholder && systemctl daemon-reload")?;
        host.spawn(&change.command())?;
        sweep.run(host, judge, REBOOT, |_, progress| Ok(progress.step().name == "restarting"))?;
        host.power_cut();
        Ok(())
    })?;
    eprintln!("{sweep}");
    ensure!(
        sweep.faults.iter().any(|fault| fault.contains("a mixture")),
        "no power cut detects the fault: {sweep}"
    );
    let report = replay_log(memory.path(), &log, seed, &judge.expect("the scenario did not run"))?;
    eprintln!("{} of {} states are bad", report.flushed.bad + report.reordered.bad, report.states());
    let found = report.faults.iter().any(|fault| fault.reason.contains("a mixture"));
    ensure!(found, "no state of the replay detects the fault: {report}");
    Ok(())
}

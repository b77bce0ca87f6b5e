//! A scenario for kola, run as kola runs it: the script is called again after each reboot, with the mark that
//! it announced.

use std::time::Duration;

use anyhow::{Result, ensure};
use vm::operator::allow_rollback;
use vm::{Host, HostOrigin, Output, scenario, until};

use crate::change::REBOOT;

/// Time limit of a script between two reboots.
const STEP_TIMEOUT: Duration = Duration::from_secs(900);
/// File with the announced mark.
const MARK: &str = "/var/tmp/kola-mark";
const SCRIPT: &str = "/var/tmp/kola-test";

/// Run a script to its end, over all its reboots.
fn run_kola_script(host: &mut Host, script: &str) -> Result<()> {
    host.write(SCRIPT, script)?;
    let mut mark = String::new();
    loop {
        let prepare = "#!/bin/sh\necho \"$1\" > /var/tmp/kola-mark\nsync\n";
        host.write("/tmp/autopkgtest-reboot-prepare", prepare)?;
        host.run_ok(&format!("chmod 755 /tmp/autopkgtest-reboot-prepare {SCRIPT} && rm -f {MARK}"))?;
        let before = host.boot_id()?;
        let process = host.spawn(&format!("AUTOPKGTEST_REBOOT_MARK={mark} {SCRIPT}"))?;
        let ended = until("the script to end, or to announce a reboot", STEP_TIMEOUT, || {
            if let Some(output) = host.output_if_ended(process)? {
                return Ok(Some(Some(output)));
            }
            Ok((host.run(&format!("test -e {MARK}"))?.code == 0).then_some(None))
        })?;
        if let Some(Output { code, stdout, stderr }) = ended {
            ensure!(code == 0, "the script failed at mark {mark:?} with exit code {code}: {stdout}{stderr}");
            return Ok(());
        }
        host.run_ok(&format!("cat {MARK}"))?.trim().clone_into(&mut mark);
        // Kola calls it as soon as a login is possible, while the boot check runs.
        host.wait_for_units(&before, REBOOT)?;
    }
}

#[test]
#[ignore = "exhaustive: other scenarios update and roll back as well"]
fn update_and_rollback_script_passes() -> Result<()> {
    scenario(HostOrigin::Fresh, |host| {
        run_kola_script(host, include_str!("../../kola/tests/kola/generations/update"))
    })
}

#[test]
#[ignore = "exhaustive: other scenarios roll back by themselves as well"]
fn automatic_rollback_script_passes() -> Result<()> {
    scenario(HostOrigin::Fresh, |host| {
        host.run_ok("mkdir -p /etc/flameholder/config.d")?;
        // As the script's config.bu sets it.
        host.write("/etc/flameholder/config.d/60-timeout.toml", "[boot-check]\ntimeout = 180\n")?;
        run_kola_script(host, include_str!("../../kola/tests/kola/generations/revert"))?;
        allow_rollback(host);
        host.allow_error("Failed to start flameholder-check-");
        Ok(())
    })
}

//! One test from its first call to its end, over all its reboots, as kola drives it.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use vm::{Host, until};

/// Time limit of a script between two reboots, and of a reboot that it announced.
const STEP: Duration = Duration::from_secs(1200);
/// Folder with the script and its data.
const FOLDER: &str = "/var/opt/kola";
/// Unit of the script.
const UNIT: &str = "kola-runext.service";
/// Program that announces a reboot: it ends once the announcement is noted, and sshd is stopped.
const PREPARE: &str = "#!/bin/sh\nset -e\nmkfifo /run/kola-acknowledged\necho \"$1\" > /run/kola-mark.new\n\
    mv /run/kola-mark.new /run/kola-mark\nread -r _ < /run/kola-acknowledged\n";

/// End of one call of the script.
enum CallOutcome {
    Passed,
    /// The script announced a reboot with this mark.
    Announced(String),
}

/// Run a script to its end.
///
/// # Errors
/// The script fails, or the host reboots without an announcement, or not after one.
pub(crate) fn run(host: &mut Host, script: &str, steps: &str) -> Result<()> {
    host.wait_for_login("", STEP)?;
    host.run_ok(&format!("mkdir -p {FOLDER}/data"))?;
    host.write(&format!("{FOLDER}/test"), script)?;
    host.write(&format!("{FOLDER}/data/steps.sh"), steps)?;
    host.run_ok(&format!("chmod 755 {FOLDER}/test"))?;
    let mut mark = String::new();
    loop {
        let boot = host.boot_id()?;
        match call(host, &mark)? {
            CallOutcome::Passed => return Ok(()),
            CallOutcome::Announced(next) => mark = next,
        }
        host.run_ok("systemctl stop sshd.service")?;
        // The script goes on, and the host may end before this command does.
        host.spawn("echo > /run/kola-acknowledged")?;
        if let Err(error) = host.wait_for_login(&boot, STEP) {
            return Err(error.context(format!("the reboot that was announced as {mark} did not happen")));
        }
    }
}

/// Call the script as a unit of systemd, and wait for its end or an announcement.
fn call(host: &mut Host, mark: &str) -> Result<CallOutcome> {
    host.write("/tmp/autopkgtest-reboot-prepare", PREPARE)?;
    host.run_ok("chmod 755 /tmp/autopkgtest-reboot-prepare && rm -f /run/kola-mark /run/kola-acknowledged")?;
    let before = host.boot_id()?;
    host.run_ok(&format!(
        "systemd-run --quiet --no-block --unit={UNIT} --property=Type=oneshot --property=RemainAfterExit=yes \
         --setenv=KOLA_EXT_DATA={FOLDER}/data --setenv=AUTOPKGTEST_REBOOT_MARK={mark} {FOLDER}/test"
    ))?;
    let state = until("the script to end, or to announce a reboot", STEP, || {
        if host.boot_id()? != before {
            bail!("the host rebooted without an announcement at mark {mark:?}");
        }
        if host.run("test -e /run/kola-mark")?.code == 0 {
            return Ok(Some(None));
        }
        let state = host.run_ok(&format!("systemctl show --property=ActiveState --value {UNIT}"))?;
        let state = state.trim().to_owned();
        Ok(["active", "failed"].contains(&state.as_str()).then_some(Some(state)))
    })?;
    let Some(state) = state else {
        return Ok(CallOutcome::Announced(host.run_ok("cat /run/kola-mark")?.trim().to_owned()));
    };
    let journal = host.run_ok(&format!("journalctl --boot --no-pager --output=cat --unit={UNIT}"))?;
    ensure!(state == "active", "the script failed at mark {mark:?}:\n{journal}");
    Ok(CallOutcome::Passed)
}

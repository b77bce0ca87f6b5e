//! One test from its first call to its end, over all its reboots, as kola drives it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use vm::{Host, until};

use crate::change::run_to_success;

/// Time limit of a script between two reboots, and of a reboot that it announced.
const STEP: Duration = Duration::from_secs(1200);
/// Folder with the script and its data.
const FOLDER: &str = "/var/opt/kola";
/// Archive of the OS image under test.
const ARCHIVE: &str = "/var/opt/kola/data/os.ociarchive";
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

/// Test of kola: its script, and what kola puts beside it on the machine.
#[derive(Debug)]
pub(crate) struct TestFiles {
    pub(crate) script: String,
    /// Content of `data/steps.sh`.
    pub(crate) steps: String,
    /// Archive of the OS image under test on this machine, for a test that asks for it.
    pub(crate) os_archive: Option<PathBuf>,
}

/// Run a script to its end.
///
/// # Errors
/// The script fails, or the host reboots without an announcement, or not after one.
pub(crate) fn run(host: &mut Host, files: &TestFiles) -> Result<()> {
    host.wait_for_login("", STEP)?;
    host.run_ok(&format!("mkdir -p {FOLDER}/data"))?;
    host.write(&format!("{FOLDER}/test"), &files.script)?;
    host.write(&format!("{FOLDER}/data/steps.sh"), &files.steps)?;
    if let Some(archive) = &files.os_archive {
        // Over the serial line of the guest agent, it would take hours.
        let urls = host.registry().start_with_files(&[archive])?;
        let url = urls.first().context("a URL per file")?;
        run_to_success(host, &format!("curl --silent --show-error --fail --output {ARCHIVE} {url}"))?;
        host.registry().stop();
    }
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
        "systemd-run --quiet --no-block --unit={UNIT} --property=RemainAfterExit=yes \
         --setenv=KOLA_EXT_DATA={FOLDER}/data --setenv=AUTOPKGTEST_REBOOT_MARK={mark} {FOLDER}/test"
    ))?;
    let state = until("the script to end, or to announce a reboot", STEP, || {
        if host.boot_id()? != before {
            bail!("the host rebooted without an announcement at mark {mark:?}");
        }
        if host.run("test -e /run/kola-mark")?.code == 0 {
            return Ok(Some(None));
        }
        // As kola's, the unit is of a type that is active from its start: no job of the boot waits for its end.
        let state = host.run_ok(&format!("systemctl show --property=SubState --value {UNIT}"))?;
        let state = state.trim().to_owned();
        Ok(["exited", "failed"].contains(&state.as_str()).then_some(Some(state)))
    })?;
    let Some(state) = state else {
        return Ok(CallOutcome::Announced(host.run_ok("cat /run/kola-mark")?.trim().to_owned()));
    };
    let journal = host.run_ok(&format!("journalctl --boot --no-pager --output=cat --unit={UNIT}"))?;
    ensure!(state == "exited", "the script failed at mark {mark:?}:\n{journal}");
    Ok(CallOutcome::Passed)
}

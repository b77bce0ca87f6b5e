//! Evidence of a failed test: consoles, journal, state.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::host::Host;

/// File name of a report, and the command in the guest that prints it.
const GUEST_REPORTS: [(&str, &str); 5] = [
    ("journal", "journalctl --sync; journalctl --no-pager --output=short-precise"),
    ("failed-units", "systemctl --failed --no-pager --full"),
    ("deployments", "ostree admin status --verbose; cat /boot/loader/entries/*; cat /proc/cmdline"),
    ("state", "/usr/libexec/flameholder-test/state"),
    ("witnesses", "cd /run/witness && grep --recursive '' ."),
];

/// Return the name of the running test, from nextest or from the thread.
pub fn test_name() -> String {
    let name = std::env::var("NEXTEST_TEST_NAME").ok();
    let thread = || std::thread::current().name().map(str::to_owned);
    name.or_else(thread).unwrap_or_else(|| "unnamed".into()).replace("::", "-")
}

/// Copy the consoles, and the reports of a guest that still answers, to the folder of failures; return the
/// folder of this test.
fn keep(host: &mut Host) -> Result<PathBuf> {
    let folder = host.lab().folder("failures")?.join(host.name());
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    for entry in fs::read_dir(host.folder())? {
        let entry = entry?;
        let name = entry.file_name();
        let name_shown = name.to_string_lossy();
        if name_shown.starts_with("console") || name_shown.starts_with("registry.") {
            fs::copy(entry.path(), folder.join(&name))?;
        }
    }
    if host.running.is_some() {
        for (file, command) in GUEST_REPORTS {
            match host.run(command) {
                Ok(output) => fs::write(folder.join(file), output.stdout + &output.stderr)?,
                // A guest that does not answer one request does not answer the next one.
                Err(error) => {
                    fs::write(folder.join(file), format!("{error:#}\n"))?;
                    break;
                }
            }
        }
    }
    Ok(folder)
}

/// Keep the evidence, and describe where it is, for the context of an error.
pub fn keep_and_describe(host: &mut Host) -> String {
    match keep(host) {
        Ok(folder) => format!("consoles, journal and state are in {}", folder.display()),
        Err(error) => format!("keeping consoles and journal failed: {error:#}"),
    }
}

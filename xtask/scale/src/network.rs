//! Network of the trial: a namespace with nothing but a loopback, in which a fleet finds enough ports and files.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nix::sched::{CloneFlags, unshare};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are no connections.
const OTHER_FILES: u64 = 500;

/// Leave the machine's network, and raise the limit of open files for so many connections. Has to run before other threads exist.
pub(crate) fn isolate(connections: u64) -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNET).context("entering a network namespace")?;
    let up = Command::new("ip").args(["link", "set", "dev", "lo", "up"]).status();
    ensure!(up.context("running ip (Debian: iproute2)")?.success(), "the loopback cannot be set up");
    // Of this namespace only.
    fs::write("/proc/sys/net/ipv4/ip_local_port_range", "1024 65535")
        .context("widening the range of ports")?;
    let needed = connections + OTHER_FILES;
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX).max(needed);
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) }).with_context(|| {
        format!(
            "the fleet needs {needed} open files, and the API server as many: the limit (ulimit -Hn) is lower"
        )
    })
}

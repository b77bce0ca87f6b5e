//! Upgrade and downgrade of the agent while an update is staged.
//!
//! `FLAMEHOLDER_NEXT` names the folder with the executables of the next release: those of the feature
//! `next-schema`, every document of which has a schema that this release does not know.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vm::config::Config;
use vm::operator::{apply, ensure_current, ensure_readers_saw, run_until_rebooted, status, update};
use vm::{Host, scenario};

use crate::prepared::{one, running_one, three};

const NEXT: &str = "FLAMEHOLDER_NEXT";
/// Executables of the next release. `/usr/local/bin` precedes the image's agent in the search path of a shell and of
/// systemd, and the agent finds its worker relative to itself.
const EXECUTABLES: [&str; 2] =
    ["/usr/local/bin/flameholder", "/usr/local/libexec/flameholder/flameholder-ostree"];

/// Part of the refusal to change a host whose record cannot be read.
const WAY_OUT: &str = "/etc/flameholder/generation has schema 2, and this release reads schemas up to 1; use the release that wrote it, or move the file away to start over";

/// Stage a config with one release, exchange the agent, and boot with the other release: once up, once down.
#[test]
fn agent_is_exchanged_while_an_update_is_staged() -> Result<()> {
    scenario(running_one()?, |host| {
        stage(host, &three())?;
        install_next_release(host)?;
        boot_staged(host, "three")?;
        ensure_set_aside(host, &[])?;

        stage(host, &one())?;
        host.run_ok(&format!("rm {} && sync", EXECUTABLES.join(" ")))?;
        // The running generation's record is of the newer release. The refusal's way out is taken as it says.
        let refused = host.run("flameholder apply --desired /var/tmp/desired.json --reboot auto")?;
        ensure!(refused.code == 1 && refused.stderr.contains(WAY_OUT), "{refused:?}");
        host.run_ok("rm /etc/flameholder/generation")?;
        update(host, &one())?;
        ensure_readers_saw(host, "one")?;
        ensure_set_aside(host, &["active.unreadable", "pending.unreadable"])
    })
}

fn stage(host: &mut Host, config: &Config) -> Result<()> {
    apply(host, config, "--locked").map(drop)
}

fn boot_staged(host: &mut Host, config: &str) -> Result<()> {
    run_until_rebooted(host, "flameholder apply --desired /var/tmp/desired.json --reboot auto")?;
    ensure_current(host, config)?;
    ensure_readers_saw(host, config)
}

/// Download the next release's executables from the registry: over the guest agent's serial line, they take a
/// quarter of an hour.
fn install_next_release(host: &mut Host) -> Result<()> {
    let folder = std::env::var_os(NEXT).with_context(|| format!("{NEXT} is not set"))?;
    let stripped = tempfile::tempdir()?;
    let mut files = Vec::new();
    for name in EXECUTABLES.map(|path| Path::new(path).file_name().unwrap_or_default()) {
        let file = stripped.path().join(name);
        let status =
            Command::new("strip").arg("-o").arg(&file).arg(Path::new(&folder).join(name)).status()?;
        ensure!(status.success(), "strip failed with {status}");
        files.push(file);
    }
    let files: Vec<_> = files.iter().map(AsRef::as_ref).collect();
    let urls = host.registry().start_with_files(&files)?;
    for (path, url) in EXECUTABLES.iter().zip(urls) {
        host.run_ok(&format!(
            "curl --silent --show-error --fail --create-dirs --output {path} {url} && chmod 755 {path}"
        ))?;
    }
    host.registry().stop();
    host.run_ok("sync").map(drop)
}

/// Check which documents the agent has set aside, by their names in its state directory.
fn ensure_set_aside(host: &mut Host, expected: &[&str]) -> Result<()> {
    let status = status(host)?;
    let path = |document: &Value| document["path"].as_str().unwrap_or_default().to_owned();
    let mut paths: Vec<_> = status["unreadable"].as_array().into_iter().flatten().map(path).collect();
    paths.sort();
    let expected: Vec<_> = expected.iter().map(|name| format!("/var/lib/flameholder/{name}")).collect();
    ensure!(paths == expected, "set aside: {paths:?}, expected {expected:?}: {status:#}");
    Ok(())
}

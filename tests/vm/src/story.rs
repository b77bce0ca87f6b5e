//! The demo on a booted host: an update with a reboot, a broken update, its automatic rollback, and the history of it all.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::config::Config;
use crate::host::Host;
use crate::operator::{allow_rollback, ensure_current, generation_argument, run_until_rebooted};

/// Time limit of a reboot and its boot check, emulated.
const UPDATE: Duration = Duration::from_secs(900);
/// Settings of both configs: a boot check of two minutes, which passes at the first success.
const BOOT_CHECK: &str = "[boot-check]\ntimeout = 120\nsteady = 0\n";
/// Health check of the broken config.
const FAILING: &str = "#!/bin/sh\necho 'the application does not answer'\nexit 1\n";

/// Play the story on a fresh host, and print each command with its output.
///
/// # Errors
/// A command fails, or the host is not as the story says.
pub fn tell(host: &mut Host) -> Result<()> {
    println!("A host with OSTree, booted in QEMU, with Flameholder in its image. Nothing was applied yet.\n");
    let good = configured("web-1", "first");
    let broken = configured("web-2", "second").file_of_mode(
        "/etc/flameholder/health.d/10-application",
        FAILING,
        0o755,
    );
    for config in [&good, &broken] {
        host.write(&format!("/root/{}.json", config.name()), config.render())?;
    }

    heading("1. A plan", "What would change, and what that costs. Nothing is written.");
    run(host, "flameholder plan --desired web-1.json")?;

    heading(
        "2. An update",
        "A new deployment is staged beside the running system, which is not touched; the reboot switches to it.",
    );
    reboot_by(host, "flameholder apply --desired web-1.json --reboot auto")?;
    run(host, "flameholder status")?;
    run(host, "cat /etc/app.conf")?;

    heading(
        "3. A broken update",
        "web-2 brings a health check that fails. The host boots it, waits two minutes for the check, then goes back by itself.",
    );
    let before = generation_argument(host)?;
    let boot = host.boot_id()?;
    println!("# flameholder apply --desired web-2.json --reboot auto");
    host.spawn("cd /root && flameholder apply --desired web-2.json --reboot auto")?;
    host.wait_for_units(&boot, UPDATE)?;
    println!("… the host booted web-2, and its boot check runs …");
    host.wait_for_boot_with(&before, UPDATE)?;
    println!("… which failed: the host booted web-1 again.\n");
    run(host, "flameholder status")?;
    run(host, "cat /etc/app.conf")?;

    heading("4. What happened", "The history of the host, and what a second attempt says.");
    run(host, "flameholder history")?;
    run_failing(host, "flameholder apply --desired web-2.json")?;

    ensure_current(host, "web-1")?;
    allow_rollback(host);
    host.allow_error("Failed to start flameholder-check-");
    heading(
        "Done",
        "The host serves with web-1. web-2 is blocked until its config is mended, or `flameholder retry`.",
    );
    Ok(())
}

fn configured(name: &str, text: &str) -> Config {
    Config::named(name)
        .file("/etc/flameholder/config.d/60-demo.toml", BOOT_CHECK)
        .file("/etc/app.conf", &format!("# {text}\n"))
        .kernel_argument(&format!("demo={text}"))
}

fn heading(title: &str, text: &str) {
    println!("== {title}\n{text}\n");
}

fn run(host: &mut Host, command: &str) -> Result<()> {
    println!("# {command}");
    println!("{}", host.run_ok(&format!("cd /root && LC_ALL=C.UTF-8 {command} 2>&1"))?);
    Ok(())
}

fn run_failing(host: &mut Host, command: &str) -> Result<()> {
    println!("# {command}");
    let ended = host.run(&format!("cd /root && LC_ALL=C.UTF-8 {command} 2>&1"))?;
    println!("{}", ended.stdout);
    ensure!(ended.code != 0, "`{command}` succeeded");
    Ok(())
}

/// Run a command that reboots the host, and wait for the next boot and its boot check.
fn reboot_by(host: &mut Host, command: &str) -> Result<()> {
    println!("# {command}");
    run_until_rebooted(host, &format!("cd /root && {command}"))?;
    println!("… the host rebooted, and its boot check passed.\n");
    Ok(())
}

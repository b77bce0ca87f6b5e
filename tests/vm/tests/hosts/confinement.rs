//! SELinux enforcing: domains and labels. Other scenarios run on such hosts too, and are checked for denials.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use vm::operator::{ensure_current, ensure_unsigned_is_refused, require_signatures};
use vm::{Host, scenario, until};

use crate::change::REBOOT;
use crate::daemon::{order, wait_for_status};
use crate::prepared::{running_one, two};

/// Types of processes in the order in which one starts the other.
const TRANSITIONS: [(&str, &str); 6] = [
    ("init_t", "flameholder_t"),
    ("init_t", "flameholder_daemon_t"),
    ("flameholder_daemon_t", "flameholder_t"),
    ("flameholder_t", "flameholder_ostree_t"),
    ("flameholder_ostree_t", "flameholder_fetch_t"),
    ("flameholder_t", "install_t"),
];
/// Paths of version 2 of the OS whose type only its own policy has.
const NEXT_OS: &str = "/usr/lib/next-os /usr/lib/next-os/file /etc/os /etc/os/only-in-2";
/// Paths of the agent, whatever wrote them.
const OWN_PATHS: &str = "/etc/flameholder /run/flameholder /usr/bin/flameholder /usr/libexec/flameholder \
    /usr/local /var/lib/flameholder";

/// Time limit for the hooks that nothing waits for.
const HOOK_TIMEOUT: Duration = Duration::from_secs(180);
/// Time limit until contents are fetched.
const FETCH_TIMEOUT: Duration = Duration::from_secs(180);
/// File whose content the daemon fetches.
const FETCHED_FILE: &str = "/etc/app/image-config.json";
/// Folders of hooks, each of which gets a program.
const HOOK_FOLDERS: [&str; 3] = ["before-drain.d", "after-confirmation.d", "notify.d"];

#[test]
fn update_to_a_policy_with_another_type_is_confined() -> Result<()> {
    scenario(running_one()?, |host| {
        host.registry().start()?;
        require_signatures(host)?;
        ensure_unsigned_is_refused(host)?;
        let wanted = two(host);
        write_hooks(host)?;
        // The daemon pulls the image, in the sandbox of its unit.
        let before = host.boot_id()?;
        order(host, &wanted.render())?;
        host.wait_for_boot(&before, REBOOT)?;
        ensure_current(host, "two")?;
        let types = host.run_ok(&format!("stat --format=%C {NEXT_OS} | cut -d: -f3 | sort -u"))?;
        assert_eq!(types, "next_os_t\n");
        wait_for_status(host, "Done two")?;
        ensure_hooks_ran(host)?;
        // Its program is a shell, which may not enter the daemon's domain.
        host.run_ok("systemctl reload flameholder-daemon.service")?;
        let daemon = "/proc/$(systemctl show --value --property=MainPID flameholder-daemon)/attr/current";
        assert_eq!(host.run_ok(&format!("cut -d: -f3 {daemon}"))?, "flameholder_daemon_t\n");
        // The test wrote these files itself.
        host.run_ok("restorecon /etc/flameholder/daemon.env /etc/flameholder/config.d/70-signature.toml")?;
        let wrong = host.run_ok(&format!("restorecon -nrv {OWN_PATHS}"))?;
        ensure!(wrong.is_empty(), "restorecon would change labels:\n{wrong}");
        ensure_fetched_contents_are_confined(host)?;
        ensure_transitions(host)?;
        ensure_denial_is_found(host)
    })
}

/// Check that the daemon fetches the contents that a config names, and keeps them under a type of their own.
fn ensure_fetched_contents_are_confined(host: &mut Host) -> Result<()> {
    let image = host.image(2)?;
    let digest = host.registry().config_digest(&image)?;
    let (url, hash) = (host.registry().blob_url(&digest), digest.replace(':', "-"));
    let contents = json!({"source": url, "verification": {"hash": hash}});
    let files = json!([{"path": FETCHED_FILE, "mode": 0o644, "contents": contents}]);
    let config = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": files}});
    order(host, &config.to_string())?;
    let kept = until("the daemon to keep what it fetched", FETCH_TIMEOUT, || {
        let listed = host.run("stat --format=%C /var/lib/flameholder/fetched/*")?;
        Ok((listed.code == 0).then_some(listed.stdout))
    })?;
    // Its next steps are the subject of other scenarios.
    host.run_ok("systemctl stop flameholder-daemon.service")?;
    ensure!(kept.contains(":flameholder_fetched_t:"), "what was fetched is kept as:\n{kept}");
    Ok(())
}

/// Write one hook of each kind, which appends the phase it was told and the type of its process to a file.
fn write_hooks(host: &mut Host) -> Result<()> {
    for folder in HOOK_FOLDERS {
        let hook = format!("/etc/flameholder/{folder}/10-record");
        host.run_ok(&format!("mkdir -p /etc/flameholder/{folder}"))?;
        let line = "echo \"$FLAMEHOLDER_PHASE $(cut -d: -f3 /proc/self/attr/current)\"";
        host.write(&hook, format!("#!/bin/sh\n{line} >> /var/{folder}.ran\n"))?;
        host.run_ok(&format!("chmod 0755 {hook}"))?;
    }
    host.run_ok("restorecon -R /etc/flameholder").map(drop)
}

/// Check that each hook ran, outside of the domains of the agent.
fn ensure_hooks_ran(host: &mut Host) -> Result<()> {
    for folder in HOOK_FOLDERS {
        let ran = format!("/var/{folder}.ran");
        until(&format!("the hook in {folder}"), HOOK_TIMEOUT, || {
            Ok((host.run(&format!("test -s {ran}"))?.code == 0).then_some(()))
        })?;
        let lines = host.run_ok(&format!("cat {ran}"))?;
        ensure!(
            !lines.contains("flameholder"),
            "the hook in {folder} runs in a domain of the agent:\n{lines}"
        );
    }
    Ok(())
}

fn ensure_transitions(host: &mut Host) -> Result<()> {
    let records = host.audit_records()?;
    let seen = records.of_transitions();
    for (from, to) in TRANSITIONS {
        let is_it = |record: &&str| {
            record.contains(&format!("scontext=system_u:system_r:{from}:"))
                && record.contains(&format!("system_r:{to}:"))
        };
        ensure!(seen.iter().any(is_it), "{from} never started {to}:\n{}", seen.join("\n"));
    }
    Ok(())
}

/// Check that a denial would be found: a shell may not enter a domain of the agent.
fn ensure_denial_is_found(host: &mut Host) -> Result<()> {
    let planted = host.run("runcon system_u:system_r:flameholder_daemon_t:s0 /bin/sh -c true")?;
    ensure!(planted.code != 0, "a shell runs in the domain of the daemon");
    let records = host.audit_records()?;
    let refused = records.refused();
    ensure!(
        refused.iter().any(|record| record.contains("entrypoint")),
        "the denial is not found: {refused:?}"
    );
    host.allow_error("comm=\"runcon\"");
    Ok(())
}

//! Actions of an operator on the guest, and checks of their results.
#![allow(clippy::indexing_slicing, reason = "indexing a JSON value yields null for an absent member")]

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::config::Config;
use crate::host::Host;
use crate::lab::{REGISTRY, REPOSITORY};
use crate::signing::SigningKeys;
use crate::wait::until;

/// Time limit of a command that reboots the host: an import, a shutdown and a boot, all emulated.
const UPDATE: Duration = Duration::from_secs(900);

/// Time limit for a line that a unit has logged to be read back.
const JOURNAL: Duration = Duration::from_secs(60);

/// Wait until the journal of these units has a line with `text`, and return it. While journald extends its file, journalctl can
/// take it for a truncated one, fail or read nothing.
pub fn wait_for_journal(host: &mut Host, arguments: &str, text: &str) -> Result<String> {
    let read = format!("journalctl --sync; journalctl --no-pager --quiet --output=cat {arguments}");
    until(&format!("{text:?} in the journal ({arguments})"), JOURNAL, || {
        let journal = host.run(&read)?;
        Ok(journal.stdout.lines().find(|line| line.contains(text)).map(str::to_owned))
    })
}

/// Apply a config, with further arguments of `flameholder apply`, and return the output.
pub fn apply(host: &mut Host, config: &Config, arguments: &str) -> Result<String> {
    host.write("/var/tmp/desired.json", config.render())?;
    host.run_ok(&format!("flameholder apply --desired /var/tmp/desired.json {arguments} 2>&1"))
}

/// Apply a config that requires a reboot, and check that it is current after the reboot.
pub fn update(host: &mut Host, config: &Config) -> Result<()> {
    host.write("/var/tmp/desired.json", config.render())?;
    run_until_rebooted(host, "flameholder apply --desired /var/tmp/desired.json --reboot auto")?;
    ensure_current(host, config.name())
}

/// Run a command that reboots the host, and wait for the next boot and its boot check.
pub fn run_until_rebooted(host: &mut Host, command: &str) -> Result<()> {
    let before = host.boot_id()?;
    // The command is not waited for: the host may shut down before it ends.
    host.spawn(&format!("{command} > /var/tmp/output 2>&1"))?;
    let booted = host.wait_for_boot(&before, UPDATE);
    let output = |host: &mut Host| host.run_ok("cat /var/tmp/output").unwrap_or_default();
    booted.map_err(|error| error.context(format!("`{command}` printed: {}", output(host))))
}

/// Return the kernel argument of the booted generation.
pub fn generation_argument(host: &mut Host) -> Result<String> {
    let line = host.run_ok("cat /proc/cmdline")?;
    let argument = line.split_whitespace().find(|word| word.starts_with("flameholder.generation="));
    Ok(argument.context("the kernel command line names no generation")?.to_owned())
}

/// Roll back, and check that the config `to` is current after the reboot.
pub fn roll_back(host: &mut Host, to: &str) -> Result<()> {
    run_until_rebooted(host, "flameholder rollback --reboot auto")?;
    ensure_current(host, to)
}

/// Allow the errors in the journal about a generation that did not serve and whose config is blocked.
pub fn allow_rollback(host: &mut Host) {
    for message in ["rolledBack: ", "blocked: ", "is rolled back and blocked", "rebooting: "] {
        host.allow_error(message);
    }
}

/// Check that `config` is the current config: its generation is booted, is the default boot entry, has a
/// matching record and passes `flameholder verify`, and no change is pending or open.
pub fn ensure_current(host: &mut Host, config: &str) -> Result<()> {
    let status = status(host)?;
    ensure!(
        status["pending"].is_null() && status["transaction"].is_null(),
        "a change is pending or open: {status:#}"
    );
    let booted = booted(&status)?;
    ensure!(booted["next"] == true, "the booted deployment is not the default boot entry: {status:#}");
    ensure!(booted["generation"]["config"] == config, "{config} is not booted: {status:#}");
    ensure!(
        booted["generation"]["recordMatches"] == true,
        "the record does not match the booted deployment: {status:#}"
    );
    let name = booted["generation"]["generation"].as_str().unwrap_or_default();
    let line = host.run_ok("cat /proc/cmdline")?;
    ensure!(
        line.contains(&format!("flameholder.generation={name}")),
        "generation {name} is not on the kernel command line: {line}"
    );
    host.run_ok("flameholder verify")?;
    Ok(())
}

/// Return the output of `flameholder status -o json`.
pub fn status(host: &mut Host) -> Result<Value> {
    let text = host.run_ok("flameholder status -o json")?;
    serde_json::from_str(&text).with_context(|| format!("parsing the status {text}"))
}

/// D-Bus service file that starts rpm-ostreed's stand-in on demand: its path and content.
pub const RPM_OSTREED: (&str, &str) = (
    "/usr/local/share/dbus-1/system-services/org.projectatomic.rpmostree1.service",
    "[D-BUS Service]\nName=org.projectatomic.rpmostree1\nExec=/bin/false\nUser=root\nSystemdService=rpm-ostreed.service\n",
);

/// Install the D-Bus service of rpm-ostreed's stand-in, so that images and packages go through it, as on
/// CoreOS.
pub fn enable_rpm_ostreed(host: &mut Host) -> Result<()> {
    let (path, text) = RPM_OSTREED;
    let directory = path.rsplit_once('/').map_or("/", |(directory, _)| directory);
    host.run_ok(&format!("mkdir -p {directory}"))?;
    host.write(path, text)?;
    host.run_ok("systemctl reload dbus.service && sync")?;
    Ok(())
}

/// Demand two signatures of each image, by the keys of those that are in the registry: the host has these keys, and GPG's
/// signatures in a directory.
pub fn require_signatures(host: &mut Host) -> Result<()> {
    let [gpg_key, sigstore_key, signatures] =
        ["/etc/pki/os-gpg.pub", "/etc/pki/os-sigstore.pub", "/etc/pki/signatures"];
    let policy = json!({"default": [{"type": "reject"}], "transports": {"docker": {format!("{REGISTRY}/{REPOSITORY}"): [
        {"type": "signedBy", "keyType": "GPGKeys", "keyPath": gpg_key},
        {"type": "sigstoreSigned", "keyPath": sigstore_key},
    ]}}});
    let places = format!(
        "docker:\n  {REGISTRY}:\n    lookaside: file://{signatures}\n    use-sigstore-attachments: true\n"
    );
    let keys = SigningKeys::of(&host.lab().os_stage("images")?.join("signer"));
    host.run_ok("mkdir -p /etc/pki /etc/containers/registries.d /etc/flameholder/config.d")?;
    for (path, text) in [
        ("/etc/containers/policy.json", policy.to_string()),
        ("/etc/containers/registries.d/os.yaml", places),
        ("/etc/flameholder/config.d/70-signature.toml", "[image]\nsignature = \"required\"\n".to_owned()),
        (gpg_key, fs::read_to_string(&keys.gpg)?),
        (sigstore_key, fs::read_to_string(&keys.sigstore)?),
    ] {
        host.write(path, text)?;
    }
    for (path, signature) in keys.gpg_signatures()? {
        let path = format!("{signatures}/{path}");
        host.run_ok(&format!("mkdir -p $(dirname {path})"))?;
        host.write(&path, signature)?;
    }
    Ok(())
}

/// Check that an update to an image without a signature changes nothing, on a host that demands one.
pub fn ensure_unsigned_is_refused(host: &mut Host) -> Result<()> {
    let unsigned = Config::named("unsigned").image(&host.image(3)?);
    host.write("/var/tmp/desired.json", unsigned.render())?;
    let refused = host.run("flameholder apply --desired /var/tmp/desired.json 2>&1")?;
    let told = refused.stdout.contains("A signature was required, but no signature exists");
    ensure!(refused.code != 0 && told, "an image without a signature is not refused: {refused:?}");
    let status = status(host)?;
    ensure!(status["pending"].is_null() && status["transaction"].is_null(), "{status:#}");
    Ok(())
}

/// Return the booted deployment of a status.
pub fn booted(status: &Value) -> Result<&Value> {
    let deployments = status["deployments"].as_array().context("the status has no deployments")?;
    deployments.iter().find(|deployment| deployment["booted"] == true).context("no deployment is booted")
}

/// Check that each reader of this boot saw the witness files of the config `expected`, and of no other.
pub fn ensure_readers_saw(host: &mut Host, expected: &str) -> Result<()> {
    let boot = host.boot_id()?;
    for (moment, witness) in host.witnesses()? {
        ensure!(witness.boot == boot, "the record of {moment} is from another boot");
        for (path, seen) in &witness.seen {
            // `/var` is not mounted when generators run.
            let is_hidden = moment == "generator" && path != "/etc/witness";
            let expected = (!is_hidden).then_some(expected);
            ensure!(seen.as_deref() == expected, "{moment} saw {seen:?} in {path}");
        }
    }
    let kubelet = host.run_ok("tail -n 1 /var/log/kubelet-stand-in")?;
    ensure!(kubelet.contains(&boot), "the kubelet was not started in this boot: {kubelet}");
    ensure!(kubelet.contains(&format!("/etc/witness={expected}")), "{kubelet}");
    Ok(())
}

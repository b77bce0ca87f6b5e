//! What a config server sends a node, and what is to come of it.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use vm::Host;
use vm::config::{Config, data_url};

/// A rendered configuration of a real controller.
const RENDERED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/rendered/02-files-units-ssh.json");
/// Units that have what they need on a Debian host, or must not run at all.
const KEPT_UNITS: [&str; 7] = [
    "docker.socket",
    "firstboot-osupdate.target",
    "machine-config-daemon-firstboot.service",
    "machine-config-daemon-pull.service",
    "node-report.service",
    "openvswitch.service",
    "zincati.service",
];
/// The newest that Debian's Ignition reads.
const IGNITION: &str = "3.3.0";

/// A rendered configuration of a real controller, made fit for a Debian host: with our image, and the pull secret for our
/// registry.
pub fn desired(image: &str, secret: &str) -> Result<Value> {
    let own = Config::named("final").image(image).unit("ours.service").key("ssh-ed25519 AAAA first");
    let mut object: Value = serde_json::from_str(&std::fs::read_to_string(RENDERED)?)?;
    let own: Value = serde_json::from_str(&own.render())?;
    object["spec"]["osImageURL"] = image.into();
    let config = &mut object["spec"]["config"];
    config["ignition"]["version"] = IGNITION.into();
    let units = config["systemd"]["units"].as_array_mut().context("it has units")?;
    units.retain(|unit| unit["name"].as_str().is_some_and(|name| KEPT_UNITS.contains(&name)));
    units.extend(own["spec"]["config"]["systemd"]["units"].as_array().cloned().unwrap_or_default());
    let files = config["storage"]["files"].as_array_mut().context("it has files")?;
    for file in own["spec"]["config"]["storage"]["files"].as_array().into_iter().flatten() {
        files.retain(|other| other["path"] != file["path"]);
        files.push(file.clone());
    }
    for file in files.iter_mut().filter(|file| file["path"] == "/var/lib/kubelet/config.json") {
        file["contents"] = json!({"source": data_url(secret)});
    }
    Ok(object)
}

/// What Ignition gets: the configuration, as the server's own additions make it. The witness in `/etc` is not final.
pub fn ignition_config(object: &Value) -> Result<String> {
    let mut config = object["spec"]["config"].clone();
    let mut encapsulated = object.clone();
    encapsulated["spec"]["config"] = json!({"ignition": {"version": IGNITION}});
    let added = [
        ("/etc/kubernetes/kubeconfig", "{}".to_owned()),
        ("/etc/mcs-machine-config-content.json", serde_json::to_string_pretty(object)?),
        ("/etc/ignition-machine-config-encapsulated.json", encapsulated.to_string()),
    ];
    let files = config["storage"]["files"].as_array_mut().context("it has files")?;
    for file in files.iter_mut().filter(|file| file["path"] == "/etc/witness") {
        file["contents"] = json!({"source": "data:,draft"});
    }
    for (path, text) in added {
        files.push(
            json!({"path": path, "mode": 0o644, "overwrite": true, "contents": {"source": data_url(&text)}}),
        );
    }
    Ok(config.to_string())
}

/// The first boot is complete, and that of `config`, and the workload started once, on final state.
pub fn ensure_complete(host: &mut Host, config: &str, os: u32) -> Result<()> {
    host.run_ok("flameholder verify")?;
    let status = vm::operator::status(host)?;
    let booted = vm::operator::booted(&status)?;
    ensure!(
        booted["generation"]["config"] == config && booted["generation"]["recordMatches"] == true,
        "{status:#}"
    );
    ensure!(status["pending"].is_null() && status["bootCheck"]["phase"] == "healthy", "{status:#}");
    host.run_ok("test ! -e /etc/ignition-machine-config-encapsulated.json")?;
    host.run_ok("test -e /etc/ignition-machine-config-encapsulated.json.bak")?;
    let boot = host.boot_id()?;
    let kubelet = host.run_ok("cat /var/log/kubelet-stand-in")?;
    ensure!(kubelet.lines().count() == 1 && kubelet.contains(&boot), "not once, in this boot: {kubelet}");
    ensure!(kubelet.contains(&format!("os={os}")) && kubelet.contains("/etc/witness=final"), "{kubelet}");
    let journal =
        host.run_ok("journalctl --boot --no-pager --output=cat --unit=flameholder-firstboot.service")?;
    // A boot that was cut may have come that far.
    let condition =
        host.run_ok("systemctl show --property=ConditionResult --value flameholder-firstboot.service")?;
    let is_logged = journal.contains("the first boot is complete");
    ensure!(is_logged || condition.trim() == "no", "{journal}");
    eprintln!("{}", journal.lines().find(|line| line.contains("is complete")).unwrap_or_default());
    // The daemon that is replaced would do the same once more.
    let daemon =
        host.run_ok("systemctl show --property=ActiveState --value machine-config-daemon-firstboot.service")?;
    ensure!(daemon.trim() == "inactive", "machine-config-daemon-firstboot.service is {daemon}");
    Ok(())
}

//! Config that a config server sends to a node, and the checks after its first boot.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use vm::Host;
use vm::config::{Config, data_url};

/// Rendered config of a real machine-config controller.
const RENDERED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/rendered/02-files-units-ssh.json");
/// Units of the rendered config that are kept: their dependencies exist on a Debian host, or they must not
/// run at all.
const KEPT_UNITS: [&str; 7] = [
    "docker.socket",
    "firstboot-osupdate.target",
    "machine-config-daemon-firstboot.service",
    "machine-config-daemon-pull.service",
    "node-report.service",
    "openvswitch.service",
    "zincati.service",
];
/// Newest Ignition spec version that Debian's Ignition reads.
const IGNITION: &str = "3.3.0";

/// Return the rendered config of a real controller, adapted to a Debian host: with the tests' image, and a
/// pull secret for their registry.
pub fn desired(image: &str, secret: &str) -> Result<Value> {
    let own = Config::named("final").image(image).unit("ours.service").key("ssh-ed25519 AAAA first");
    let mut object: Value = serde_json::from_str(&std::fs::read_to_string(RENDERED)?)?;
    let own: Value = serde_json::from_str(&own.render())?;
    object["spec"]["osImageURL"] = image.into();
    let config = &mut object["spec"]["config"];
    config["ignition"]["version"] = IGNITION.into();
    let units = config["systemd"]["units"].as_array_mut().context("the rendered config has no units")?;
    units.retain(|unit| unit["name"].as_str().is_some_and(|name| KEPT_UNITS.contains(&name)));
    units.extend(own["spec"]["config"]["systemd"]["units"].as_array().cloned().unwrap_or_default());
    let files = config["storage"]["files"].as_array_mut().context("the rendered config has no files")?;
    for file in own["spec"]["config"]["storage"]["files"].as_array().into_iter().flatten() {
        files.retain(|other| other["path"] != file["path"]);
        files.push(file.clone());
    }
    for file in files.iter_mut().filter(|file| file["path"] == "/var/lib/kubelet/config.json") {
        file["contents"] = json!({"source": data_url(secret)});
    }
    Ok(object)
}

/// Return the Ignition config that a config server makes of the rendered config. The witness in `/etc` is a
/// draft, so that a workload before the final state is detected.
pub fn ignition_config(object: &Value) -> Result<String> {
    let mut config = object["spec"]["config"].clone();
    let mut encapsulated = object.clone();
    encapsulated["spec"]["config"] = json!({"ignition": {"version": IGNITION}});
    let added = [
        ("/etc/kubernetes/kubeconfig", "{}".to_owned()),
        ("/etc/mcs-machine-config-content.json", serde_json::to_string_pretty(object)?),
        ("/etc/ignition-machine-config-encapsulated.json", encapsulated.to_string()),
    ];
    let files = config["storage"]["files"].as_array_mut().context("the rendered config has no files")?;
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

/// Check that the first boot is complete with the config `config`, and that the workload started once, on the
/// final state.
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
    ensure!(
        kubelet.lines().count() == 1 && kubelet.contains(&boot),
        "the workload did not start exactly once, in this boot: {kubelet}"
    );
    ensure!(kubelet.contains(&format!("os={os}")) && kubelet.contains("/etc/witness=final"), "{kubelet}");
    // After a power cut, the first boot may have been completed in an earlier boot.
    let condition =
        host.run_ok("systemctl show --property=ConditionResult --value flameholder-firstboot.service")?;
    if condition.trim() != "no" {
        let unit = "--boot --unit=flameholder-firstboot.service";
        eprintln!("{}", vm::operator::wait_for_journal(host, unit, "the first boot is complete")?);
    }
    // machine-config-daemon-firstboot.service would repeat the first boot.
    let daemon =
        host.run_ok("systemctl show --property=ActiveState --value machine-config-daemon-firstboot.service")?;
    ensure!(daemon.trim() == "inactive", "machine-config-daemon-firstboot.service is {daemon}");
    Ok(())
}

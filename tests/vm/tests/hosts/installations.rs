//! Installation on a host whose OS image does not have the agent: as a system extension, and as a Debian package.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use vm::config::Config;
use vm::operator::{apply, ensure_current, status, update};
use vm::{Host, HostOrigin, scenario, until};

use crate::change::REBOOT;

/// Time limit of Ignition and a first boot, emulated on a busy machine.
const FIRST_BOOT: Duration = Duration::from_secs(900);
/// Config of Ignition that says nothing.
const IGNITION: &str = r#"{"ignition": {"version": "3.3.0"}}"#;
const UNITS: &str = "/etc/systemd/system";

/// Return the package with this ending: `cargo xtask vm test` builds them.
fn package(ending: &str) -> Result<PathBuf> {
    let folder = std::env::var_os("FLAMEHOLDER_PACKAGES")
        .context("FLAMEHOLDER_PACKAGES names no packages: run `cargo xtask vm test`")?;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(ending) {
            return Ok(path);
        }
    }
    anyhow::bail!("no package ends in {ending}")
}

fn on_a_host_without_the_agent(test: impl FnOnce(&mut Host) -> Result<()>) -> Result<()> {
    scenario(HostOrigin::WithoutAgent(IGNITION.to_owned()), |host| {
        host.wait_for_units("", FIRST_BOOT)?;
        ensure!(host.run("command -v flameholder")?.code != 0, "the image has the agent");
        test(host)
    })
}

/// Write the units as the Ignition config of a system extension does: those of `systemd/sysext` in place of others.
fn write_units(host: &mut Host) -> Result<()> {
    let systemd = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systemd");
    let mut units = Vec::new();
    for entry in std::fs::read_dir(&systemd)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".service") {
            units.push(name);
        } else if name.strip_suffix(".d").is_some() {
            host.run_ok(&format!("mkdir -p {UNITS}/{name}"))?;
            units.push(format!("{name}/50-flameholder.conf"));
        }
    }
    for name in &units {
        let instead = systemd.join("sysext").join(name);
        let from = if instead.is_file() { instead } else { systemd.join(name) };
        host.write(&format!("{UNITS}/{name}"), std::fs::read(from)?)?;
    }
    let services = units.iter().filter(|name| !name.contains('/')).cloned().collect::<Vec<_>>().join(" ");
    host.run_ok(&format!("systemctl daemon-reload && systemctl enable systemd-sysext.service {services}"))?;
    Ok(())
}

fn config(name: &str) -> Config {
    let config = Config::named(name).kernel_argument(&format!("installation={name}"));
    (0..20).fold(config, |config, number| config.file(&format!("/etc/app/{number}"), name))
}

#[test]
#[ignore = "exhaustive: other scenarios update and cut the power as well"]
fn system_extension_updates_and_survives_a_power_cut_in_finalization() -> Result<()> {
    on_a_host_without_the_agent(|host| {
        host.run_ok("mkdir -p /var/lib/extensions")?;
        host.write("/var/lib/extensions/flameholder.raw", std::fs::read(package(".raw")?)?)?;
        write_units(host)?;
        let before = host.boot_id()?;
        host.spawn("systemctl reboot")?;
        host.wait_for_units(&before, REBOOT)?;
        let version = host.run_ok("flameholder version")?;
        ensure!(version.contains("worker: protocol"), "{version}");

        // Files in /etc, outside it, and a kernel argument: finalized before the extension is unmerged, activated after it is
        // merged.
        update(host, &config("one"))?;
        let early = config("two").file("/usr/local/lib/sysctl.d/80-two.conf", "# two\n");
        host.write("/var/tmp/desired.json", early.render())?;
        let plan = host.run_ok("flameholder plan --desired /var/tmp/desired.json 2>&1")?;
        ensure!(plan.contains("80-two.conf: read in the early boot, before the agent"), "{plan}");

        // The power goes while the deployment is finalized.
        apply(host, &config("three"), "")?;
        let seen = host.console()?.len();
        host.spawn("systemctl reboot")?;
        // The unit's name is in colours, and earlier shutdowns named it as well.
        until("the finalization to begin", REBOOT, || {
            let console = host.console()?;
            let stops = console.get(seen..).is_some_and(|new| new.contains("ostree-finalize-staged.service"));
            Ok(stops.then_some(()))
        })?;
        host.power_cut();
        host.power_on()?;
        let booted = vm::operator::booted(&status(host)?)?["generation"]["config"].clone();
        let name = booted.as_str().context("a foreign deployment is booted")?.to_owned();
        ensure!(["one", "three"].contains(&name.as_str()), "{name} is booted");
        for number in 0..20 {
            let content = host.run_ok(&format!("cat /etc/app/{number}"))?;
            ensure!(content == name, "/etc/app/{number} is that of {content}, and {name} is booted");
        }
        host.run_ok("flameholder verify")?;
        if name == "one" {
            host.allow_error("finaliz");
            update(host, &config("three"))?;
        }
        ensure_current(host, "three")
    })
}

fn unit_state(host: &mut Host, property: &str, unit: &str) -> Result<String> {
    let value = host.run_ok(&format!("systemctl show --value --property={property} {unit}"))?;
    Ok(value.trim().to_owned())
}

#[test]
#[ignore = "exhaustive: the packages are unpacked and read without a host as well"]
fn debian_package_is_installed_upgraded_and_removed_whole() -> Result<()> {
    on_a_host_without_the_agent(|host| {
        host.write("/var/tmp/flameholder.deb", std::fs::read(package(".deb")?)?)?;
        // The image has no database of packages: their dependencies are there, and dpkg knows nothing of them.
        host.run_ok("ostree admin unlock && rm -rf /var/lib/dpkg && mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates && touch /var/lib/dpkg/status")?;
        let dpkg = "dpkg --force-depends";
        host.run_ok(&format!("{dpkg} --install /var/tmp/flameholder.deb 2>&1"))?;
        host.run_ok("flameholder version")?;
        for unit in ["activate", "confirm-boot", "daemon"] {
            let state = unit_state(host, "UnitFileState", &format!("flameholder-{unit}.service"))?;
            ensure!(state == "disabled", "the package enabled flameholder-{unit}.service: {state}");
        }
        ensure!(host.run("test -d /var/lib/flameholder")?.code == 0, "tmpfiles made no directory of state");

        // A daemon that runs: a config without files needs no reboot.
        host.run_ok("mkdir -p /etc/flameholder/desired")?;
        host.write("/etc/flameholder/desired/site.yaml", KEYS)?;
        host.write("/etc/flameholder/daemon.env", "FLAMEHOLDER_SOURCE=dir:/etc/flameholder/desired\n")?;
        host.run_ok("systemctl enable --now flameholder-daemon.service")?;
        host.run_ok("flameholder status --wait Done --timeout 10m")?;
        let before = unit_state(host, "InvocationID", "flameholder-daemon.service")?;

        // The upgrade restarts it.
        host.run_ok(&format!("{dpkg} --install /var/tmp/flameholder.deb 2>&1"))?;
        until("the daemon to run again", REBOOT, || {
            let now = unit_state(host, "InvocationID", "flameholder-daemon.service")?;
            let state = unit_state(host, "ActiveState", "flameholder-daemon.service")?;
            Ok((now != before && state == "active").then_some(()))
        })?;
        host.run_ok("flameholder status --wait Done --timeout 10m")?;

        // While an update is under way, the package stays.
        host.run_ok("touch /var/lib/flameholder/pending")?;
        let refused = host.run(&format!("{dpkg} --remove flameholder 2>&1"))?;
        ensure!(refused.code != 0 && refused.stdout.contains("flameholder unstage"), "{}", refused.stdout);
        host.run_ok("rm /var/lib/flameholder/pending && flameholder version")?;

        let removed = host.run_ok(&format!("{dpkg} --remove flameholder 2>&1"))?;
        ensure!(host.run("command -v flameholder")?.code != 0, "{removed}");
        ensure!(unit_state(host, "ActiveState", "flameholder-daemon.service")? == "inactive", "{removed}");
        let links = host.run_ok("find /etc/systemd/system -name 'flameholder*'")?;
        ensure!(links.is_empty(), "the removal left {links}");
        // The configured files and their records stay.
        host.run_ok("test -e /etc/flameholder/generation && test -d /var/lib/flameholder")?;
        // The checks at the end of the scenario read the units.
        host.run_ok(&format!("{dpkg} --install /var/tmp/flameholder.deb 2>&1"))?;
        Ok(())
    })
}

/// A config with a key alone.
const KEYS: &str = "apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: keys
spec:
  config:
    ignition:
      version: 3.4.0
    passwd:
      users:
        - name: core
          sshAuthorizedKeys:
            - ssh-ed25519 AAAA keys
";

//! The changes that are looked at most closely.

use std::time::Duration;

use anyhow::{Result, ensure};
use vm::operator::enable_rpm_ostreed;
use vm::{Host, HostOrigin, Output, until};

use crate::prepared::{running_one, running_two, staged_faulty, three, two};

/// An emulated shutdown and boot.
pub const REBOOT: Duration = Duration::from_secs(600);
/// An import, or checksums of a whole OS, emulated on a machine that has other things to do.
const LONG_COMMAND: Duration = Duration::from_secs(1200);

/// From one generation to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// To another image, with kernel arguments, files in `/etc` and outside, and units; by rpm-ostreed.
    Image,
    /// The same without an image and without arguments, by libostree alone.
    Files,
    /// Back from the first.
    Rollback,
    /// Away from what is not healthy.
    AutomaticRollback,
}

impl Change {
    /// What starts it.
    pub fn command(self) -> &'static str {
        match self {
            Self::Image => "flameholder apply --desired /var/tmp/desired.json --os-backend rpm-ostree",
            Self::Files => "flameholder apply --desired /var/tmp/desired.json",
            Self::Rollback => "flameholder rollback",
            // Its time is over at once.
            Self::AutomaticRollback => {
                "printf '[boot-check]\\ntimeout = 1\\n' > /etc/flameholder/config.d/99-over.toml; systemctl restart flameholder-confirm-boot.service"
            }
        }
    }

    /// The host that it begins with.
    pub fn origin(self) -> Result<HostOrigin> {
        match self {
            Self::Image | Self::Files => running_one(),
            Self::Rollback => running_two(),
            Self::AutomaticRollback => staged_faulty(),
        }
    }

    /// Starts to stage it, and returns the process.
    pub fn begin_staging(self, host: &mut Host) -> Result<u64> {
        enable_rpm_ostreed(host)?;
        host.registry().start()?;
        host.write("/var/tmp/desired.json", two(host).render())?;
        host.spawn(&format!("{} --reboot never", self.command()))
    }

    /// Stages it.
    pub fn stage(self, host: &mut Host) -> Result<()> {
        match self {
            Self::Image => {
                enable_rpm_ostreed(host)?;
                host.registry().start()?;
                host.write("/var/tmp/desired.json", two(host).render())?;
                run_to_success(host, &format!("{} --reboot never", self.command()))?;
                host.registry().stop();
                Ok(())
            }
            Self::Files => {
                host.write("/var/tmp/desired.json", three().render())?;
                run_to_success(host, &format!("{} --reboot never", self.command()))
            }
            Self::Rollback => run_to_success(host, &format!("{} --reboot never", self.command())),
            Self::AutomaticRollback => {
                let long_timeout = "mkdir -p /etc/flameholder/config.d && printf '[boot-check]\\ntimeout = 100000\\n' > /etc/flameholder/config.d/90-long.toml";
                host.run_ok(&format!("{long_timeout} && echo unit > /var/fault && sync"))?;
                let before = host.boot_id()?;
                host.spawn("flameholder apply --desired /var/tmp/desired.json")?;
                host.wait_for_units(&before, REBOOT)
            }
        }
    }

    /// The name of the configuration that it leads to.
    pub fn target(self) -> &'static str {
        match self {
            Self::Image => "two",
            Self::Files => "three",
            Self::Rollback | Self::AutomaticRollback => "one",
        }
    }
}

/// Runs what takes longer than other commands.
pub fn run_to_success(host: &mut Host, command: &str) -> Result<()> {
    let process = host.spawn(command)?;
    let Output { code, stdout, stderr } = until(command, LONG_COMMAND, || host.output_if_ended(process))?;
    ensure!(code == 0, "`{command}` ended with {code}: {stdout}{stderr}");
    Ok(())
}

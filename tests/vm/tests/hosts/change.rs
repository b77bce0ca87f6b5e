//! Changes from one generation to another that the power cuts examine.

use std::time::Duration;

use anyhow::{Result, ensure};
use vm::operator::enable_rpm_ostreed;
use vm::{Host, HostOrigin, Output, until};

use crate::prepared::{running_one, running_two, staged_faulty, three, two};

/// Time limit of an emulated shutdown and boot.
pub const REBOOT: Duration = Duration::from_secs(600);
/// Time limit of an import, or of checksums over a whole OS, emulated on a busy machine.
const LONG_COMMAND: Duration = Duration::from_secs(1200);

/// A change from one generation to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Update to another image, with kernel arguments, files in `/etc` and outside, and units, by
    /// rpm-ostreed.
    Image,
    /// Update of files and units only, by libostree alone.
    Files,
    /// Rollback from the generation of `Image` by an operator.
    Rollback,
    /// Automatic rollback of a generation that fails its boot check.
    AutomaticRollback,
}

impl Change {
    /// Return the command that makes the change and reboots.
    pub fn command(self) -> String {
        match self {
            Self::Image | Self::Files | Self::Rollback => format!("{} --reboot auto", self.staging()),
            Self::AutomaticRollback => self.staging().to_owned(),
        }
    }

    /// Return the command that stages the change, or that causes the rollback.
    fn staging(self) -> &'static str {
        match self {
            Self::Image => "flameholder apply --desired /var/tmp/desired.json --os-backend rpm-ostree",
            Self::Files => "flameholder apply --desired /var/tmp/desired.json",
            Self::Rollback => "flameholder rollback",
            // A timeout of one second fails the boot check that is running.
            Self::AutomaticRollback => {
                "printf '[boot-check]\\ntimeout = 1\\n' > /etc/flameholder/config.d/99-over.toml; systemctl restart flameholder-confirm-boot.service"
            }
        }
    }

    /// Return the host on which the change is staged.
    pub fn origin(self) -> Result<HostOrigin> {
        match self {
            Self::Image | Self::Files => running_one(),
            Self::Rollback => running_two(),
            Self::AutomaticRollback => staged_faulty(),
        }
    }

    /// Start to stage the update to `two`, and return the process number.
    pub fn begin_staging(self, host: &mut Host) -> Result<u64> {
        enable_rpm_ostreed(host)?;
        host.registry().start()?;
        host.write("/var/tmp/desired.json", two(host).render())?;
        host.spawn(&format!("{} --locked", self.staging()))
    }

    /// Bring the host to the point from which [`Change::command`] makes the change: staged, or booted into
    /// the faulty generation.
    pub fn stage(self, host: &mut Host) -> Result<()> {
        match self {
            Self::Image => {
                enable_rpm_ostreed(host)?;
                host.registry().start()?;
                host.write("/var/tmp/desired.json", two(host).render())?;
                run_to_success(host, &format!("{} --locked", self.staging()))?;
                host.registry().stop();
                Ok(())
            }
            Self::Files => {
                host.write("/var/tmp/desired.json", three().render())?;
                run_to_success(host, &format!("{} --locked", self.staging()))
            }
            Self::Rollback => run_to_success(host, &format!("{} --locked", self.staging())),
            Self::AutomaticRollback => {
                let long_timeout = "mkdir -p /etc/flameholder/config.d && printf '[boot-check]\\ntimeout = 100000\\n' > /etc/flameholder/config.d/90-long.toml";
                host.run_ok(&format!("{long_timeout} && echo unit > /var/fault && sync"))?;
                let before = host.boot_id()?;
                host.spawn("flameholder apply --desired /var/tmp/desired.json --reboot auto")?;
                host.wait_for_units(&before, REBOOT)
            }
        }
    }

    /// Return the name of the config that the change leads to.
    pub fn target(self) -> &'static str {
        match self {
            Self::Image => "two",
            Self::Files => "three",
            Self::Rollback | Self::AutomaticRollback => "one",
        }
    }
}

/// Run a command that takes longer than the usual limit, and require success.
pub fn run_to_success(host: &mut Host, command: &str) -> Result<()> {
    let process = host.spawn(command)?;
    let Output { code, stdout, stderr } = until(command, LONG_COMMAND, || host.output_if_ended(process))?;
    ensure!(code == 0, "`{command}` failed with exit code {code}: {stdout}{stderr}");
    Ok(())
}

//! The changes that are looked at most closely.

use std::time::Duration;

use anyhow::{Result, ensure};
use vm::{Host, Output, Warm, until};

use crate::prepared::{running_one, running_two, three, two};

/// An emulated shutdown and boot.
pub const REBOOT: Duration = Duration::from_secs(600);
/// An import, or checksums of a whole OS, emulated on a machine that has other things to do.
const LONGEST: Duration = Duration::from_secs(1200);

/// From one generation to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// To another image, with kernel arguments, files in `/etc` and outside, and units.
    Image,
    /// The same without an image and without arguments.
    Files,
    /// Back from the first.
    Back,
}

impl Change {
    /// What starts it.
    pub fn command(self) -> &'static str {
        match self {
            Self::Image | Self::Files => "hostwright apply --desired /var/tmp/desired.json",
            Self::Back => "hostwright rollback",
        }
    }

    /// The host that it begins with.
    pub fn before(self) -> Result<Warm> {
        if self == Self::Back { running_two() } else { running_one() }
    }

    /// Starts to stage it, and returns the process.
    pub fn begin_staging(self, host: &mut Host) -> Result<u64> {
        host.registry().start()?;
        host.write("/var/tmp/desired.json", two(host).render())?;
        host.spawn(&format!("{} --reboot never", self.command()))
    }

    /// Stages it.
    pub fn stage(self, host: &mut Host) -> Result<()> {
        match self {
            Self::Image => {
                host.registry().start()?;
                host.write("/var/tmp/desired.json", two(host).render())?;
                ends_well(host, &format!("{} --reboot never", self.command()))?;
                host.registry().stop();
                Ok(())
            }
            Self::Files => {
                host.write("/var/tmp/desired.json", three().render())?;
                ends_well(host, &format!("{} --reboot never", self.command()))
            }
            Self::Back => ends_well(host, &format!("{} --reboot never", self.command())),
        }
    }

    /// The name of the configuration that it leads to.
    pub fn target(self) -> &'static str {
        match self {
            Self::Image => "two",
            Self::Files => "three",
            Self::Back => "one",
        }
    }
}

/// Runs what takes longer than other commands.
pub fn ends_well(host: &mut Host, command: &str) -> Result<()> {
    let process = host.spawn(command)?;
    let Output { code, stdout, stderr } = until(command, LONGEST, || host.ended(process))?;
    ensure!(code == 0, "`{command}` ended with {code}: {stdout}{stderr}");
    Ok(())
}

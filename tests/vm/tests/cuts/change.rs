//! The changes that are cut, and the saved hosts on which they are about to happen.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vm::{Host, Output, Warm, scenario, until};

use crate::config::Config;
use crate::expected::Expected;
use crate::judge::{Generation, Judge};
use crate::operator::{settled, update};

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
    /// The host on which it is staged, and waits.
    pub fn staged(self) -> Warm {
        Warm::Named(format!("staged-{self:?}").to_lowercase())
    }

    /// What starts it.
    pub fn command(self) -> &'static str {
        match self {
            Self::Image | Self::Files => "hostwright apply --desired /var/tmp/desired.json",
            Self::Back => "hostwright rollback",
        }
    }

    /// Makes that host, where it was not saved yet.
    pub fn prepare(self) -> Result<()> {
        if self.staged().is_saved()? {
            return Ok(());
        }
        let before = self.before();
        prepare_generation(&before)?;
        scenario(before, |host| {
            self.stage(host)?;
            // By others, between staging and the reboot.
            host.run_ok("echo local > /etc/local && sync")?;
            let Warm::Named(name) = self.staged() else { unreachable!("it has a name") };
            host.save_warm(&name)
        })
    }

    /// The host that it begins with.
    pub fn before(self) -> Warm {
        Warm::Named(if self == Self::Back { "two" } else { "one" }.into())
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

    /// Judges disks of this host, on which it is staged.
    pub fn judge(self, host: &mut Host) -> Result<Judge> {
        let (one, two, three) =
            (Expected::new(&one(), 1), Expected::new(&two(host), 2), Expected::new(&three(), 1));
        let (old, new) = match self {
            Self::Image => (one, two),
            Self::Files => (one, three),
            Self::Back => (two, one),
        };
        let line = host.run_ok("cat /proc/cmdline")?;
        let booted = line.split_whitespace().find_map(|word| word.strip_prefix("hostwright.generation="));
        let pending = host.run_ok("head -n 1 /var/lib/hostwright/pending | cut -d' ' -f2-")?;
        // Before it is staged it has no name, and nothing may boot it.
        let pending: Value = serde_json::from_str(&pending).unwrap_or_default();
        let pending = pending["record"]["generation"].as_str().unwrap_or("none");
        let booted = booted.context("no generation runs")?;
        Ok(Judge::new(
            Generation { id: booted.to_owned(), expected: old },
            Generation { id: pending.to_owned(), expected: new },
        ))
    }
}

/// Runs what takes longer than other commands.
pub fn ends_well(host: &mut Host, command: &str) -> Result<()> {
    let process = host.spawn(command)?;
    let Output { code, stdout, stderr } = until(command, LONGEST, || host.ended(process))?;
    ensure!(code == 0, "`{command}` ended with {code}: {stdout}{stderr}");
    Ok(())
}

/// Saves a host that runs a generation.
pub fn prepare_generation(warm: &Warm) -> Result<()> {
    if warm.is_saved()? {
        return Ok(());
    }
    let Warm::Named(name) = warm else { return Ok(()) };
    if name == "one" {
        return scenario(Warm::Fresh, |host| {
            update(host, &one())?;
            host.save_warm("one")
        });
    }
    Change::Image.prepare()?;
    scenario(Change::Image.staged(), |host| {
        let before = host.boot_id()?;
        host.spawn(Change::Image.command())?;
        host.wait_for_boot(&before, REBOOT)?;
        settled(host, "two")?;
        host.save_warm("two")
    })
}

fn one() -> Config {
    configured("one").file("/etc/app/only-in-one", "one").file("/usr/local/bin/only-in-one", "one")
}

fn two(host: &Host) -> Config {
    let image = host.image(2).expect("the images are built");
    let more = configured("two").image(&image).kernel_argument("hostwright-test=two");
    more.kernel_argument("twice").kernel_argument("twice").file("/etc/new/only-in-two", "two")
}

fn three() -> Config {
    configured("three").file("/usr/local/new/only-in-three", "three").unit("another.service")
}

/// What each of them has, of another content.
fn configured(name: &str) -> Config {
    let mut config = Config::named(name).unit("ours.service");
    for number in 0..6 {
        config = config.file(&format!("/etc/app/{number}.conf"), &format!("{number} {name}\n"));
    }
    let mode = if name == "one" { 0o600 } else { 0o640 };
    config.file_of_mode("/etc/app/secret", name, mode).file("/usr/local/bin/program", &name.repeat(4000))
}

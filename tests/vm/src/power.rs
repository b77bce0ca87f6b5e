//! Switching a host on and off, in an orderly way and otherwise.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};

use crate::agent::Agent;
use crate::host::{Host, Running};
use crate::machine::{Console, Machine};
use crate::monitor::Monitor;
use crate::serial::Serial;
use crate::wait::until;

/// From power-on to the last unit; emulated, on a loaded machine.
const BOOT: Duration = Duration::from_secs(420);
/// The same with an orderly shutdown before.
const REBOOT: Duration = Duration::from_secs(600);
/// How long one question to a guest that may still be booting waits.
const ANSWER: Duration = Duration::from_secs(1);
/// How a program ends that fails an assertion of its own.
const SIGABRT: i32 = 6;

impl Host {
    /// Reboots in an orderly way and returns when all units of the new boot have started or failed.
    pub fn reboot(&mut self) -> Result<()> {
        let previous = self.boot_id()?;
        self.spawn("systemctl reboot")?;
        self.wait_for_boot(&previous, REBOOT)
    }

    /// Waits for another boot than this one, until its units have started or failed, and what booted was judged.
    pub fn wait_for_boot(&mut self, previous: &str, limit: Duration) -> Result<()> {
        self.wait_for_matching_boot(limit, |host| Ok(host.boot_id()? != previous))?;
        self.wait_for_boot_check(limit)
    }

    /// The same without the judgement.
    pub fn wait_for_units(&mut self, previous: &str, limit: Duration) -> Result<()> {
        self.wait_for_matching_boot(limit, |host| Ok(host.boot_id()? != previous))
    }

    /// Waits for a boot whose kernel was started with this argument, and otherwise as [`Host::wait_for_boot`].
    pub fn wait_for_boot_with(&mut self, argument: &str, limit: Duration) -> Result<()> {
        self.wait_for_matching_boot(limit, |host| {
            let line = host.read("/proc/cmdline")?;
            Ok(String::from_utf8_lossy(&line).split_whitespace().any(|word| word == argument))
        })?;
        self.wait_for_boot_check(limit)
    }

    fn wait_for_matching_boot(
        &mut self,
        limit: Duration,
        matches_boot: impl Fn(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        let mut from = self.alive()?.serial.text()?.len();
        until("another boot", limit, || {
            if self.failed_early(from)? {
                self.start_booting()?;
                from = 0;
            }
            if !self.agent_answers(from)? {
                return Ok(None);
            }
            // The agent may end between one request and the next.
            Ok(matches_boot(self).unwrap_or_default().then_some(()))
        })?;
        self.wait_until_up(limit)
    }

    /// Kills QEMU: what the guest had not flushed is lost.
    pub fn power_cut(&mut self) {
        self.running = None;
    }

    /// Switches the host on and returns when its units have started or failed.
    pub fn power_on(&mut self) -> Result<()> {
        self.start_booting()?;
        until("the guest's agent", BOOT, || {
            if self.failed_early(0)? {
                self.start_booting()?;
            }
            Ok(self.agent_answers(0)?.then_some(()))
        })?;
        self.wait_until_up(BOOT)?;
        self.wait_for_boot_check(BOOT)
    }

    /// Switches the host on, and waits for nothing.
    pub fn switch_on(&mut self) -> Result<()> {
        self.start_booting()
    }

    /// Switches the host off in an orderly way.
    pub fn power_off(&mut self) -> Result<()> {
        self.spawn("systemctl poweroff")?;
        until("the guest to power off", REBOOT, || {
            let running = self.running.as_mut().context("the host is switched off")?;
            Ok(running.qemu.try_wait()?.map(drop))
        })?;
        self.running = None;
        Ok(())
    }

    /// Whether the agent runs, in a guest whose console says nothing fatal `from` this place on.
    fn agent_answers(&mut self, from: usize) -> Result<bool> {
        let running = self.alive()?;
        running.serial.ensure_alive(from)?;
        // A connection that breaks is QEMU's end, which the next look tells apart.
        Ok(running.agent.answers(ANSWER).unwrap_or(false))
    }

    /// Starts from the bootloader; the QEMU that ran before is gone.
    fn start_booting(&mut self) -> Result<()> {
        self.running = None;
        self.launch(None)
    }

    /// Whether QEMU has stopped by a fault of its own before the guest's root file system was in use again, `from` this
    /// place in the console on.
    ///
    /// Emulating two processors, QEMU now and then fails an assertion while the firmware or the kernel maps devices
    /// (`iotlb_to_section`, QEMU 10.0), the more often the busier the machine. Nothing has been written then.
    fn failed_early(&mut self, from: usize) -> Result<bool> {
        let running = self.running.as_mut().context("the host is switched off")?;
        let Some(status) = running.qemu.try_wait()? else {
            return Ok(false);
        };
        let console = running.serial.text()?;
        let console = console.get(from..).unwrap_or_default();
        let since_firmware =
            match (from, console.rfind("SYSLINUX").or_else(|| console.rfind("System Reboot"))) {
                (0, None) => console,
                (_, Some(at)) => console.get(at..).unwrap_or_default(),
                (_, None) => return Ok(false),
            };
        let fault = status.signal() == Some(SIGABRT) && !since_firmware.contains("Switch Root");
        if fault {
            eprintln!("QEMU failed in the firmware or the early kernel, and is started again");
        }
        Ok(fault)
    }

    pub(crate) fn restore(&mut self, state: &Path) -> Result<()> {
        self.launch(Some(state))?;
        let running = self.alive()?;
        running.monitor.resume_restored()?;
        until("the restored guest's agent", Duration::from_secs(60), || {
            Ok(running.agent.answers(Duration::from_secs(1))?.then_some(()))
        })?;
        // Its clock stands at the moment of saving.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        self.run_ok(&format!("date --set=@{now}")).map(drop)
    }

    fn launch(&mut self, incoming: Option<&Path>) -> Result<()> {
        ensure!(self.running.is_none(), "the host is switched on already");
        self.boots += 1;
        let log = self.folder.path().join(format!("console-{}", self.boots));
        // The sockets of an earlier run are replaced by QEMU.
        let machine = Machine {
            lab: &self.lab,
            disk: &self.disk,
            sockets: self.sockets.path(),
            registry_port: self.registry.port(),
            forwards: &[],
            console: Console::Log(log.clone()),
            incoming,
            write_log: self.write_log.as_deref(),
            ignition: self.ignition.as_deref(),
        };
        let (agent, monitor) = (machine.agent(), machine.monitor());
        for socket in [&agent, &monitor] {
            // There is none before the first run.
            let _ = std::fs::remove_file(socket);
        }
        let mut qemu = machine.start()?;
        let connected = Monitor::connect(&monitor).and_then(|monitor| Ok((monitor, Agent::connect(&agent)?)));
        let (monitor, agent) = match connected {
            Ok(connected) => connected,
            Err(error) => {
                let _ = qemu.kill();
                let _ = qemu.wait();
                let output = std::fs::read_to_string(log.with_extension("qemu")).unwrap_or_default();
                return Err(error.context(format!("QEMU did not start: {output}")));
            }
        };
        self.running = Some(Running { qemu, agent, monitor, serial: Serial::new(log), console_offset: 0 });
        Ok(())
    }

    fn wait_until_up(&mut self, limit: Duration) -> Result<()> {
        // It exits with an error where the state is anything but `running`; which it may be, see `allow_failed_unit`.
        let process = self.spawn("systemctl is-system-running --wait")?;
        let output = until("the last unit of the boot", limit, || self.output_if_ended(process))?;
        match output.stdout.trim() {
            "running" | "degraded" => Ok(()),
            state => bail!("the guest is {state:?} after its boot: {}", output.stderr),
        }
    }

    /// The judgement comes after the last unit: it waits for that.
    fn wait_for_boot_check(&mut self, limit: Duration) -> Result<()> {
        until("the judgement on what booted", limit, || {
            let state = self
                .run_ok("systemctl show --property=ActiveState --value flameholder-confirm-boot.service")?;
            Ok((!state.starts_with("activ")).then_some(()))
        })
    }
}

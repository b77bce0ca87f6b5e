//! Power: boots, orderly reboots and power cuts.

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

/// Time limit from power-on to the last unit, emulated on a loaded machine.
const BOOT: Duration = Duration::from_secs(420);
/// Time limit of an orderly shutdown and a boot.
const REBOOT: Duration = Duration::from_secs(600);
/// Time limit of one request to a guest that may still be booting.
const ANSWER: Duration = Duration::from_secs(1);
/// Signal that ends a program after a failed assertion.
const SIGABRT: i32 = 6;

impl Host {
    /// Reboot in an orderly way, and wait for the next boot and its boot check.
    pub fn reboot(&mut self) -> Result<()> {
        let previous = self.boot_id()?;
        self.spawn("systemctl reboot")?;
        self.wait_for_boot(&previous, REBOOT)
    }

    /// Wait for a boot other than `previous`, until its units have started or failed and its boot check is
    /// over.
    pub fn wait_for_boot(&mut self, previous: &str, limit: Duration) -> Result<()> {
        self.wait_for_matching_boot(limit, |host| Ok(host.boot_id()? != previous))?;
        self.wait_for_boot_check(limit)
    }

    /// Wait for a boot other than `previous`, until its units have started or failed, but not for the boot
    /// check.
    pub fn wait_for_units(&mut self, previous: &str, limit: Duration) -> Result<()> {
        self.wait_for_matching_boot(limit, |host| Ok(host.boot_id()? != previous))
    }

    /// Wait for a boot with this kernel argument, until its units have started or failed and its boot check
    /// is over.
    pub fn wait_for_boot_with(&mut self, argument: &str, limit: Duration) -> Result<()> {
        self.wait_for_matching_boot(limit, |host| {
            let line = host.read("/proc/cmdline")?;
            Ok(String::from_utf8_lossy(&line).split_whitespace().any(|word| word == argument))
        })?;
        self.wait_for_boot_check(limit)
    }

    /// Wait for a boot other than `previous` until a user may log in: until `sshd.service` is active and there is a network interface. Other units may still
    /// be starting.
    pub fn wait_for_login(&mut self, previous: &str, limit: Duration) -> Result<()> {
        self.wait_for_guest("a login to be possible", limit, |host| {
            let is_other = host.boot_id()? != previous;
            // The guest's agent needs no network, and a login does.
            let is_possible = "ls /sys/class/net | grep -qvx lo && systemctl --quiet is-active sshd.service";
            Ok(is_other && host.run(is_possible)?.code == 0)
        })
    }

    fn wait_for_matching_boot(
        &mut self,
        limit: Duration,
        matches_boot: impl Fn(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        self.wait_for_guest("the next boot", limit, matches_boot)?;
        self.wait_until_up(limit)
    }

    /// Wait until the guest's agent answers and `holds` is true. A boot that QEMU failed before its root file system was in use
    /// is repeated.
    fn wait_for_guest(
        &mut self,
        what: &str,
        limit: Duration,
        holds: impl Fn(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        let mut from = self.alive()?.serial.text()?.len();
        until(what, limit, || {
            if self.failed_early(from)? {
                self.start_booting()?;
                from = 0;
            }
            if !self.agent_answers(from)? {
                return Ok(None);
            }
            // The agent may end between two requests.
            Ok(holds(self).unwrap_or_default().then_some(()))
        })
    }

    /// Kill QEMU: data that the guest has not flushed is lost.
    pub fn power_cut(&mut self) {
        self.running = None;
    }

    /// Switch the host on, and wait until its units have started or failed and its boot check is over.
    pub fn power_on(&mut self) -> Result<()> {
        self.start_booting()?;
        until("the guest agent to answer", BOOT, || {
            if self.failed_early(0)? {
                self.start_booting()?;
            }
            Ok(self.agent_answers(0)?.then_some(()))
        })?;
        self.wait_until_up(BOOT)?;
        self.wait_for_boot_check(BOOT)
    }

    /// Switch the host on without waiting for its boot.
    pub fn switch_on(&mut self) -> Result<()> {
        self.start_booting()
    }

    /// Switch the host off in an orderly way.
    pub fn power_off(&mut self) -> Result<()> {
        self.spawn("systemctl poweroff")?;
        until("the guest to power off", REBOOT, || {
            let running = self.running.as_mut().context("the host is switched off")?;
            Ok(running.qemu.try_wait()?.map(drop))
        })?;
        self.running = None;
        Ok(())
    }

    /// Return true if the agent answers.
    ///
    /// # Errors
    /// The console has reported a panic or an emergency shell after its first `from` bytes.
    fn agent_answers(&mut self, from: usize) -> Result<bool> {
        let allowed = self.errors.clone();
        let running = self.alive()?;
        running.serial.ensure_alive(from, &allowed)?;
        // A broken connection means that QEMU has ended, which the next call of `alive` reports.
        Ok(running.agent.answers(ANSWER).unwrap_or(false))
    }

    /// Start a new QEMU from the bootloader.
    fn start_booting(&mut self) -> Result<()> {
        self.running = None;
        self.launch(None)
    }

    /// Return true if QEMU has crashed before the guest's root file system was in use again, after the first
    /// `from` bytes of the console.
    ///
    /// QEMU 10.0 emulating two processors sometimes fails an assertion while the firmware or the kernel maps
    /// devices (`iotlb_to_section`), more often on a busy machine. The guest has written nothing by then, so
    /// the boot can be repeated.
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
            eprintln!("QEMU crashed in the firmware or the early kernel; starting it again");
        }
        Ok(fault)
    }

    pub(crate) fn restore(&mut self, state: &Path) -> Result<()> {
        self.launch(Some(state))?;
        let running = self.alive()?;
        running.monitor.resume_restored()?;
        until("the guest agent to answer after the resume", Duration::from_secs(60), || {
            Ok(running.agent.answers(Duration::from_secs(1))?.then_some(()))
        })?;
        // The guest's clock shows the time of saving.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        self.run_ok(&format!("date --set=@{now}")).map(drop)
    }

    fn launch(&mut self, incoming: Option<&Path>) -> Result<()> {
        ensure!(self.running.is_none(), "the host is already switched on");
        self.boots += 1;
        let log = self.folder.path().join(format!("console-{}", self.boots));
        // QEMU creates new sockets in place of those of an earlier run.
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
            data_disk: self.data_disk.as_ref(),
        };
        let (agent, monitor) = (machine.agent(), machine.monitor());
        for socket in [&agent, &monitor] {
            // Before the first run there is no socket.
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
        // `is-system-running` exits with an error in each state but `running`. `degraded` is valid here: the
        // scenario checks failed units.
        let process = self.spawn("systemctl is-system-running --wait")?;
        let output = until("the last unit of the boot to start", limit, || self.output_if_ended(process))?;
        match output.stdout.trim() {
            "running" | "degraded" => Ok(()),
            state => bail!("systemd reports the state {state:?} after the boot: {}", output.stderr),
        }
    }

    /// Wait for the end of the boot check, which starts after the last unit of the boot.
    fn wait_for_boot_check(&mut self, limit: Duration) -> Result<()> {
        until("the boot check to end", limit, || {
            let state = self
                .run_ok("systemctl show --property=ActiveState --value flameholder-confirm-boot.service")?;
            Ok((!state.starts_with("activ")).then_some(()))
        })
    }
}

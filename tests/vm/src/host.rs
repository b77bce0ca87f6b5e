//! A host: a virtual machine with a disk, a console and a registry.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::agent::{Agent, Output};
use crate::lab::Lab;
use crate::machine::DataDisk;
use crate::monitor::Monitor;
use crate::registry::{self, Registry};
use crate::serial::Serial;
use crate::wait::until;
use crate::{evidence, snapshot};

/// Size of the disk that [`Start::data_disk`] names.
const DATA_DISK_BYTES: u64 = 2 << 30;
/// Time limit of a command in the guest.
const COMMAND: Duration = Duration::from_secs(300);

/// State from which a host starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostOrigin {
    /// Version 1 of the OS, booted once and running.
    Fresh,
    /// Version 1 of the OS as an installer leaves it. [`Host::start`] waits for its first boot.
    NeverBooted,
    /// A machine as an installer leaves it for Ignition, and its Ignition config. [`Host::start`] does not
    /// wait for the first boot.
    Unprovisioned(String),
    /// The same machine with an OS image that does not have the agent.
    WithoutAgent(String),
    /// A host that [`Host::save_as`] saved under this name.
    Saved(String),
    /// A disk image in the qcow2 format, which is booted.
    Disk(PathBuf),
    /// A disk image in the qcow2 format; the host stays switched off.
    SwitchedOff(PathBuf),
}

/// Options for the start of a host: its origin, and what differs from a usual host.
#[derive(Debug, Clone)]
pub struct Start {
    pub origin: HostOrigin,
    /// Record each write to the disk in this file, in the format of the kernel's dm-log-writes.
    pub write_log: Option<PathBuf>,
    /// Add an empty disk without a file system, which udev links as `virtio-` and this name in `/dev/disk/by-id`.
    pub data_disk: Option<String>,
}

impl From<HostOrigin> for Start {
    fn from(origin: HostOrigin) -> Self {
        Self { origin, write_log: None, data_disk: None }
    }
}

/// A host, running or switched off. Dropping it kills its QEMU.
#[derive(Debug)]
pub struct Host {
    pub(crate) lab: Lab,
    pub(crate) name: String,
    pub(crate) folder: TempDir,
    pub(crate) sockets: TempDir,
    pub(crate) disk: PathBuf,
    pub(crate) write_log: Option<PathBuf>,
    /// Disk besides that of the OS, and its serial.
    pub(crate) data_disk: Option<DataDisk>,
    /// File with the Ignition config of an unprovisioned machine.
    pub(crate) ignition: Option<PathBuf>,
    pub(crate) registry: Registry,
    pub(crate) boots: u32,
    pub(crate) running: Option<Running>,
    pub(crate) failed_units: Vec<String>,
    pub(crate) errors: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) qemu: Child,
    pub(crate) agent: Agent,
    pub(crate) monitor: Monitor,
    pub(crate) serial: Serial,
    /// Byte of the console up to which [`Host::wait_for_console`] has searched.
    pub(crate) console_offset: usize,
}

impl Drop for Running {
    fn drop(&mut self) {
        // QEMU may have ended by itself.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

impl Host {
    /// Start a host on a disk of its own.
    pub fn start(origin: HostOrigin) -> Result<Self> {
        Self::start_with(origin.into())
    }

    /// Start a host with all options.
    pub fn start_with(start: Start) -> Result<Self> {
        let lab = Lab::locate()?;
        let base = snapshot::base(&lab, &start.origin)?;
        match start.origin {
            HostOrigin::Unprovisioned(config) | HostOrigin::WithoutAgent(config) => {
                let mut host = Self::new(lab, &base, start.write_log)?;
                if let Some(name) = start.data_disk {
                    host.add_data_disk(&name)?;
                }
                let file = host.folder().join("ignition.json");
                std::fs::write(&file, config)?;
                host.ignition = Some(file);
                host.switch_on()?;
                Ok(host)
            }
            HostOrigin::SwitchedOff(_) => Self::new(lab, &base, start.write_log),
            _ => Self::start_from(lab, &base, start.write_log),
        }
    }

    /// Create a host that is switched off.
    fn new(lab: Lab, base: &snapshot::Base, write_log: Option<PathBuf>) -> Result<Self> {
        let name = evidence::test_name();
        let folder = tempfile::Builder::new().prefix("host-").tempdir_in(lab.folder("run")?)?;
        let disk = folder.path().join("disk.qcow2");
        lab.overlay(&base.disk, &disk)?;
        let builder = lab.stage("builder")?.join("tree");
        let port = registry::free_port()?;
        // While the images are built, there are none to serve.
        let images = lab.os_stage("images").unwrap_or_default().join("registry");
        Ok(Self {
            registry: Registry::new(&builder, &images, folder.path(), port),
            sockets: tempfile::Builder::new().prefix("vm-").tempdir()?,
            lab,
            name,
            folder,
            disk,
            write_log,
            data_disk: None,
            ignition: None,
            boots: 0,
            running: None,
            failed_units: Vec::new(),
            errors: Vec::new(),
        })
    }

    pub(crate) fn start_from(lab: Lab, base: &snapshot::Base, write_log: Option<PathBuf>) -> Result<Self> {
        let mut host = Self::new(lab, base, write_log)?;
        let up = match &base.state {
            None => host.power_on(),
            Some(state) => host.restore(state),
        };
        match up {
            Ok(()) => Ok(host),
            Err(error) => Err(error.context(evidence::keep_and_describe(&mut host))),
        }
    }

    /// Create the disk that [`Start::data_disk`] names.
    fn add_data_disk(&mut self, serial: &str) -> Result<()> {
        let file = self.folder().join("data.raw");
        std::fs::File::create(&file)?.set_len(DATA_DISK_BYTES)?;
        self.data_disk = Some(DataDisk { file, serial: serial.to_owned() });
        Ok(())
    }

    /// Run a shell command as root, and return its result regardless of the exit code.
    pub fn run(&mut self, command: &str) -> Result<Output> {
        let process = self.spawn(command)?;
        until(&format!("`{command}` in the guest"), COMMAND, || self.output_if_ended(process))
    }

    /// Run a shell command as root, and return its standard output.
    ///
    /// # Errors
    /// The exit code is not 0; the error has both output streams.
    pub fn run_ok(&mut self, command: &str) -> Result<String> {
        let Output { code, stdout, stderr } = self.run(command)?;
        ensure!(code == 0, "`{command}` failed in the guest with exit code {code}:\n{stdout}{stderr}");
        Ok(stdout)
    }

    /// Start a shell command, and return its process number for [`Host::output_if_ended`]. The number is
    /// invalid after a reboot.
    pub fn spawn(&mut self, command: &str) -> Result<u64> {
        self.alive()?.agent.start(command)
    }

    /// Return the result of a started command, or `None` while it runs.
    pub fn output_if_ended(&mut self, process: u64) -> Result<Option<Output>> {
        self.alive()?.agent.output_if_ended(process)
    }

    /// Read a file of the guest.
    pub fn read(&mut self, path: &str) -> Result<Vec<u8>> {
        self.alive()?.agent.read(path).with_context(|| format!("reading {path} in the guest"))
    }

    /// Replace the content of a file in the guest; its directory exists. Only root may change the file afterwards: the
    /// guest agent creates files that every user may write.
    pub fn write(&mut self, path: &str, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.alive()?
            .agent
            .write(path, bytes.as_ref())
            .with_context(|| format!("writing {path} in the guest"))?;
        self.run_ok(&format!("chmod go-w '{path}'")).map(drop)
    }

    /// Return the kernel's ID of this boot.
    pub fn boot_id(&mut self) -> Result<String> {
        let bytes = self.read("/proc/sys/kernel/random/boot_id")?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Wait for this text on the console, after the text of the previous call.
    pub fn wait_for_console(&mut self, text: &str, limit: Duration) -> Result<()> {
        let allowed = self.errors.clone();
        until(&format!("{text:?} on the console"), limit, || {
            let running = self.alive()?;
            running.serial.ensure_alive(running.console_offset, &allowed)?;
            let console = running.serial.text()?;
            let Some(at) = console.get(running.console_offset..).and_then(|new| new.find(text)) else {
                return Ok(None);
            };
            running.console_offset += at + text.len();
            Ok(Some(()))
        })
    }

    /// Return the console's output since power-on.
    pub fn console(&mut self) -> Result<String> {
        self.running.as_ref().context("the host is switched off")?.serial.text()
    }

    /// Return the registry of this host. It is stopped at first.
    pub fn registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Return the reference under which the guest finds this version of the OS.
    pub fn image(&self, version: u32) -> Result<String> {
        self.lab.image(version)
    }

    /// Execute a command of QEMU's monitor, such as `stop`, `cont` or `query-block`.
    pub fn monitor(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        self.alive()?.monitor.execute(command, arguments)
    }

    /// Return a checksum over everything that belongs to a generation: `/etc`, `/usr/local`, Flameholder's
    /// state and the boot entries, with modes, owners and links, without times.
    pub fn state_hash(&mut self) -> Result<String> {
        Ok(self.run_ok("/usr/libexec/flameholder-test/state | sha256sum | cut -d' ' -f1")?.trim().to_owned())
    }

    /// Accept a failed unit at the end of the test: `name` is the unit's name or its beginning.
    pub fn allow_failed_unit(&mut self, name: &str) {
        self.failed_units.push(name.to_owned());
    }

    /// Accept error messages with this text from Flameholder's units, a fatal message on the console with it, and audit
    /// records of denials.
    pub fn allow_error(&mut self, text: &str) {
        self.errors.push(text.to_owned());
    }

    /// Stop the host, and save its disk and memory under a name, for [`HostOrigin::Saved`]. They are valid
    /// until the next build of the hosts or of this test program.
    pub fn save_as(&mut self, name: &str) -> Result<()> {
        let target = snapshot::folder(&self.lab, name)?;
        snapshot::remove_others(&target)?;
        self.save_to(&target)
    }

    /// Stop the machine, and move its disk and its memory into a new folder.
    pub(crate) fn save_to(&mut self, target: &Path) -> Result<()> {
        // Each resume reads the saved memory: drop the caches to keep it small.
        self.run_ok("sync && echo 3 > /proc/sys/vm/drop_caches")?;
        let state = self.folder.path().join("state");
        self.alive()?.monitor.save(&state)?;
        self.alive()?.monitor.execute("quit", &Value::Object(serde_json::Map::default())).map(drop)?;
        until("QEMU to end", Duration::from_secs(30), || {
            let running = self.running.as_mut().context("the host is switched off")?;
            Ok(running.qemu.try_wait()?.map(drop))
        })?;
        self.running = None;
        snapshot::keep(target, &self.disk, &state)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Return the folder with this host's disk and logs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Return the running machine.
    ///
    /// # Errors
    /// The host is switched off, or QEMU has ended.
    pub(crate) fn alive(&mut self) -> Result<&mut Running> {
        let running = self.running.as_mut().context("the host is switched off")?;
        if let Some(status) = running.qemu.try_wait()? {
            bail!("QEMU ended with {status}; last lines of the console:\n{}", running.serial.tail());
        }
        Ok(running)
    }
}

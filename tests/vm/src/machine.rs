//! QEMU's command line and process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

use anyhow::{Context as _, Result};

use crate::accel::Accelerator;
use crate::lab::{Lab, REGISTRY};
use crate::program;

/// Hardware of each machine. A saved state resumes only on this hardware, with the same version of QEMU.
pub const HARDWARE: &str = "-nodefaults -no-user-config -display none -machine q35 -smp 2 -m 1024 \
    -device virtio-serial-pci -object rng-random,id=random,filename=/dev/urandom -device virtio-rng-pci,rng=random";

/// A machine that is not started yet.
#[derive(Debug)]
pub struct Machine<'a> {
    pub lab: &'a Lab,
    /// Disk image in the qcow2 format, which the machine writes to.
    pub disk: &'a Path,
    /// Folder for sockets, with a short path: a socket's path has at most 107 bytes.
    pub sockets: &'a Path,
    /// Port of the registry on this machine's loopback; the registry may be stopped.
    pub registry_port: u16,
    pub forwards: &'a [Forward],
    pub console: Console,
    /// Saved state to resume from, instead of a boot.
    pub incoming: Option<&'a Path>,
    /// File with the Ignition config, passed as QEMU's `fw_cfg` `opt/com.coreos/config`.
    pub ignition: Option<&'a Path>,
    /// File for a record of each write to the disk, in the format of the kernel's dm-log-writes.
    pub write_log: Option<&'a Path>,
    pub data_disk: Option<&'a DataDisk>,
}

/// Disk besides the one that the machine boots from.
#[derive(Debug, Clone)]
pub struct DataDisk {
    /// Image in the raw format.
    pub file: PathBuf,
    /// Serial number of the disk, by which udev links it.
    pub serial: String,
}

/// Forward of a port of this machine's loopback to a port of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forward {
    here: u16,
    guest: u16,
}

impl FromStr for Forward {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (here, guest) = text.split_once(':').context("expected HERE:GUEST, such as 2222:22")?;
        Ok(Self { here: here.parse()?, guest: guest.parse()? })
    }
}

/// Destination of the serial console.
#[derive(Debug)]
pub enum Console {
    Log(PathBuf),
    /// This terminal, together with QEMU's monitor.
    Terminal,
}

impl Machine<'_> {
    /// Return the path of the guest agent's socket.
    pub fn agent(&self) -> PathBuf {
        self.sockets.join("agent")
    }

    /// Return the path of the monitor's socket.
    pub fn monitor(&self) -> PathBuf {
        self.sockets.join("monitor")
    }

    /// Start QEMU. The kernel kills it when the calling thread ends.
    pub fn start(&self) -> Result<Child> {
        let mut qemu = self.command()?;
        if let Console::Log(log) = &self.console {
            let errors = log.with_extension("qemu");
            let errors = File::create(&errors).with_context(|| format!("writing {}", errors.display()))?;
            qemu.stdin(Stdio::null()).stdout(errors.try_clone()?).stderr(errors);
        }
        qemu.spawn().context("starting QEMU")
    }

    fn command(&self) -> Result<Command> {
        let builder = self.lab.stage("builder")?.join("tree");
        let qemu = program::of_tree(&builder, "usr/bin/qemu-system-x86_64");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(qemu.get_program()).args(qemu.get_args());
        command.args(["-L"]).arg(builder.join("usr/share/qemu"));
        command.args(["-L"]).arg(builder.join("usr/share/seabios"));
        command.args(HARDWARE.split_whitespace());
        command.args(Accelerator::of(self.lab)?.arguments());
        self.add_disk(&mut command)?;
        self.add_network(&mut command, &builder);
        match &self.console {
            Console::Log(log) => {
                command.arg("-chardev").arg(format!("file,id=console,path={}", log.display()));
                command.args(["-serial", "chardev:console"]);
            }
            Console::Terminal => {
                command.args(["-serial", "mon:stdio"]);
            }
        }
        let socket =
            |id: &str, path: &Path| format!("socket,id={id},path={},server=on,wait=off", path.display());
        command.arg("-chardev").arg(socket("agent", &self.agent()));
        command.args(["-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"]);
        command.arg("-chardev").arg(socket("monitor", &self.monitor()));
        command.args(["-mon", "chardev=monitor,mode=control"]);
        if let Some(config) = self.ignition {
            let config = format!("name=opt/com.coreos/config,file={}", config.display());
            command.args(["-fw_cfg", &config]);
        }
        if let Some(state) = self.incoming {
            command.arg("-incoming").arg(format!("file:{}", state.display()));
        }
        Ok(command)
    }

    fn add_disk(&self, command: &mut Command) -> Result<()> {
        let disk = self.disk.display();
        command.arg("-blockdev").arg(format!(
            "driver=qcow2,node-name=written,discard=unmap,file.driver=file,file.filename={disk}"
        ));
        let mut node = "written";
        if let Some(log) = self.write_log {
            File::create(log).with_context(|| format!("writing {}", log.display()))?;
            command.arg("-blockdev").arg(format!("driver=file,node-name=log,filename={}", log.display()));
            command.arg("-blockdev").arg(
                "driver=blklogwrites,node-name=logged,file=written,log=log,\
                 log-sector-size=512,log-super-update-interval=1",
            );
            node = "logged";
        }
        command.arg("-device").arg(format!("virtio-blk-pci,drive={node},bootindex=0"));
        if let Some(DataDisk { file, serial }) = self.data_disk {
            command.arg("-blockdev").arg(format!("driver=file,node-name=data,filename={}", file.display()));
            command.arg("-device").arg(format!("virtio-blk-pci,drive=data,serial={serial}"));
        }
        Ok(())
    }

    /// Add a network in which the guest reaches its registry and nothing else, since nothing is routed, and
    /// which is entered only through the forwarded ports.
    fn add_network(&self, command: &mut Command, builder: &Path) {
        let mut relay = program::of_tree(builder, "usr/bin/socat");
        relay.arg("STDIO").arg(format!("TCP:127.0.0.1:{}", self.registry_port));
        let forward =
            |forward: &Forward| format!(",hostfwd=tcp:127.0.0.1:{}-:{}", forward.here, forward.guest);
        let forwards: String = self.forwards.iter().map(forward).collect();
        command.arg("-netdev").arg(format!(
            "user,id=network,restrict=on{forwards},guestfwd=tcp:{REGISTRY}-cmd:{}",
            program::shown(&relay)
        ));
        command.args(["-device", "virtio-net-pci,netdev=network,romfile="]);
    }
}

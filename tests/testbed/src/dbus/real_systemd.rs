//! Real systemd for a single test: a user instance, in namespaces and a control group that end with it, on a
//! bus that it starts itself.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flameholder::host::systemd::unit_jobs::SystemdServices;
use futures_lite::StreamExt as _;

use crate::preconditions;

/// Longest wait for the start; only a systemd that cannot run here takes that long.
const START: Duration = Duration::from_secs(30);

/// Script that moves itself into a new control group below its present one, and removes that at the end. `$1`
/// is the mount point of the unified hierarchy.
const OUTSIDE: &str = r#"
set -e
home=$1$(sed -n 's/^0:://p' /proc/self/cgroup)
group=$home/flameholder-test-$$
mkdir "$group"
leave() { echo $$ > "$home/cgroup.procs"; find "$group" -depth -type d -exec rmdir {} +; }
trap leave EXIT
echo $$ > "$group/cgroup.procs"
unshare --mount --pid --cgroup --fork --kill-child --mount-proc sh -c "$2" || true
"#;

/// Script of the first process in the namespace. It ends when its input ends, and the kernel then ends all
/// other processes of the namespace first.
const INSIDE: &str = r"
set -e
mount -t tmpfs -o mode=755 none /run
mkdir -p /run/systemd/system
mount -t cgroup2 none /sys/fs/cgroup
systemd --user --log-target=console < /dev/null &
read -r _
";

/// Running user instance of systemd.
#[derive(Debug)]
pub struct RealSystemd {
    pub systemd: SystemdServices,
    directory: tempfile::TempDir,
    shell: Child,
}

impl RealSystemd {
    /// Start a systemd with these unit files.
    pub fn start(units: &[(&str, &str)]) -> Self {
        preconditions::require_installed(&["systemd", "dbus-daemon", "unshare"]);
        preconditions::require_root();
        Self::try_start(units).unwrap_or_else(|why| panic!("cannot start a user instance of systemd: {why}"))
    }

    fn try_start(units: &[(&str, &str)]) -> Result<Self, String> {
        let hierarchy = unified_hierarchy().ok_or("no unified control group hierarchy is mounted")?;
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["run", "home", "units"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let notified = UnixDatagram::bind(at("notify")).unwrap();
        let address = format!("unix:path={}", at("bus").display());
        let mut shell = Command::new("sh");
        shell
            .args(["-c", OUTSIDE, "sh"])
            .arg(hierarchy)
            .arg(INSIDE)
            .env("XDG_RUNTIME_DIR", at("run"))
            .env("HOME", at("home"))
            .env("SYSTEMD_UNIT_PATH", at("units"))
            .env("DBUS_SESSION_BUS_ADDRESS", &address)
            .env("NOTIFY_SOCKET", at("notify"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let real = Self { systemd: SystemdServices::at(&address), shell: shell.spawn().unwrap(), directory };
        real.define_base();
        for (name, text) in units {
            real.define(name, text);
        }
        await_ready(&notified)?;
        await_name(&address)?;
        Ok(real)
    }

    /// Write the least units that systemd starts with, and those of its bus.
    fn define_base(&self) {
        for target in ["basic.target", "shutdown.target", "exit.target"] {
            self.define(target, "[Unit]\nDefaultDependencies=no\n");
        }
        let own = "[Unit]\nDefaultDependencies=no\n";
        self.define("default.target", &format!("{own}Wants=dbus.service\n"));
        let socket = self.file("bus");
        self.define("dbus.socket", &format!("{own}[Socket]\nListenStream={}\n", socket.display()));
        self.define(
            "dbus.service",
            &format!(
                "{own}Requires=dbus.socket\n[Service]\nType=notify\n\
                 ExecStart=dbus-daemon --session --address=systemd: --nofork --nopidfile\n"
            ),
        );
    }

    /// Write a unit file; systemd has not loaded it yet.
    pub fn define(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join("units").join(name), text).unwrap();
    }

    /// Path of a file in the test's directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for RealSystemd {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        self.shell.wait().unwrap();
    }
}

fn unified_hierarchy() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    mounts.find(|fields| fields.get(2) == Some(&"cgroup2")).map(|fields| Path::new(fields[1]).to_owned())
}

/// Wait for `READY=1`, by the protocol of `sd_notify(3)`.
fn await_ready(notified: &UnixDatagram) -> Result<(), String> {
    notified.set_read_timeout(Some(START)).unwrap();
    let mut buffer = [0; 4096];
    loop {
        let length = notified.recv(&mut buffer).map_err(|_| format!("not ready after {START:?}"))?;
        if String::from_utf8_lossy(&buffer[..length]).lines().any(|line| line == "READY=1") {
            return Ok(());
        }
    }
}

fn await_name(address: &str) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let named = async {
        let connection = zbus::connection::Builder::address(address)?.build().await?;
        let bus = zbus::fdo::DBusProxy::new(&connection).await?;
        let name = zbus::names::BusName::try_from("org.freedesktop.systemd1")?;
        let mut changes = bus.receive_name_owner_changed_with_args(&[(0, name.as_str())]).await?;
        if !bus.name_has_owner(name).await? {
            changes.next().await;
        }
        zbus::Result::Ok(())
    };
    let named = runtime.block_on(async { tokio::time::timeout(START, named).await });
    named.map_err(|_| format!("not on its bus after {START:?}"))?.map_err(|error| error.to_string())
}

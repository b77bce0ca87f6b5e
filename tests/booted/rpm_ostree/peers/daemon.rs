//! The stand-in for rpm-ostreed: this test program, installed on the host under the daemon's name.

use std::fs::File;
use std::path::Path;

use testbed::booted::host::Host;

use crate::rpm_ostree::peers::stranger::Peer;

/// The program's name on the host.
pub(crate) const PROGRAM: &str = "rpm-ostreed";
/// Environment variable that makes this program the daemon; its value is the idle time in milliseconds.
const IDLE_VARIABLE: &str = "RPM_OSTREED_IDLE";
/// Environment variable with the transaction socket's path from outside the host.
const ANNOUNCE_VARIABLE: &str = "RPM_OSTREED_ANNOUNCE";
/// The file with the daemon's faults, on the host.
pub(crate) const FAULTS: &str = "/run/rpm-ostreed-faults.json";
pub(crate) const SOCKET: &str = "/run/rpm-ostree-transaction.sock";

/// Environment variable that makes this program cancel a transaction; its value is the transaction's address.
pub(crate) const CANCEL_VARIABLE: &str = "RPM_OSTREED_CANCEL_VARIABLE";

/// Environment variable that makes this program hold a lock on a file until `/run/held` is removed; its value is the file.
pub(crate) const LOCK_VARIABLE: &str = "RPM_OSTREED_LOCK_VARIABLE";

/// The name under which the test executable runs [`rpm_ostreed_runs_as_a_service`].
pub(crate) const SERVING: &str = "rpm_ostree::peers::daemon::rpm_ostreed_runs_as_a_service";

/// Not a test: the daemon, a client that cancels a transaction, or a program that holds a lock.
#[test]
#[ignore = "service: other tests start it on their hosts"]
fn rpm_ostreed_runs_as_a_service() {
    if let Ok(address) = std::env::var(CANCEL_VARIABLE) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { Peer::connect(&address).await.cancel().await });
    }
    if let Ok(file) = std::env::var(LOCK_VARIABLE) {
        hold_lock(Path::new(&file));
    }
    let Ok(idle) = std::env::var(IDLE_VARIABLE) else { return };
    let options = rpmostreed::Options {
        socket: SOCKET.into(),
        announce: std::env::var_os(ANNOUNCE_VARIABLE).map(Into::into),
        faults: FAULTS.into(),
        idle: idle.parse().unwrap(),
    };
    rpmostreed::serve(&options).unwrap();
}

fn hold_lock(file: &Path) {
    let lock = File::options().write(true).create(true).truncate(false).open(file).unwrap();
    rustix::fs::fcntl_lock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    std::fs::write("/run/held", "").unwrap();
    while Path::new("/run/held").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// The command that starts the daemon on the host.
pub(crate) fn command(idle: u64, announce: Option<&Path>) -> Vec<String> {
    let mut command = vec!["env".to_owned(), format!("{IDLE_VARIABLE}={idle}")];
    command.extend(announce.map(|path| format!("{ANNOUNCE_VARIABLE}={}", path.display())));
    command.extend([PROGRAM, "--ignored", "--exact", SERVING, "--nocapture"].map(str::to_owned));
    command
}

/// Installs the daemon on the host.
pub(crate) fn install(host: &Host) {
    let own = std::env::current_exe().unwrap();
    host.put_program(PROGRAM, Some(Path::new(&own)));
}

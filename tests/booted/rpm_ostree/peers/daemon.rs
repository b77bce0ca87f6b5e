//! The stand-in for rpm-ostreed. It is this program, which is on the host under its name.

use std::path::Path;

use crate::rpm_ostree::peers::stranger::Peer;
use testbed::booted::host::Host;

/// The program's name on the host.
pub(crate) const PROGRAM: &str = "rpm-ostreed";
/// By which this program knows that it is to be the daemon; where its faults are.
const SERVES: &str = "RPM_OSTREED_IDLE";
/// Where others than the host find its transactions.
const ANNOUNCES: &str = "RPM_OSTREED_ANNOUNCE";
pub(crate) const FAULTS: &str = "/run/rpm-ostreed-faults.json";
pub(crate) const SOCKET: &str = "/run/rpm-ostree-transaction.sock";

/// By which it knows that it is to cancel a transaction; where that is found.
pub(crate) const CANCELS: &str = "RPM_OSTREED_CANCELS";

/// The name of that which serves, as the test executable knows it.
pub(crate) const SERVING: &str = "rpm_ostree::peers::daemon::serves";

/// Not a test, but the daemon where it is called as such, or a client that cancels.
#[test]
#[ignore = "only hosts that other tests started run it"]
fn serves() {
    if let Ok(address) = std::env::var(CANCELS) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { Peer::connect(&address).await.cancel().await });
    }
    let Ok(idle) = std::env::var(SERVES) else { return };
    let options = rpmostreed::Options {
        socket: SOCKET.into(),
        announce: std::env::var_os(ANNOUNCES).map(Into::into),
        faults: FAULTS.into(),
        idle: idle.parse().unwrap(),
    };
    rpmostreed::serve(&options).unwrap();
}

/// The command that starts it on the host.
pub(crate) fn command(idle: u64, announce: Option<&Path>) -> Vec<String> {
    let mut command = vec!["env".to_owned(), format!("{SERVES}={idle}")];
    command.extend(announce.map(|path| format!("{ANNOUNCES}={}", path.display())));
    command.extend([PROGRAM, "--ignored", "--exact", SERVING, "--nocapture"].map(str::to_owned));
    command
}

/// Puts it on the host.
pub(crate) fn install(host: &Host) {
    let own = std::env::current_exe().unwrap();
    host.put_program(PROGRAM, Some(Path::new(&own)));
}

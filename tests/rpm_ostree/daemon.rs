//! The stand-in for rpm-ostreed. It is this program, which is on the host under its name.

use std::path::Path;

use crate::host::Host;

/// The program's name on the host.
pub(crate) const PROGRAM: &str = "rpm-ostreed";
/// By which this program knows that it is to be the daemon; where its faults are.
const SERVES: &str = "RPM_OSTREED_IDLE";
pub(crate) const FAULTS: &str = "/run/rpm-ostreed-faults.json";
pub(crate) const SOCKET: &str = "/run/rpm-ostree-transaction.sock";

/// Not a test, but the daemon where it is called as such.
#[test]
fn serves() {
    let Ok(idle) = std::env::var(SERVES) else { return };
    let options = rpmostreed::Options {
        socket: SOCKET.into(),
        faults: FAULTS.into(),
        idle: idle.parse().unwrap(),
    };
    rpmostreed::serve(&options).unwrap();
}

/// The command that starts it on the host.
pub(crate) fn command(idle: u64) -> Vec<String> {
    let variable = format!("{SERVES}={idle}");
    ["env", &variable, PROGRAM, "--exact", "daemon::serves", "--nocapture"].map(str::to_owned).to_vec()
}

/// Puts it on the host.
pub(crate) fn install(host: &Host) {
    let own = std::env::current_exe().unwrap();
    host.put_program(PROGRAM, Some(Path::new(&own)));
}

//! Remaining rights of a process in the sandboxes of the units, as a service of a real systemd.

use std::path::{Path, PathBuf};

use flameholder::host::facts::processes::processes_named;
use flameholder::host::file_locks;
use flameholder::host::mount_namespace::MountNamespace;
use testbed::dbus::real_systemd::RealSystemd;

use crate::as_service;

/// Environment variable with the path of a locked file.
const LOCKED: &str = "FLAMEHOLDER_TEST_LOCKED";
/// Directives that only the system instance of systemd can apply, or that contradict the test's own unit.
const NOT_HERE: [&str; 3] = ["DeviceAllow=", "DevicePolicy=", "IPAddress"];

/// Lines of the sandbox of a unit.
fn sandbox(unit: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(unit);
    let text = std::fs::read_to_string(path).unwrap();
    let (_, sandbox) = text.split_once("# Sandbox:").unwrap();
    let lines = sandbox.lines().skip(1).take_while(|line| !line.is_empty());
    let lines = lines.filter(|line| !NOT_HERE.iter().any(|name| line.starts_with(name)));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Report what this process sees of a process with more capabilities, and whether it can make a mount namespace.
#[test]
#[ignore = "service: the systemd of another test runs it"]
fn look_around_as_a_service() {
    let locked = PathBuf::from(std::env::var_os(LOCKED).unwrap());
    let holder = file_locks::holder(&locked).map(|holder| holder.program);
    let found = processes_named("sleep").unwrap().len();
    // Only the thread that enters moves.
    let entered = std::thread::spawn(|| {
        MountNamespace::enter().and_then(|namespace| namespace.mount_memory(Path::new("/mnt"))).is_ok()
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let no_new_privileges = status.lines().any(|line| line == "NoNewPrivs:\t1");
    as_service::report(&[
        format!("{holder:?}"),
        format!("{found} found"),
        format!("mounted: {}", entered.join().unwrap()),
        format!("no new privileges: {no_new_privileges}"),
    ]);
}

#[test]
fn holder_of_a_lock_is_seen_from_inside_every_sandbox() {
    for unit in [
        "flameholder-activate.service",
        "flameholder-recover.service",
        "flameholder-confirm-boot.service",
        "flameholder-daemon.service",
        "flameholder-firstboot.service",
    ] {
        let real = RealSystemd::start(&[]);
        let locked = real.file("locked");
        // Ready once the program that holds the lock is the one that the test looks for.
        let script = format!(
            "exec 9>{}; flock 9; (until grep -q sleep /proc/$$/comm; do :; done; systemd-notify --ready) 9>&- & \
             exec sleep infinity\n",
            locked.display()
        );
        std::fs::write(real.file("hold"), script).unwrap();
        let holder = format!(
            "[Unit]\nDefaultDependencies=no\n[Service]\nType=notify\nNotifyAccess=all\nExecStart=sh {}\n",
            real.file("hold").display()
        );
        real.define("holder.service", &holder);
        let settings = format!(
            "Environment={LOCKED}={}\n{}[Unit]\nRequires=holder.service\nAfter=holder.service\n",
            locked.display(),
            sandbox(unit)
        );
        let answers = as_service::answers_of(&real, "sandbox::look_around_as_a_service", &settings, 4);
        let expected =
            ["Some(\"sleep\")", "1 found", "mounted: true", "no new privileges: true"].map(str::to_owned);
        assert_eq!(answers, expected, "{unit}");
    }
}

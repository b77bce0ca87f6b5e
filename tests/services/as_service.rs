//! Tests that systemd runs as a service of its own: it disconnects a peer outside its PID namespace.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use flameholder::core::enablement::UnitName;
use flameholder::core::state::service_action::ServiceAction;
use flameholder::host::systemd::service_port::ServiceControl as _;
use testbed::dbus::real_systemd::RealSystemd;

/// Time after which a test that hangs fails.
const DEADLINE: Duration = Duration::from_secs(60);
/// Environment variables with the path of systemd's socket and of the file for the answers.
const VARIABLES: [&str; 2] = ["FLAMEHOLDER_TEST_SOCKET", "FLAMEHOLDER_TEST_ANSWERS"];

/// Within the service: the path of systemd's socket.
pub(crate) fn socket() -> PathBuf {
    std::env::var_os(VARIABLES[0]).unwrap().into()
}

/// Within the service: report the answers, one a line.
pub(crate) fn report(answers: &[String]) {
    let text: String = answers.iter().map(|answer| format!("{answer}\n")).collect();
    std::fs::write(std::env::var(VARIABLES[1]).unwrap(), text).unwrap();
}

/// Run the ignored test `name` as a service of `real` with these settings, and return the `count` answers that it reports.
pub(crate) fn answers_of(real: &RealSystemd, name: &str, settings: &str, count: usize) -> Vec<String> {
    let (file, program) = (real.file("answers"), std::env::current_exe().unwrap());
    let [socket, answers] = VARIABLES;
    let unit = format!(
        "[Unit]\nDefaultDependencies=no\n[Service]\nSlice=-.slice\nType=oneshot\nExecStart={} --ignored --exact {name}\n\
         Environment={socket}={} {answers}={}\n{settings}",
        program.display(),
        real.file("run/systemd/private").display(),
        file.display()
    );
    real.define("asks.service", &unit);
    let unit = UnitName::parse("asks.service").unwrap();
    real.systemd.perform(&ServiceAction::DaemonReload).unwrap();
    // The bus may end with a shutdown, before it reports the job.
    drop(real.systemd.perform(&ServiceAction::Restart { unit }));
    let until = Instant::now() + DEADLINE;
    loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if text.ends_with('\n') && text.lines().count() == count {
            return text.lines().map(str::to_owned).collect();
        }
        assert!(Instant::now() < until, "the answers are incomplete: {text:?}");
        std::thread::yield_now();
    }
}

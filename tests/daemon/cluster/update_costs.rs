//! Requests to the API server and events of one update, with the `MachineConfigNode` present.

use testbed::control_plane::RequestLog;

/// Upper limit of the requests for an update with a reboot, which includes two starts of the daemon.
const STAGED: usize = 29;
/// Upper limit of the requests for an update without a reboot.
const LIVE: usize = 16;
/// Upper limit of the events of an update, which do not count as requests.
const EVENTS: usize = 10;

/// Panics unless these are the events of an update with a reboot, and its requests within the limit.
pub(crate) fn assert_staged(log: &RequestLog) {
    let events = [
        "ConfigDriftMonitorStopped",
        "Cordon",
        "Drain",
        "OSUpdateStaged",
        "Reboot",
        "Uncordon",
        "NodeDone",
        "ConfigDriftMonitorStarted",
    ];
    assert_within(log, STAGED, &events);
}

/// Panics unless these are the events of an update without drain and reboot, and its requests within the limit.
pub(crate) fn assert_live(log: &RequestLog) {
    let events =
        ["ConfigDriftMonitorStopped", "SkipReboot", "Uncordon", "NodeDone", "ConfigDriftMonitorStarted"];
    assert_within(log, LIVE, &events);
}

fn assert_within(log: &RequestLog, most: usize, expected: &[&str]) {
    let (requests, events) = (log.lines(), log.events());
    eprintln!("{} requests and {} events, {most} and {EVENTS} are allowed", requests.len(), events.len());
    assert!(requests.len() <= most, "{requests:#?}");
    assert_eq!(events, expected);
    assert!(events.len() <= EVENTS, "{events:?}");
}

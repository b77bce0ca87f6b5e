//! Wake-ups, requests and writes of an idle daemon.

mod release;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use testbed::control_plane::Cluster;

/// Wake-ups of the process so far, over all its threads.
fn wake_ups(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_task = |task: PathBuf| {
        let text = fs::read_to_string(task.join("sched")).unwrap();
        let line = text.lines().find(|line| line.starts_with("nr_voluntary_switches")).unwrap();
        line.rsplit(':').next().unwrap().trim().parse::<u64>().unwrap()
    };
    tasks.map(|task| of_task(task.unwrap().path())).sum()
}

/// Bytes that the process wrote so far, to files, sockets and pipes.
fn written(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("wchar:")).unwrap();
    line.trim().parse().unwrap()
}

/// Upper limit of the wake-ups in a minute: bookmarks from the API server and the restart of a watch. The
/// daemon has no timer of its own.
const MAX_WAKE_UPS: u64 = 4;
/// Shortest duration of a watch, in seconds.
const WATCH_SECONDS: u64 = 300;
/// Upper limit of the bytes that the request for a watch takes.
const WATCH_REQUEST: u64 = 1024;

#[test]
fn idle_daemon_neither_wakes_up_nor_writes() {
    let (host, cluster) = Cluster::with_node_on("one");
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-one");
    cluster.wait_for_write("Updated: True");
    // Writes in the background end first.
    std::thread::sleep(Duration::from_secs(5));
    cluster.proxy.clear();
    let span = Duration::from_secs(if testbed::is_exhaustive() { 300 } else { 30 });
    let pid = agent.pid();
    let (wake_ups_before, written_before) = (wake_ups(pid), written(pid));
    std::thread::sleep(span);
    let (woken, wrote) = (wake_ups(pid) - wake_ups_before, written(pid) - written_before);
    let requests = cluster.proxy.log().requests;
    eprintln!("{woken} wake-ups, {wrote} bytes written, {} requests in {span:?}", requests.len());
    let most = usize::try_from(span.as_secs() / WATCH_SECONDS).unwrap();
    let is_watch = requests.iter().all(|request| request.target.contains("watch=true"));
    assert!(is_watch && requests.len() <= most, "{requests:?}");
    assert!(wrote <= WATCH_REQUEST * most as u64, "the idle daemon wrote {wrote} bytes");
    let most = MAX_WAKE_UPS * span.as_secs().div_ceil(60);
    assert!(woken <= most, "{woken} wake-ups in {span:?}, {most} are allowed");
}

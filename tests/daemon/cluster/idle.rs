//! What the daemon costs while nothing is to be done.

mod release;

use std::{fs, path::PathBuf, time::Duration};

use testbed::control_plane::Cluster;

/// How often the process was woken so far, all its threads together.
fn wake_ups(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_task = |task: PathBuf| {
        let text = fs::read_to_string(task.join("sched")).unwrap();
        let line = text.lines().find(|line| line.starts_with("nr_voluntary_switches")).unwrap();
        line.rsplit(':').next().unwrap().trim().parse::<u64>().unwrap()
    };
    tasks.map(|task| of_task(task.unwrap().path())).sum()
}

/// Bytes that it handed to the kernel so far, wherever they went.
fn written(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("wchar:")).unwrap();
    line.trim().parse().unwrap()
}

/// The most wake-ups in a minute: the cluster's bookmarks, and a watch that is begun anew; nothing of our own.
const MOST_WAKE_UPS: u64 = 4;
/// How long a watch lasts, in seconds.
const WATCH: u64 = 290;
/// The most bytes that beginning one takes.
const REQUEST: u64 = 1024;

#[test]
fn it_sleeps_while_nothing_is_to_be_done() {
    let (host, cluster) = Cluster::with_node_on("one");
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.is_told("Updated: True");
    // What is told in the background comes to its end.
    std::thread::sleep(Duration::from_secs(5));
    cluster.proxy.forget();
    let span = Duration::from_secs(if testbed::is_exhaustive() { 300 } else { 30 });
    let pid = agent.pid();
    let (woken, wrote) = (wake_ups(pid), written(pid));
    std::thread::sleep(span);
    let (woken, wrote) = (wake_ups(pid) - woken, written(pid) - wrote);
    let asked = cluster.proxy.record().asked;
    eprintln!("{woken} wake-ups, {wrote} bytes written, {} requests in {span:?}", asked.len());
    let most = usize::try_from(span.as_secs() / WATCH).unwrap();
    let is_watch = asked.iter().all(|asked| asked.target.contains("watch=true"));
    assert!(is_watch && asked.len() <= most, "{asked:?}");
    assert!(wrote <= REQUEST * most as u64, "{wrote} bytes are written while nothing happens");
    let most = MOST_WAKE_UPS * span.as_secs().div_ceil(60);
    assert!(woken <= most, "{woken} wake-ups in {span:?}, {most} are allowed");
}

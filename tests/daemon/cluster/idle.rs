//! What the daemon costs while nothing is to be done.

use std::{env, fs, path::PathBuf, time::Duration};

use osimage::Os;

use testbed::{
    booted::{config::Config, host::Host},
    control_plane::Cluster,
};

/// The most anonymous memory that it may occupy, in KiB.
///
/// Pages of the executable are left out: the kernel maps as many as it has room for, and takes them back.
const MOST_MEMORY: u64 = 4 << 10;
/// Content that comes to a document of 1 MiB: each byte is written as three.
const LARGE: usize = 340_000;

/// A field of a process's status, in KiB.
fn status(pid: i32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

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
    let Some((host, cluster)) = Cluster::with_node_on("one") else { return };
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-one");
    cluster.is_told("Updated: True");
    // What is told in the background comes to its end.
    std::thread::sleep(Duration::from_secs(5));
    cluster.proxy.forget();
    let is_exhaustive = env::var_os("FLAMEHOLDER_EXHAUSTIVE").is_some();
    let span = Duration::from_secs(if is_exhaustive { 300 } else { 30 });
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

#[test]
fn beside_a_large_configuration_it_is_small_and_asks_for_nothing() {
    let Some(program) = env::var_os("FLAMEHOLDER_BINARY").map(PathBuf::from) else {
        eprintln!("SKIPPED: only the release executable is small; FLAMEHOLDER_BINARY names one");
        return;
    };
    let Some(host) = Host::install(Os::new(1)) else { return };
    host.put_program("flameholder", Some(&program));
    let names = [("currentConfig", "rendered-large"), ("desiredConfig", "rendered-large"), ("state", "Done")];
    let Some(cluster) = Cluster::start(&names) else { return };
    let large = "0123456789abcdef".repeat(LARGE / 16);
    let config = Config::new("rendered-large", &[("/etc/nmstate/openshift/large", &large)]);
    let outcome = host.apply(&host.config(config.json()), None);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let small = Config::new("rendered-small", &[("/etc/nmstate/openshift/large", "small")]);
    for config in [&config, &small] {
        cluster.render(config.json());
    }
    let mut agent = cluster.agent(&host);
    agent.says("Done rendered-large");
    // There and back: the large one passes through it.
    for name in ["rendered-small", "rendered-large"] {
        cluster.want(name);
        agent.says(&format!("Done {name}"));
        cluster.is_told(&format!("currentConfig={name}"));
    }
    cluster.is_told("Updated: True");
    let (now, most) = (status(agent.pid(), "VmRSS"), status(agent.pid(), "VmHWM"));
    let [anonymous, file] = ["RssAnon", "RssFile"].map(|field| status(agent.pid(), field));
    eprintln!("{now} KiB, {most} KiB at most; {anonymous} KiB of its own, {file} KiB of files");
    assert!(anonymous <= MOST_MEMORY, "{anonymous} KiB of anonymous memory, {MOST_MEMORY} are allowed");
}

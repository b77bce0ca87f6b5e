//! Memory of the release executable, which `FLAMEHOLDER_BINARY` names. The test runs by itself.

use std::path::PathBuf;
use std::{env, fs};

use osimage::Os;
use testbed::booted::config::Config;
use testbed::booted::host::Host;
use testbed::control_plane::Cluster;
use testbed::dbus::fake_systemd::Script;

use crate::cluster::idle::give_everything;
use crate::cluster::pinned_images::wait_until_pinned;

/// Upper limit of the daemon's anonymous memory, in KiB.
///
/// Pages of the executable do not count: the kernel maps as many as there is room for, and reclaims them.
const MAX_MEMORY: u64 = 4 << 10;
/// Upper limit of the growth of that memory over three updates, in KiB.
const MAX_GROWTH: u64 = 1 << 10;
/// Bytes of content in a document of 1.5 MB, where percent-encoding writes each byte as three.
const LARGE_CONTENT: usize = 500_000;

/// Number of updates.
const UPDATES: usize = 3;

/// Field of `/proc/PID/status`, in KiB.
fn status_field(pid: i32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
#[ignore = "release: only the release executable is as small, and FLAMEHOLDER_BINARY has to name it"]
fn idle_daemon_is_small_after_updates_with_large_configs() {
    let program = env::var_os("FLAMEHOLDER_BINARY").map(PathBuf::from);
    let program = program.expect("only the release executable is small: FLAMEHOLDER_BINARY has to name it");
    let host = Host::install(Os::new(1));
    host.put_program("flameholder", Some(&program));
    let names = [("currentConfig", "rendered-0"), ("desiredConfig", "rendered-0"), ("state", "Done")];
    let cluster = Cluster::start(&names);
    let config = |number: usize| {
        let content = format!("{number:016}").repeat(LARGE_CONTENT / 16);
        Config::new(&format!("rendered-{number}"), &[("/etc/nmstate/openshift/large", &content)])
    };
    let first = config(0);
    let outcome = host.apply(&host.config(first.json()), None);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    cluster.render(first.json());
    let _runtime = give_everything(&host, &cluster);
    let mut agent = cluster.start_agent(&host);
    let _systemd = agent.start_systemd(Script::of_success());
    agent.wait_for_line("Done rendered-0");
    cluster.wait_for_write("Updated: True");
    wait_until_pinned(&cluster);
    let before = status_field(agent.pid(), "RssAnon");
    for number in 1..=UPDATES {
        cluster.render(config(number).json());
        cluster.proxy.clear();
        cluster.set_desired_config(&format!("rendered-{number}"));
        agent.wait_for_line(&format!("Done rendered-{number}"));
        cluster.wait_for_write("Updated: True");
        let [now, anonymous] = ["VmRSS", "RssAnon"].map(|field| status_field(agent.pid(), field));
        eprintln!("after update {number}: RSS {now} KiB, {anonymous} KiB anonymous");
    }
    let (now, most) = (status_field(agent.pid(), "VmRSS"), status_field(agent.pid(), "VmHWM"));
    let [anonymous, file] = ["RssAnon", "RssFile"].map(|field| status_field(agent.pid(), field));
    eprintln!("RSS {now} KiB, peak {most} KiB; {anonymous} KiB anonymous, {file} KiB of files");
    let growth = anonymous.saturating_sub(before);
    assert!(growth <= MAX_GROWTH, "{growth} KiB more than before the updates, {MAX_GROWTH} are allowed");
    assert!(anonymous <= MAX_MEMORY, "{anonymous} KiB of anonymous memory, {MAX_MEMORY} are allowed");
}

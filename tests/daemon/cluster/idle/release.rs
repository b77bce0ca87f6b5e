//! Memory of the release executable, which `FLAMEHOLDER_BINARY` names. The test runs by itself.

use std::path::PathBuf;
use std::{env, fs};

use osimage::Os;
use testbed::booted::config::Config;
use testbed::booted::host::Host;
use testbed::control_plane::Cluster;

/// Upper limit of the daemon's anonymous memory, in KiB.
///
/// Pages of the executable do not count: the kernel maps as many as there is room for, and reclaims them.
const MAX_MEMORY: u64 = 4 << 10;
/// Bytes of content in a document of 1 MiB, where percent-encoding writes each byte as three.
const LARGE_CONTENT: usize = 340_000;

/// Field of `/proc/PID/status`, in KiB.
fn status_field(pid: i32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
#[ignore = "release: only the release executable is as small, and FLAMEHOLDER_BINARY has to name it"]
fn idle_daemon_is_small_with_a_large_config() {
    let program = env::var_os("FLAMEHOLDER_BINARY").map(PathBuf::from);
    let program = program.expect("only the release executable is small: FLAMEHOLDER_BINARY has to name it");
    let host = Host::install(Os::new(1));
    host.put_program("flameholder", Some(&program));
    let names = [("currentConfig", "rendered-large"), ("desiredConfig", "rendered-large"), ("state", "Done")];
    let cluster = Cluster::start(&names);
    let large = "0123456789abcdef".repeat(LARGE_CONTENT / 16);
    let config = Config::new("rendered-large", &[("/etc/nmstate/openshift/large", &large)]);
    let outcome = host.apply(&host.config(config.json()), None);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let small = Config::new("rendered-small", &[("/etc/nmstate/openshift/large", "small")]);
    for config in [&config, &small] {
        cluster.render(config.json());
    }
    let mut agent = cluster.start_agent(&host);
    agent.wait_for_line("Done rendered-large");
    // To the small config and back, so that the daemon decodes the large one.
    for name in ["rendered-small", "rendered-large"] {
        cluster.set_desired_config(name);
        agent.wait_for_line(&format!("Done {name}"));
        cluster.wait_for_write(&format!("currentConfig={name}"));
    }
    cluster.wait_for_write("Updated: True");
    let (now, most) = (status_field(agent.pid(), "VmRSS"), status_field(agent.pid(), "VmHWM"));
    let [anonymous, file] = ["RssAnon", "RssFile"].map(|field| status_field(agent.pid(), field));
    eprintln!("RSS {now} KiB, peak {most} KiB; {anonymous} KiB anonymous, {file} KiB of files");
    assert!(anonymous <= MAX_MEMORY, "{anonymous} KiB of anonymous memory, {MAX_MEMORY} are allowed");
}

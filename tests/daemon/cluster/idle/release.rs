//! The memory of the release executable, run by itself with `FLAMEHOLDER_BINARY`.

use std::{env, fs, path::PathBuf};

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

#[test]
#[ignore = "release: only the release executable is as small, and FLAMEHOLDER_BINARY has to name it"]
fn beside_a_large_configuration_it_is_small_and_asks_for_nothing() {
    let program = env::var_os("FLAMEHOLDER_BINARY").map(PathBuf::from);
    let program = program.expect("only the release executable is small: FLAMEHOLDER_BINARY has to name it");
    let host = Host::install(Os::new(1));
    host.put_program("flameholder", Some(&program));
    let names = [("currentConfig", "rendered-large"), ("desiredConfig", "rendered-large"), ("state", "Done")];
    let cluster = Cluster::start(&names);
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

//! The executable killed at one system call after the other while the daemon stages a generation for it: before or
//! after each message that it sends or receives. Then `apply` is repeated, or the host reboots at once.

use std::fs;

use osimage::Os;
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::{Host, assert_unlocked};
use testbed::strace::{self, Call};

use crate::rpm_ostree::peers::bus::Bus;

/// Kills, unless all of them are requested.
const SAMPLE: usize = 16;

/// A host before the update.
struct Before {
    host: Host,
    config: String,
    image: String,
}

impl Before {
    fn new() -> Self {
        testbed::preconditions::require_strace();
        let host = Host::install(Os::new(1));
        let (config, image) = (host.config(full_config("one").json()), host.image(&Os::new(2)));
        Self { host, config, image }
    }

    /// Runs `apply` on a copy of the host under strace with these arguments.
    fn run_traced(&self, arguments: &str) -> (Host, Bus) {
        let host = self.host.copy();
        let bus = Bus::start(&host);
        let command = format!(
            "strace {arguments} flameholder apply --desired {} --os-image {}",
            self.config, self.image
        );
        host.run(["sh", "-c", &command]);
        (host, bus)
    }

    fn places(&self) -> Vec<Call> {
        let (host, bus) = self.run_traced("-o /run/media/calls");
        drop(bus);
        let log = fs::read(host.path("media/calls")).unwrap();
        let mut calls = strace::parse(&String::from_utf8_lossy(&log));
        calls.retain(Call::is_change);
        assert!(calls.iter().any(|call| call.name == "sendmsg"), "the executable sends messages");
        calls
    }
}

#[test]
fn update_survives_kills_of_the_client() {
    let before = Before::new();
    let places = before.places();
    let is_all = testbed::is_exhaustive();
    let step = if is_all { 1 } else { places.len().div_ceil(SAMPLE) };
    let (mut tried, mut killed) = (0, 0);
    for (number, call) in places.iter().rev().step_by(step).enumerate() {
        let place = call.kill_injection();
        let (host, bus) = before.run_traced(&format!("-o /run/media/end -e trace={} -e {place}", call.name));
        let end = fs::read(host.path("media/end")).unwrap_or_default();
        tried += 1;
        killed += usize::from(String::from_utf8_lossy(&end).contains("killed by SIGKILL"));
        if number % 2 == 0 {
            // The daemon may still run the transaction.
            assert_unlocked(&host.apply(&before.config, Some(&before.image)));
            drop(bus);
            host.reboot();
            assert_config(&host, "one", "two");
        } else {
            drop(bus);
            host.reboot();
            let is_new = host.booted().arguments.contains(&"app=one".to_owned());
            assert_eq!(host.etc("os/version-2.conf").exists(), is_new, "{place}");
            let bus = Bus::start(&host);
            if is_new {
                assert_config(&host, "one", "two");
            } else {
                assert_unlocked(&host.apply(&before.config, Some(&before.image)));
                drop(bus);
                host.reboot();
                assert_config(&host, "one", "two");
            }
        }
        host.assert_no_drift();
    }
    eprintln!("{killed} kills at {} places", places.len());
    assert!(killed * 2 > tried, "{killed} kills of {tried}");
}

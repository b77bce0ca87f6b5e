//! The daemon killed at each message that it receives or sends, and at arbitrary moments: the update is staged by the
//! next daemon process, and no client hangs.

use std::fs;
use std::time::Duration;

use osimage::Os;
use rpmostreed::Faults;
use rustix::process::{Pid, Signal, kill_process};
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::{Host, assert_unlocked};

use crate::rpm_ostree::peers::bus::{Bus, address, fail};

/// Kills at arbitrary moments, unless all of them are requested.
const SAMPLE: u64 = 12;
const MOMENTS: u64 = 100;
/// Usual duration of an update here, in milliseconds.
const USUAL: u64 = 700;

fn is_exhaustive() -> bool {
    testbed::is_exhaustive()
}

/// A host, and its desired config and image.
fn before() -> (Host, [String; 2]) {
    let host = Host::install(Os::new(1));
    let wanted = [host.config(full_config("one").json()), host.image(&Os::new(2))];
    (host, wanted)
}

/// The update is staged, at the latest by the second call, and boots.
fn ensure_updated(host: &Host, bus: Bus, [config, image]: &[String; 2], place: &str) {
    let first = host.apply(config, Some(image));
    if !first.stdout.contains("reboot to activate") {
        assert_eq!(first.code, Some(1), "{place}: {first:?}");
        let again = host.apply(config, Some(image));
        assert!(again.stdout.contains("reboot to activate"), "{place}: {first:?}, {again:?}");
    }
    drop(bus);
    host.reboot();
    assert_config(host, "one", "two");
    assert!(host.etc("os/version-2.conf").exists(), "{place}");
    host.assert_no_drift();
}

#[test]
fn update_survives_daemon_killed_at_every_message() {
    let (original, wanted) = before();
    let step = if is_exhaustive() { 1 } else { 5 };
    let mut killed = 0;
    for message in (0..).step_by(step) {
        let host = original.copy();
        let bus = Bus::start(&host);
        fail(&host, &Faults { die_at: Some(message), ..Faults::default() });
        let outcome = host.apply(&wanted[0], Some(&wanted[1]));
        let is_killed = !host.path("run/rpm-ostreed-faults.json").exists();
        killed += usize::from(is_killed);
        if !is_killed {
            assert_unlocked(&outcome);
            break;
        }
        // One call is enough: the next daemon process stages the image, or the staged one is found.
        assert_unlocked(&outcome);
        ensure_updated(&host, bus, &wanted, &format!("message {message}: {outcome:?}"));
    }
    assert!(killed > 5, "the daemon was killed {killed} times");
}

#[test]
fn update_survives_daemon_killed_at_any_moment() {
    let (original, wanted) = before();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..if is_exhaustive() { MOMENTS } else { SAMPLE } {
        // Marsaglia's xorshift: the same moments in each run.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let moment = Duration::from_millis(seed % USUAL);
        let host = original.copy();
        let bus = Bus::start(&host);
        let address = address(&host);
        let killer = std::thread::spawn(move || kill_after(&address, moment));
        let outcome = host.apply(&wanted[0], Some(&wanted[1]));
        killer.join().unwrap();
        assert_unlocked(&outcome);
        ensure_updated(&host, bus, &wanted, &format!("after {moment:?}: {outcome:?}"));
    }
}

/// Kills the daemon `moment` after its start.
fn kill_after(address: &str, moment: Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let connection = zbus::connection::Builder::address(address).unwrap().build().await.unwrap();
        let bus = zbus::fdo::DBusProxy::new(&connection).await.unwrap();
        let name = || rpmostreed::NAME.try_into().unwrap();
        let process = loop {
            if let Ok(process) = bus.get_connection_unix_process_id(name()).await {
                break process;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        tokio::time::sleep(moment).await;
        let command = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
        // The daemon may have exited, and its process number been reused.
        if command.contains("daemon::serves") {
            let _ = kill_process(Pid::from_raw(i32::try_from(process).unwrap()).unwrap(), Signal::KILL);
        }
    });
}

//! States of a host that an operator meets.

use std::fs;

use testbed::booted::config::{full_config, unhealthy_config};
use testbed::booted::host::Host;
use testbed::strace;

/// File whose change needs no reboot.
const LIVE: &str = "/etc/nmstate/openshift/cluster.yml";

/// State of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostState {
    Healthy,
    StagedLocked,
    StagedUnlocked,
    BootCheckRunning,
    RolledBack,
    Blocked,
    Drifted,
    Interrupted,
    BrokenStateFile,
    BrokenSettings,
    NotRoot,
    NoOstreeHost,
}

impl HostState {
    pub(super) const ALL: [Self; 12] = [
        Self::Healthy,
        Self::StagedLocked,
        Self::StagedUnlocked,
        Self::BootCheckRunning,
        Self::RolledBack,
        Self::Blocked,
        Self::Drifted,
        Self::Interrupted,
        Self::BrokenStateFile,
        Self::BrokenSettings,
        Self::NotRoot,
        Self::NoOstreeHost,
    ];

    /// Name of the snapshot.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::StagedLocked => "staged_locked",
            Self::StagedUnlocked => "staged_unlocked",
            Self::BootCheckRunning => "boot_check_running",
            Self::RolledBack => "rolled_back_before_the_reboot",
            Self::Blocked => "blocked",
            Self::Drifted => "drifted",
            Self::Interrupted => "interrupted",
            Self::BrokenStateFile => "broken_state_file",
            Self::BrokenSettings => "broken_settings",
            Self::NotRoot => "not_root",
            Self::NoOstreeHost => "no_ostree_host",
        }
    }

    /// Heading in the table.
    pub(super) fn column(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::StagedLocked => "locked",
            Self::StagedUnlocked => "unlocked",
            Self::BootCheckRunning => "checking",
            Self::RolledBack => "rejected",
            Self::Blocked => "blocked",
            Self::Drifted => "drifted",
            Self::Interrupted => "torn",
            Self::BrokenStateFile => "state",
            Self::BrokenSettings => "settings",
            Self::NotRoot => "user",
            Self::NoOstreeHost => "other",
        }
    }

    /// File with the desired config: in the states around a second config, that one.
    pub(super) fn desired(self) -> String {
        match self {
            Self::RolledBack | Self::Blocked => "/run/media/rendered-bad".to_owned(),
            _ => "/run/media/rendered-two".to_owned(),
        }
    }

    /// Command before the agent's.
    pub(super) fn prefix(self) -> &'static [&'static str] {
        match self {
            Self::NotRoot => &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
            _ => &[],
        }
    }

    /// Bring a host with the confirmed config `one` into this state.
    pub(super) fn enter(self, host: &Host) {
        let two = host.config(full_config("two").json());
        let bad = host.config(unhealthy_config("bad").json());
        match self {
            Self::Healthy | Self::NotRoot => {}
            Self::StagedLocked => {
                host.run_ok(["flameholder", "apply", "--desired", &two, "--locked"]);
            }
            Self::StagedUnlocked => host.stage_update(&two, None),
            Self::BootCheckRunning => Self::start_boot_check(host, &two),
            Self::RolledBack => {
                host.stage_update(&bad, None);
                host.shut_down();
                assert!(host.boot().requests_reboot());
            }
            Self::Blocked => {
                host.stage_update(&bad, None);
                host.shut_down();
                assert!(host.boot().requests_reboot());
                host.power_cut();
                host.boot().assert_success();
            }
            Self::Drifted => host.write_etc("app/a.conf", "edited"),
            Self::Interrupted => interrupt(host),
            Self::BrokenStateFile => {
                fs::write(host.var("lib/flameholder/pending"), "no record\n").unwrap();
            }
            Self::BrokenSettings => {
                fs::create_dir_all(host.etc("flameholder/config.d")).unwrap();
                host.write_etc("flameholder/config.d/10-own.toml", "[drift]\nwhat = 1\n");
            }
            Self::NoOstreeHost => {
                fs::remove_file(host.path("run/ostree-booted")).unwrap();
                fs::write(host.path("kernel/cmdline"), "BOOT_IMAGE=/vmlinuz ro\n").unwrap();
            }
        }
    }

    /// Boot an update whose boot check has begun, and has a long time left.
    fn start_boot_check(host: &Host, config: &str) {
        host.stage_update(config, None);
        host.shut_down();
        host.boot_kernel(0);
        fs::write(
            host.path("run/flameholder/config.d/99-long.toml"),
            "[boot-check]\ntimeout = 1000000000\nsteady = 100000\n",
        )
        .unwrap();
        host.run_ok(["flameholder", "activate"]);
        // The report of a running check is the one that is left when it is killed.
        host.run([
            "sh",
            "-c",
            "flameholder confirm-boot & while ! test -e /run/flameholder/boot-check.json; do sleep 0.02; done; kill -KILL $!",
        ]);
    }
}

/// Kill a live update after its journal was opened: at its second rename.
fn interrupt(host: &Host) {
    testbed::preconditions::require_strace();
    let live = host.config(full_config("one").file_with_mode(LIVE, 0o644, "live").json());
    let place = strace::injection("renameat2", 2, "KILL");
    let strace = ["strace", "-o", "/dev/null", "-e", "trace=renameat2", "-e", &place];
    let killed = host.run([&strace[..], &["flameholder", "apply", "--desired", &live]].concat());
    assert_eq!(killed.code, Some(137), "{killed:?}");
    assert!(host.var("lib/flameholder/journal").exists(), "the change was interrupted");
}

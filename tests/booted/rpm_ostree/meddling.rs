//! Signals and other programs on the host while `apply` waits for the daemon.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use osimage::Os;
use rpmostreed::Faults;
use rustix::process::{Pid, Signal, kill_process};
use testbed::booted::config::{assert_config, full_config};
use testbed::booted::host::{Host, assert_unlocked};
use testbed::model::run::Outcome;

use crate::rpm_ostree::client::{DEADLINES, DaemonHost, unchanged};
use crate::rpm_ostree::peers::bus::{Bus, address, fail, socket};
use crate::rpm_ostree::peers::daemon;
use crate::rpm_ostree::peers::stranger::{Peer, Stranger};

const LIMIT: Duration = Duration::from_secs(60);

/// `apply` as a background process.
struct BackgroundApply {
    child: Child,
}

impl BackgroundApply {
    fn start(host: &Host, config: &str, image: &str) -> Self {
        let command = ["flameholder", "apply", "--desired", config, "--os-image", image];
        let child = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--kill-child"])
            .args(host.unshare_arguments(command))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child }
    }

    /// The process of the executable, below `unshare`.
    fn process(&self) -> Option<Pid> {
        let mut process = self.child.id();
        loop {
            let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
            if name.trim() == "flameholder" {
                return Pid::from_raw(i32::try_from(process).unwrap());
            }
            let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
            process = children.split_whitespace().next()?.parse().ok()?;
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.process().unwrap(), signal).unwrap();
    }

    fn end(self) -> Outcome {
        let output = self.child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Outcome { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

/// Waits until a transaction has started, which its title shows to any client.
fn until_started(host: &Host) {
    until(|| socket(host).exists());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let address = format!("unix:path={}", socket(host).display());
        let peer = Peer::connect(&address).await;
        while peer.title().await == "new-deployment" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

fn until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "the condition was not met in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A host on which a transaction takes three seconds.
fn slow() -> (Host, Bus, String, String) {
    slow_update_to(&Os::new(2))
}

fn slow_update_to(os: &Os) -> (Host, Bus, String, String) {
    let host = Host::install(Os::new(1));
    let (config, image) = (host.config(full_config("one").json()), host.image(os));
    let bus = Bus::start(&host);
    fail(&host, &Faults { slow: 3000, ..Faults::default() });
    (host, bus, config, image)
}

/// The same after `apply` was killed. The daemon continues without it and holds the sysroot lock.
fn killed_while_waiting() -> (Host, Bus, String, String) {
    killed_while_waiting_for(&Os::new(2))
}

fn killed_while_waiting_for(os: &Os) -> (Host, Bus, String, String) {
    let (host, bus, config, image) = slow_update_to(os);
    let running = BackgroundApply::start(&host, &config, &image);
    until_started(&host);
    running.signal(Signal::KILL);
    running.end();
    (host, bus, config, image)
}

/// The same after the daemon staged the deployment, which stays locked.
fn staged_for_killed_client() -> (Host, Bus, String, String) {
    let (host, bus, config, image) = killed_while_waiting();
    until(|| host.is_staged());
    until(|| !socket(&host).exists());
    (host, bus, config, image)
}

/// The next call succeeds.
fn ensure_updated(host: &Host, bus: Bus, config: &str, image: &str) {
    fail(host, &Faults::default());
    assert_unlocked(&host.apply(config, Some(image)));
    drop(bus);
    host.reboot();
    assert_config(host, "one", "two");
    assert!(host.etc("os/version-2.conf").exists());
}

#[test]
fn interrupt_cancels_the_transaction() {
    for signal in [Signal::INT, Signal::TERM] {
        let (host, bus, config, image) = slow();
        let running = BackgroundApply::start(&host, &config, &image);
        until_started(&host);
        running.signal(signal);
        let outcome = running.end();
        assert!(
            outcome.code == Some(1) && outcome.stderr.contains("interrupted; nothing was changed"),
            "{outcome:?}"
        );
        assert!(!host.is_staged(), "{outcome:?}");
        ensure_updated(&host, bus, &config, &image);
    }
}

#[test]
fn transaction_of_a_killed_client_is_waited_for() {
    let (host, bus, config, image) = killed_while_waiting();
    fail(&host, &Faults::default());
    let outcome = host.apply(&config, Some(&image));
    assert_unlocked(&outcome);
    let told = "waiting for rpm-ostreed, which is busy: UpdateDeployment, started by ";
    assert_eq!(outcome.stderr.matches(told).count(), 1, "{outcome:?}");
    drop(bus);
    host.reboot();
    assert_config(&host, "one", "two");
}

#[test]
fn deployment_staged_for_a_killed_client_is_replaced() {
    let (host, bus, config, image) = staged_for_killed_client();
    let recovered = host.run(["flameholder", "recover"]);
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    ensure_updated(&host, bus, &config, &image);
}

#[test]
fn deployment_staged_for_a_killed_client_does_not_boot() {
    let (host, bus, config, image) = staged_for_killed_client();
    drop(bus);
    host.reboot();
    assert!(host.etc("os/version-1.conf").exists(), "the old image still runs");
    let bus = Bus::start(&host);
    ensure_updated(&host, bus, &config, &image);
}

#[test]
fn cancellation_by_another_program_is_reported_and_retried() {
    let (host, bus, config, image) = slow();
    let running = BackgroundApply::start(&host, &config, &image);
    until_started(&host);
    // The other program may not even list the host's directories.
    for directory in ["", "run"] {
        fs::set_permissions(host.path(directory), fs::Permissions::from_mode(0o711)).unwrap();
    }
    let cancelled = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "env"])
        .arg(format!("{}=unix:path={}", daemon::CANCEL_VARIABLE, socket(&host).display()))
        .arg(copy_for_all(&host))
        .args(["--ignored", "--exact", daemon::SERVING])
        .output()
        .unwrap();
    assert!(cancelled.status.success(), "{cancelled:?}");
    let outcome = running.end();
    assert_unlocked(&outcome);
    assert_eq!(outcome.stderr.matches("cancelled by another program on this host").count(), 1, "{outcome:?}");
    assert_eq!(host.status()["pending"]["rpmOstreeTransactions"], 2);
    drop(bus);
    host.reboot();
    assert_config(&host, "one", "two");
}

/// A copy of this program that any user can execute.
fn copy_for_all(host: &Host) -> std::path::PathBuf {
    let copy = host.path("media/meddler");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    for path in [host.path("media").as_path(), Path::new(&copy)] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    copy
}

#[test]
fn foreign_deployment_staged_meanwhile_is_not_mixed_with_ours() {
    let host = Host::install(Os::new(1));
    let (config, image) = (host.config(full_config("one").json()), host.image(&Os::new(2)));
    let bus = Bus::start(&host);
    fail(&host, &Faults { slow: 3000, ..Faults::default() });
    let running = BackgroundApply::start(&host, &config, &image);
    until_started(&host);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (success, text) = runtime.block_on(async { Stranger::connect_to(&host).await.race(&host).await });
    let outcome = running.end();
    assert!(success, "{text}: {outcome:?}");
    // The deployment staged last remains, without any of our configuration.
    let finalized = host.shut_down();
    host.boot();
    let arguments = host.booted().arguments;
    let is_foreign = arguments.iter().any(|argument| argument == "foreign");
    assert!(!arguments.contains(&"app=one".to_owned()), "{outcome:?} {finalized:?} {arguments:?}");
    assert!(!host.etc("app/a.conf").exists(), "{outcome:?} {finalized:?}");
    drop(bus);
    let bus = Bus::start(&host);
    ensure_updated(&host, bus, &config, &image);
    assert_eq!(host.booted().arguments.iter().any(|argument| argument == "foreign"), is_foreign);
}

#[test]
fn idle_daemon_is_started_again() {
    let fixture = DaemonHost::with_idle(&Faults::default(), 200);
    fixture.runtime.block_on(async {
        let bus = zbus::connection::Builder::address(address(&fixture.host).as_str()).unwrap();
        let bus = zbus::fdo::DBusProxy::new(&bus.build().await.unwrap()).await.unwrap();
        let runs = async || bus.name_has_owner(rpmostreed::NAME.try_into().unwrap()).await.unwrap();
        for _ in 0..3 {
            let daemon = fixture.daemon(DEADLINES).await;
            let outcome = daemon.layer(&unchanged(), &mut |_| (), std::future::pending()).await;
            assert!(outcome.is_ok(), "{outcome:?}");
            // A registered client keeps the daemon from exiting.
            tokio::time::sleep(Duration::from_millis(600)).await;
            assert!(runs().await, "the daemon exits although a client is registered");
            daemon.disconnect().await;
            let end = Instant::now() + LIMIT;
            while runs().await {
                assert!(Instant::now() < end, "a client is still registered");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
}

#[test]
fn recovery_takes_back_an_interrupted_request() {
    let (host, bus, config, image) = staged_for_killed_client();
    let images = || {
        let refs = ["ostree", "refs", "--repo=/sysroot/ostree/repo", "--list", "ostree/container/image"];
        host.run_ok(refs).lines().count()
    };
    let before = images();
    let recovered = host.run(["flameholder", "recover"]);
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    assert!(recovered.stderr.contains("which rpm-ostreed staged for an interrupted update"), "{recovered:?}");
    assert!(!host.is_staged() && images() < before, "{recovered:?}");
    assert!(!host.var("lib/flameholder/rpm-ostree-request").exists());
    ensure_updated(&host, bus, &config, &image);
}

#[test]
fn held_lock_is_waited_for_and_its_holder_is_named() {
    let (host, bus, config, image) = slow();
    fail(&host, &Faults::default());
    // In one process namespace: the holder is found in /proc.
    let script = format!(
        "{}=/sysroot/ostree/lock {} & until test -e /run/held; do sleep 0.05; done
        flameholder apply --desired {config} --os-image {image} 2> /run/errors & applied=$!
        until grep -q 'held by' /run/errors; do sleep 0.05; done
        rm /run/held; wait $applied; code=$?; cat /run/errors >&2; exit $code",
        daemon::LOCK_VARIABLE,
        daemon::command(0, None)[2..].join(" "),
    );
    let outcome = host.run(["sh", "-c", &script]);
    assert_unlocked(&outcome);
    let line = outcome.stderr.lines().find(|line| line.contains("held by")).unwrap();
    assert!(line.contains("waiting for the lock of /, held by rpm-ostreed (process "), "{outcome:?}");
    drop(bus);
    host.reboot();
    assert_config(&host, "one", "two");
}

#[test]
fn lock_that_stays_held_ends_with_exit_code_75_and_its_holder() {
    let (host, _bus, config, image) = slow();
    let script = format!(
        "{}=/sysroot/ostree/lock {} & holder=$!; until test -e /run/held; do sleep 0.05; done
        TIMEOUT flameholder apply --desired {config} --os-image {image}; code=$?
        rm /run/held; wait $holder; exit $code",
        daemon::LOCK_VARIABLE,
        daemon::command(0, None)[2..].join(" "),
    );
    // By the environment, whatever the settings say, and by the settings.
    for (backend, variable, seconds) in [
        ("auto", "FLAMEHOLDER_LOCK_TIMEOUT=1", 900),
        ("libostree", "FLAMEHOLDER_LOCK_TIMEOUT=1", 900),
        ("auto", "", 1),
        ("libostree", "", 1),
    ] {
        let settings = format!("[image]\nbackend = \"{backend}\"\n[limits]\nlock-timeout = {seconds}\n");
        host.write_etc("flameholder/config.d/50-lock.toml", &settings);
        let outcome = host.run(["sh", "-c", &script.replace("TIMEOUT ", &format!("{variable} "))]);
        assert_eq!(outcome.code, Some(75), "{outcome:?}");
        assert!(outcome.stderr.contains("error: / is locked by rpm-ostreed (process "), "{outcome:?}");
    }
}

/// The agent does not hear that rpm-ostreed rejects the staged deployment.
#[test]
fn image_of_an_interrupted_request_is_checked_again_after_a_power_cut() {
    let (host, bus, config, image) = killed_while_waiting_for(&Os::new(2).broken());
    until(|| host.is_staged());
    until(|| !socket(&host).exists());
    drop(bus);
    host.power_cut();
    host.boot();
    assert!(!host.is_staged());
    let bus = Bus::start(&host);
    fail(&host, &Faults::default());
    let rejected = host.apply(&config, Some(&image));
    assert!(rejected.stderr.contains("Sanity-checking final rootfs"), "{rejected:?}");
    assert!(!host.var("lib/flameholder/rpm-ostree-request").exists() && !host.is_staged(), "{rejected:?}");
    let good = host.image(&Os::new(2));
    host.run_ok(["flameholder", "retry"]);
    ensure_updated(&host, bus, &config, &good);
}

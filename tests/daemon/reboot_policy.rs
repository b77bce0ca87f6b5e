//! Daemon under a reboot policy: windows, the lock of a fleet, hooks, and updates by hand.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use nix::sys::signal::Signal;
use osimage::Os;
use serde_json::Value;
use testbed::agent::Agent;
use testbed::booted::config::{Config, assert_config, full_config, unhealthy_config};
use testbed::booted::host::Host;
use testbed::https_server::{
    Authority, FleetLock, HttpsServer, ServerAnswer, ServerCertificate, ServerState,
};

use crate::directory::{SOURCE, apply_live_config, daemon_report, live_config, set_desired_config};

const GRANT: &str = "lib/flameholder/reboot-grant";
/// Identity of the host in the lock's group.
const ID: &str = "host-1";

/// Set the fragment with the policy.
fn set_policy(host: &Host, policy: &str) {
    host.write_etc("flameholder/config.d/50-policy.toml", policy);
}

/// Host with a lock of one slot, and the lock's server. The desired config is `one`, which needs a reboot.
fn host_with_lock() -> (Host, HttpsServer) {
    let host = Host::install(Os::new(1));
    let authority = Authority::create(&host.path("media"));
    let server = HttpsServer::start(&authority, ServerCertificate::Valid, "");
    server.with(|state| state.lock = Some(FleetLock::new(1)));
    set_policy(&host, &lock_policy(&server));
    set_desired_config(&host, full_config("one").json());
    (host, server)
}

fn lock_policy(server: &HttpsServer) -> String {
    format!(
        "[reboot]\nretry-interval = 1\n[reboot-lock]\nprotocol = \"fleet-lock\"\nserver = \"{}\"\nid = \"{ID}\"\n\
         server-ca = \"/run/media/ca.pem\"\n",
        server.url("")
    )
}

fn hold(server: &HttpsServer, id: &str) {
    server.with(|state| state.lock.as_mut().unwrap().held.insert(id.to_owned()));
}

fn free(server: &HttpsServer, id: &str) {
    server.with(|state| state.lock.as_mut().unwrap().held.remove(id));
}

fn is_held(server: &HttpsServer) -> bool {
    server.with(|state| state.lock.as_ref().unwrap().held.contains(ID))
}

fn write_hook(host: &Host, folder: &str, name: &str, text: &str) {
    let path = host.etc(&format!("flameholder/{folder}/{name}"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Wait until the grant has ended: its document is gone then.
fn wait_for_end(agent: &mut Agent, server: &HttpsServer) {
    agent.wait_for_text("the grant of its disruption has ended");
    let released = |state: &mut ServerState| {
        state.lock.as_ref().is_some_and(|lock| lock.log.contains(&format!("released {ID}")))
    };
    assert!(server.with(released));
}

fn reboot_and_confirm(host: &Host, server: &HttpsServer) {
    assert!(is_held(server), "the slot is held over the reboot");
    host.reboot();
    let mut agent = Agent::start(host, &SOURCE);
    agent.wait_for_line("Done rendered-one");
    wait_for_end(&mut agent, server);
    assert!(!host.var(GRANT).exists());
    assert_config(host, "one", "two");
}

#[test]
fn slot_is_awaited_held_over_the_reboot_and_released_after_the_confirmation() {
    let (host, server) = host_with_lock();
    hold(&server, "another");
    let mut agent = Agent::start(&host, &SOURCE);
    let waits = agent.wait_for_line("AwaitingGrant rendered-one: ");
    assert!(waits.contains("semaphore currently full") && waits.contains("(group default)"), "{waits}");
    let asked = server.with(|state| state.requests.len());
    server.wait_for_requests(asked + 2);
    let report = daemon_report(&host);
    assert_eq!(
        (&report["phase"], &report["waitsFor"]["kind"]),
        (&Value::from("AwaitingGrant"), &"slot".into())
    );
    agent.signal(Signal::SIGHUP);
    agent.wait_for_line("AwaitingGrant rendered-one: ");
    let lines = agent.output();
    assert_eq!(lines.matches("semaphore currently full").count(), 2, "one line per wait: {lines}");
    let status = host.run(["flameholder", "status"]).stdout;
    assert!(
        status.contains("reboot lock:") && status.contains("requested a slot for rendered-one"),
        "{status}"
    );
    assert!(status.contains("locked"), "{status}");
    free(&server, "another");
    agent.wait_for_line("ShuttingDown rendered-one");
    drop(agent);
    reboot_and_confirm(&host, &server);
    let heads = server.with(|state| state.requests.clone());
    assert!(
        heads.iter().all(|head| head.starts_with("post /v1/") && head.contains("fleet-lock-protocol: true"))
    );
    let history = host.run(["flameholder", "history"]).stdout;
    assert!(history.contains("granted"), "{history}");
}

#[test]
fn lost_answers_and_errors_are_repeated_and_a_restarted_daemon_keeps_its_slot() {
    let (host, server) = host_with_lock();
    server.with(|state| state.answer = ServerAnswer::Lost);
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("AwaitingGrant rendered-one: ");
    assert!(is_held(&server), "the request took effect, although its answer was lost");
    server.with(|state| state.answer = ServerAnswer::Status(500, None));
    agent.wait_for_text("status 500");
    agent.signal(Signal::SIGKILL);
    agent.end();
    let grant: Value = serde_json::from_slice(&fs::read(host.var(GRANT)).unwrap()).unwrap();
    assert_eq!((&grant["slot"]["id"], &grant["slot"]["granted"]), (&ID.into(), &false.into()));
    server.with(|state| state.answer = ServerAnswer::Document);
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("ShuttingDown rendered-one");
    drop(agent);
    reboot_and_confirm(&host, &server);
}

#[test]
fn slot_is_released_until_the_server_takes_it_back() {
    let (host, server) = host_with_lock();
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("ShuttingDown rendered-one");
    drop(agent);
    host.reboot();
    server.with(|state| state.answer = ServerAnswer::Status(503, None));
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_text("is not given back yet");
    assert!(is_held(&server) && host.var(GRANT).exists());
    server.with(|state| state.answer = ServerAnswer::Lost);
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.end(), Some(0));
    server.with(|state| state.answer = ServerAnswer::Document);
    let mut agent = Agent::start(&host, &SOURCE);
    wait_for_end(&mut agent, &server);
}

#[test]
fn config_that_is_no_longer_desired_gives_its_slot_back() {
    let (host, server) = host_with_lock();
    let first = full_config("first");
    let outcome = host.run(["flameholder", "apply", "--desired", &host.config(first.json())]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains("stays locked"), "{outcome:?}");
    server.with(|state| state.answer = ServerAnswer::Lost);
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("AwaitingGrant rendered-one: ");
    assert!(is_held(&server));
    set_desired_config(&host, full_config("two").json());
    server.with(|state| state.answer = ServerAnswer::Document);
    agent.wait_for_line("Fetching rendered-two");
    wait_for_end(&mut agent, &server);
}

#[test]
fn host_that_rolled_back_keeps_its_slot_until_another_config_is_desired() {
    let (host, server) = host_with_lock();
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("ShuttingDown rendered-one");
    drop(agent);
    reboot_and_confirm(&host, &server);
    set_desired_config(&host, unhealthy_config("two").json());
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("ShuttingDown rendered-two");
    drop(agent);
    host.reboot_into_rollback();
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("Blocked rendered-two, on rendered-one");
    let status = host.run(["flameholder", "status"]).stdout;
    assert!(is_held(&server) && status.contains("holds a slot for rendered-two"), "{status}");
    set_desired_config(&host, full_config("three").json());
    wait_for_end(&mut agent, &server);
    agent.wait_for_line("ShuttingDown rendered-three");
    assert!(is_held(&server));
}

#[test]
fn live_update_that_needs_a_reboot_after_its_wait_is_prepared_again() {
    let (host, server) = host_with_lock();
    let policy = |action: &str| {
        let rule = format!("[[disruption.path]]\npath = \"/etc/chrony.conf\"\nactions = [\"{action}\"]\n");
        set_policy(&host, &(lock_policy(&server) + &rule));
    };
    policy("drain");
    let config = Config::new("rendered-one", &[("/etc/chrony.conf", "one")]);
    set_desired_config(&host, config.json());
    hold(&server, "host-2");
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("AwaitingGrant rendered-one");
    policy("reboot");
    free(&server, "host-2");
    agent.wait_for_text("was prepared as a live update and needs a reboot now");
    agent.wait_for_line("ShuttingDown rendered-one");
    assert!(!agent.phases().contains(&"Done"), "{:?}", agent.phases());
    host.reboot();
    assert_eq!(host.read_etc("chrony.conf").as_deref(), Some("one"));
}

#[test]
fn closed_window_is_waited_for_without_a_request_for_a_slot() {
    let (host, server) = host_with_lock();
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    let opens = now.checked_add(jiff::Span::new().hours(3)).unwrap();
    let window = format!(
        "[[reboot.window]]\nstart-time = \"{:02}:{:02}\"\nlength-minutes = 30\n",
        opens.hour(),
        opens.minute()
    );
    set_policy(&host, &(lock_policy(&server) + &window));
    let mut agent = Agent::start(&host, &SOURCE);
    let waits = agent.wait_for_line("AwaitingGrant rendered-one: ");
    assert!(waits.contains("waits for the reboot window that opens"), "{waits}");
    assert!(server.with(|state| state.requests.is_empty()));
    let status = host.run(["flameholder", "status"]).stdout;
    assert!(status.contains("reboot window:"), "{status}");
    let refused =
        host.run(["flameholder", "apply", "--desired", "/run/media/desired.json", "--reboot", "auto"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("--override-policy"), "{refused:?}");
    let unlocked =
        host.run(["flameholder", "apply", "--desired", "/run/media/desired.json", "--override-policy"]);
    assert_eq!(unlocked.code, Some(0), "{unlocked:?}");
    assert!(unlocked.stdout.contains("reboot to activate"), "{unlocked:?}");
}

#[test]
fn failing_hook_gives_the_slot_back_until_it_passes() {
    let (host, server) = host_with_lock();
    let write = |folder: &str, name: &str, text: &str| write_hook(&host, folder, name, text);
    write("before-drain.d", "10-backup", "#!/bin/sh\ntest -e /run/media/go\n");
    write("after-confirmation.d", "10-note", "#!/bin/sh\necho $FLAMEHOLDER_CONFIG > /run/media/confirmed\n");
    let mut agent = Agent::start(&host, &SOURCE);
    let waits = agent.wait_for_line("AwaitingGrant rendered-one: ");
    assert!(waits.contains("the hook 10-backup: failed with exit code 1"), "{waits}");
    server.wait_for_requests(4);
    let log = server.with(|state| state.lock.as_ref().unwrap().log.join(" "));
    assert!(log.starts_with(&format!("granted {ID} released {ID} granted {ID} released {ID}")), "{log}");
    let status = host.run(["flameholder", "status"]).stdout;
    assert!(status.contains("before-drain.d/10-backup failed with exit code 1"), "{status}");
    fs::write(host.path("media/go"), "").unwrap();
    agent.wait_for_line("ShuttingDown rendered-one");
    drop(agent);
    reboot_and_confirm(&host, &server);
    assert_eq!(fs::read_to_string(host.path("media/confirmed")).unwrap(), "rendered-one\n");
    let verdict = &host.status()["hooks"][0];
    assert_eq!((&verdict["stage"], &verdict["name"]), (&"after-confirmation".into(), &"10-note".into()));
    assert_eq!((&verdict["config"], &verdict["failure"]), (&"rendered-one".into(), &Value::Null));
}

#[test]
fn hooks_are_notified_with_the_status_and_a_failing_one_changes_nothing() {
    let host = Host::install(Os::new(1));
    set_desired_config(&host, full_config("one").json());
    let tells = "#!/bin/sh\ncat > /run/media/told-$FLAMEHOLDER_PHASE.new\nmv /run/media/told-$FLAMEHOLDER_PHASE.new /run/media/told-$FLAMEHOLDER_PHASE\nexit 7\n";
    write_hook(&host, "notify.d", "10-tell", tells);
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("ShuttingDown rendered-one");
    agent.wait_for_text("the hook /etc/flameholder/notify.d/10-tell failed with exit code 7");
    let told: Value =
        serde_json::from_slice(&fs::read(host.path("media/told-ShuttingDown")).unwrap()).unwrap();
    assert_eq!(told["daemon"]["phase"], "ShuttingDown");
    assert_eq!(told["pending"]["config"], "rendered-one");
    drop(agent);
    host.reboot();
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_line("Done rendered-one");
    agent.wait_for_text("10-tell failed");
    assert!(host.path("media/told-Done").exists());
}

#[test]
fn damaged_grant_is_set_aside_and_named_by_the_status() {
    let host = Host::install(Os::new(1));
    apply_live_config(&host, "one");
    set_desired_config(&host, live_config("one").json());
    fs::write(host.var(GRANT), "{\"schema\": 1, \"conf").unwrap();
    let mut agent = Agent::start(&host, &SOURCE);
    agent.wait_for_text("is set aside as /var/lib/flameholder/reboot-grant.unreadable");
    assert_eq!(daemon_report(&host)["phase"], "Done");
    assert!(!host.var(GRANT).exists());
    let status = host.run(["flameholder", "status"]).stdout;
    assert!(status.contains("reboot-grant.unreadable"), "{status}");
}

#[test]
fn policy_that_cannot_be_used_grants_nothing() {
    let host = Host::install(Os::new(1));
    set_desired_config(&host, full_config("one").json());
    for (policy, mentions) in [
        (
            "[reboot]\ntime-zone = \"Europe/Nowhere\"\n[[reboot.window]]\nstart-time = \"00:00\"\nlength-minutes = 1440\n",
            "Europe/Nowhere",
        ),
        ("[reboot-lock]\nprotocol = \"fleet-lock\"\n", "reboot-lock.server"),
    ] {
        set_policy(&host, policy);
        let mut agent = Agent::start(&host, &SOURCE);
        let waits = agent.wait_for_line("BackingOff");
        assert!(waits.contains(mentions), "{waits}");
        assert!(!agent.phases().contains(&"Unlocking"));
        agent.signal(Signal::SIGTERM);
        agent.end();
    }
}

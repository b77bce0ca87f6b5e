//! Order of the steps towards a grant, its end, and its waits.

use super::*;
use crate::core::daemon::lifecycle::AfterDrain;
use crate::core::state::reboot_grant::{LeasePlace, LockAddress, LockSlot, SCHEMA};

const INTERVAL: std::time::Duration = std::time::Duration::from_secs(60);

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn config(name: &str) -> ConfigRef {
    ConfigRef { config: name.into(), image: None, digest: None }
}

fn grant_of(name: &str) -> RebootGrant {
    RebootGrant {
        schema: SCHEMA,
        config: name.into(),
        layered_image: None,
        config_hash: None,
        since: time(0),
        slot: None,
        granted_in: None,
    }
}

#[test]
fn window_comes_before_the_slot_and_the_slot_before_the_hooks() {
    let (open, closed) = (WindowState::Open { closes: time(9) }, WindowState::Closed { opens: time(7) });
    let step = |windows, has_lock, slot, hooks_passed| {
        next_step(windows, has_lock, GrantProgress { slot, hooks_passed })
    };
    for (windows, has_lock, slot, hooks_passed, expected) in [
        (closed, true, SlotState::Free, false, GrantStep::AwaitWindow { opens: time(7) }),
        (closed, false, SlotState::Free, true, GrantStep::AwaitWindow { opens: time(7) }),
        (closed, true, SlotState::Requested, false, GrantStep::ReleaseSlot),
        (closed, true, SlotState::Granted, true, GrantStep::ReleaseSlot),
        // The lock was taken out of the settings meanwhile.
        (closed, false, SlotState::Granted, true, GrantStep::ReleaseSlot),
        (open, true, SlotState::Free, false, GrantStep::RequestSlot),
        (open, true, SlotState::Requested, true, GrantStep::RequestSlot),
        (open, true, SlotState::Granted, false, GrantStep::RunHooks),
        (open, true, SlotState::Granted, true, GrantStep::Grant),
        (open, false, SlotState::Free, false, GrantStep::RunHooks),
        (WindowState::Unrestricted, false, SlotState::Free, true, GrantStep::Grant),
        (WindowState::Unrestricted, true, SlotState::Free, true, GrantStep::RequestSlot),
    ] {
        assert_eq!(step(windows, has_lock, slot, hooks_passed), expected, "{windows:?} {slot:?}");
    }
}

#[test]
fn grant_ends_with_confirmation_or_another_desired_config() {
    let (own, other) = (config("a"), config("b"));
    let grant =
        |granted_in: Option<&str>| RebootGrant { granted_in: granted_in.map(Into::into), ..grant_of("a") };
    let ended_in = |boot: &str, phase: DaemonPhase, keeps| {
        has_ended(&Lifecycle { phase, ..Lifecycle::default() }, &grant(Some("1")), &boot.into(), keeps)
    };
    let ended = |phase, keeps| ended_in("2", phase, keeps);
    let draining =
        DaemonPhase::Draining { target: other.clone(), next: AfterDrain::Unlock, is_overdue: false };
    for phase in [
        DaemonPhase::Observing,
        DaemonPhase::Idle,
        DaemonPhase::Fetching { target: own.clone() },
        DaemonPhase::Preparing { target: own.clone() },
        draining,
        DaemonPhase::Unlocking { target: own.clone() },
        DaemonPhase::ShuttingDown { target: own.clone() },
        DaemonPhase::CheckingBoot { failed_checks: None },
        DaemonPhase::RollingBack { reason: String::new() },
        DaemonPhase::Verifying,
        DaemonPhase::Uncordoning { is_overdue: false },
        DaemonPhase::Drifted { reason: String::new() },
        DaemonPhase::Blocked { reason: String::new() },
    ] {
        assert!(!ended(phase.clone(), true), "{phase:?}");
    }
    let awaiting = |is_requested| {
        let waits_for = GrantWait::Drain { reason: "a pod".into() };
        let wait = Some(GrantDelay { waits_for, retry_after: INTERVAL });
        DaemonPhase::AwaitingGrant { target: own.clone(), next: AfterDrain::Unlock, wait, is_requested }
    };
    assert!(ended_in("1", awaiting(false), true), "a drain was given up");
    assert!(!ended_in("1", awaiting(true), true), "it may be granted already");
    assert!(ended(DaemonPhase::Done, true));
    assert!(ended(DaemonPhase::Blocked { reason: String::new() }, false));
    assert!(ended(DaemonPhase::Fetching { target: other.clone() }, true));
    assert!(ended(DaemonPhase::Preparing { target: other.clone() }, true));
    assert!(!ended_in("1", DaemonPhase::Preparing { target: other }, true), "what is staged may be unlocked");
}

#[test]
fn update_is_confirmed_where_the_host_runs_it() {
    let grant = grant_of("a");
    let confirmed = |phase, current: &str| {
        let lifecycle = Lifecycle { phase, current: Some(config(current)), ..Lifecycle::default() };
        is_confirmed(&lifecycle, &grant)
    };
    assert!(confirmed(DaemonPhase::Done, "a"));
    assert!(!confirmed(DaemonPhase::Verifying, "a"));
    assert!(!confirmed(DaemonPhase::Done, "b"), "it was rolled back, or never booted");
}

/// Ports of a host whose hooks take so long that another host takes its slot: the lock's server refuses all requests then.
#[derive(Default)]
struct SlowHooks {
    is_lost: bool,
    is_window_closed: bool,
    final_hooks: usize,
    stored: Vec<RebootGrant>,
}

impl GrantPorts for SlowHooks {
    type Error = std::convert::Infallible;

    fn windows(&self) -> Result<WindowState, Self::Error> {
        Ok(if self.is_window_closed {
            WindowState::Closed { opens: time(7) }
        } else {
            WindowState::Unrestricted
        })
    }

    fn send(&mut self, _: &LockSlot, _: SlotRequest) -> Result<(), String> {
        if self.is_lost { Err("held by b".to_owned()) } else { Ok(()) }
    }

    fn run_hooks(&mut self, _: &RebootGrant) -> Option<GrantWait> {
        self.is_lost = true;
        None
    }

    fn run_final_hooks(&mut self, _: &RebootGrant) {
        self.final_hooks += 1;
    }

    fn store(&mut self, grant: &RebootGrant) -> Result<(), Self::Error> {
        self.stored.push(grant.clone());
        Ok(())
    }

    fn remove(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

#[test]
fn slot_that_is_lost_during_the_hooks_is_requested_again() {
    let slot = |address| LockSlot { address, group: "default".into(), id: "a".into(), granted: false };
    let leases = LeasePlace { kubeconfig: "/k".into(), namespace: "n".into() };
    let mut ports = SlowHooks::default();
    let lease = slot(LockAddress::Leases(leases));
    let Ok(wait) = request(&mut ports, grant_of("a"), Some(lease), &"1".into());
    assert!(matches!(wait, Some(GrantWait::Slot { .. })), "{wait:?}");
    assert!(ports.stored.iter().all(|grant| grant.granted_in.is_none()));
    // A slot of a FleetLock server stays.
    let mut ports = SlowHooks::default();
    let lock = slot(LockAddress::FleetLock { server: "https://lock".into() });
    let Ok(wait) = request(&mut ports, grant_of("a"), Some(lock), &"1".into());
    assert_eq!(wait, None);
    assert_eq!(ports.stored.last().and_then(|grant| grant.granted_in.clone()), Some("1".into()));
}

#[test]
fn disruption_that_ended_is_granted_anew_even_if_its_slot_was_not_given_back() {
    let address = LockAddress::FleetLock { server: "https://lock".into() };
    let slot = LockSlot { address, group: "default".into(), id: "a".into(), granted: true };
    let boot: BootId = "1".into();
    let granted = RebootGrant { slot: Some(slot.clone()), granted_in: Some(boot.clone()), ..grant_of("a") };
    let mut ports = SlowHooks { is_lost: true, is_window_closed: true, ..SlowHooks::default() };
    let Ok(refused) = end(&mut ports, granted.clone(), false);
    assert!(refused.is_some() && ports.final_hooks == 0, "a drain was given up");
    let stored = ports.stored.pop().expect("the grant is withdrawn before its slot is given back");
    let again = continued(Some(stored), &config("a"), time(1));
    let Ok(wait) = request(&mut ports, again.clone(), Some(slot.clone()), &boot);
    assert!(matches!(wait, Some(GrantWait::Slot { .. })), "the window is closed: {wait:?}");
    ports.is_lost = false;
    let Ok(wait) = request(&mut ports, again, Some(slot), &boot);
    assert_eq!(wait, Some(GrantWait::Window { opens: time(7) }));
    // The hooks of a confirmed update run once.
    ports.is_lost = true;
    let Ok(_) = end(&mut ports, granted, true);
    let stored = ports.stored.pop().unwrap();
    let Ok(_) = end(&mut ports, stored, true);
    assert_eq!(ports.final_hooks, 1);
}

/// Ports of a host whose disk is full: files can be removed, and none written.
#[derive(Default)]
struct FullDisk {
    is_refused: bool,
    requests: usize,
    is_removed: bool,
}

impl GrantPorts for FullDisk {
    type Error = &'static str;

    fn windows(&self) -> Result<WindowState, Self::Error> {
        Ok(WindowState::Unrestricted)
    }

    fn send(&mut self, _: &LockSlot, _: SlotRequest) -> Result<(), String> {
        self.requests += 1;
        if self.is_refused { Err("out of reach".to_owned()) } else { Ok(()) }
    }

    fn run_hooks(&mut self, _: &RebootGrant) -> Option<GrantWait> {
        None
    }

    fn run_final_hooks(&mut self, _: &RebootGrant) {}

    fn store(&mut self, _: &RebootGrant) -> Result<(), Self::Error> {
        Err("no space")
    }

    fn remove(&mut self) -> Result<(), Self::Error> {
        self.is_removed = true;
        Ok(())
    }
}

#[test]
fn full_disk_keeps_no_slot() {
    let address = LockAddress::FleetLock { server: "https://lock".into() };
    let slot = LockSlot { address, group: "default".into(), id: "a".into(), granted: true };
    let granted = RebootGrant { slot: Some(slot), granted_in: Some("1".into()), ..grant_of("a") };
    let mut ports = FullDisk::default();
    assert_eq!(end(&mut ports, granted.clone(), false), Ok(None));
    assert!(ports.requests == 1 && ports.is_removed);
    let mut ports = FullDisk { is_refused: true, ..FullDisk::default() };
    assert_eq!(end(&mut ports, granted, false), Err("no space"), "it is tried again");
    assert!(ports.requests == 1 && !ports.is_removed);
}

#[test]
fn wait_for_a_window_ends_soon_after_it_opens_and_looks_at_the_clock_meanwhile() {
    let wait = GrantWait::Window { opens: time(100) };
    for (now, seconds) in [(0, 60), (41, 60), (42, 59), (99, 2), (100, 1), (500, 1)] {
        assert_eq!(wait.delay(time(now), INTERVAL, 0).as_secs(), seconds, "{now}");
    }
    assert_eq!(wait.delay(time(99), INTERVAL, 1000).as_secs(), 32, "hosts do not ask together");
    assert_eq!(wait.delay(time(0), INTERVAL, 1000).as_secs(), 60);
    let wait = GrantWait::Slot { lock: "x".to_owned(), reason: "y".to_owned() };
    assert_eq!(wait.delay(time(0), INTERVAL, 0).as_secs(), 30);
    assert_eq!(wait.delay(time(0), INTERVAL, 1000).as_secs(), 90);
}

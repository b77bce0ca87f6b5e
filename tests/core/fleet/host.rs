//! One host of the fleet: the daemon's state machine and reboot policy, and a model of its disk, its jobs and its boots.

use std::time::Duration;

use flameholder::core::config::settings::reboot_window::WindowState;
use flameholder::core::daemon::grant::leases::{LeaseSightings, lease_duration, renewal_interval};
use flameholder::core::daemon::grant::{self, GrantDelay, GrantPorts, GrantWait, SlotRequest};
use flameholder::core::daemon::lifecycle::{
    BlockedConfig, BootCheckState, ConfigRef, DaemonCommand, DaemonDelay, DaemonEvent, DaemonPhase,
    DaemonProblem, HostObservation, Lifecycle, ProblemClass,
};
use flameholder::core::plan::remaining_work::RemainingWork;
use flameholder::core::state::reboot_grant::{LeasePlace, LockAddress, LockSlot, RebootGrant};
use flameholder::core::values::identifiers::BootId;
use jiff::Timestamp;

use super::model::{FleetSetup, LockClient, LockServer, Mutation, Violation};

/// Seconds of a day that the window is open from, and its length.
const WINDOW: (i64, i64) = (3600, 4 * 3600);
const DAY: i64 = 24 * 3600;

/// Something that happens to a host.
#[derive(Debug, Clone)]
pub(super) enum Occurrence {
    /// The end of a job or a delay; only for the attempt that began it.
    Event(u64, DaemonEvent),
    /// The end of the job that ends a grant.
    EndGrant,
    /// The kernel of the next deployment starts.
    Boot,
    /// The boot check ends.
    BootChecked,
    /// The daemon is killed, and started again.
    Kill,
    /// Another config is desired.
    Desire(ConfigRef),
    /// The daemon of this number renews its slot.
    Renew(u64),
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) id: usize,
    lifecycle: Lifecycle,
    /// Number of the running attempt: events of others are stale.
    attempt: u64,
    boot: u32,
    desired: ConfigRef,
    pub(super) booted: ConfigRef,
    previous: ConfigRef,
    blocked: Option<ConfigRef>,
    is_unconfirmed: bool,
    /// Grant on the disk.
    grant: Option<RebootGrant>,
    /// Seconds by which the clock of the host is fast.
    clock: i64,
    /// Time at which the kernel started.
    booted_at: i64,
    sightings: LeaseSightings,
    /// Number of the running daemon, and whether it renews a slot.
    daemon: u64,
    renews: bool,
    pub(super) is_off: bool,
    pub(super) is_dead: bool,
    pub(super) has_tried: bool,
    /// True from the drain to the confirmation.
    pub(super) is_down: bool,
}

/// Ports of a grant in the model.
struct ModelPorts<'a> {
    attempt: u64,
    now: i64,
    clock: i64,
    setup: &'a FleetSetup,
    lock: &'a mut LockServer,
    grant: &'a mut Option<RebootGrant>,
    sightings: &'a mut LeaseSightings,
    booted_at: i64,
}

pub(super) fn config(name: &str) -> ConfigRef {
    ConfigRef { config: name.into(), image: None, digest: None }
}

fn boot_id(boot: u32) -> BootId {
    format!("{boot}").as_str().into()
}

fn window_at(local: i64) -> WindowState {
    let (opens, length) = WINDOW;
    let day = local - local.rem_euclid(DAY);
    let time = |second| Timestamp::from_second(second).unwrap();
    match local.rem_euclid(DAY) {
        second if second < opens => WindowState::Closed { opens: time(day + opens) },
        second if second < opens + length => WindowState::Open { closes: time(day + opens + length) },
        _ => WindowState::Closed { opens: time(day + DAY + opens) },
    }
}

impl GrantPorts for ModelPorts<'_> {
    type Error = std::convert::Infallible;

    fn windows(&self) -> Result<WindowState, Self::Error> {
        let is_kept = self.setup.has_windows && self.setup.mutation != Some(Mutation::NoWindow);
        Ok(if is_kept { window_at(self.now + self.clock) } else { WindowState::Unrestricted })
    }

    fn send(&mut self, slot: &LockSlot, request: SlotRequest) -> Result<(), String> {
        let id = match self.setup.mutation {
            Some(Mutation::LockPerAttempt) => format!("{}/{}", slot.id, self.attempt),
            _ => slot.id.clone(),
        };
        if request == SlotRequest::Release && self.setup.mutation == Some(Mutation::NeverRelease) {
            return Ok(());
        }
        let uptime = Duration::from_secs(u64::try_from(self.now - self.booted_at).unwrap());
        let mutation = self.setup.mutation;
        let client = LockClient { id: &id, now: self.now, sightings: self.sightings, uptime, mutation };
        self.lock.request(client, request)
    }

    fn run_hooks(&mut self, _: &RebootGrant) -> Option<GrantWait> {
        None
    }

    fn run_final_hooks(&mut self, _: &RebootGrant) {}

    fn store(&mut self, grant: &RebootGrant) -> Result<(), Self::Error> {
        let is_forgotten = self.setup.mutation == Some(Mutation::ForgetLostAnswer)
            && grant.slot.as_ref().is_some_and(|slot| !slot.granted);
        if !is_forgotten {
            *self.grant = Some(grant.clone());
        }
        Ok(())
    }

    fn remove(&mut self) -> Result<(), Self::Error> {
        *self.grant = None;
        Ok(())
    }
}

/// What follows from an occurrence: further ones, each after a number of seconds.
pub(super) type Consequences = Vec<(i64, Occurrence)>;

impl Host {
    pub(super) fn new(id: usize, clock: i64) -> Self {
        let old = config("old");
        Self {
            id,
            lifecycle: Lifecycle::default(),
            attempt: 0,
            boot: 1,
            desired: old.clone(),
            booted: old.clone(),
            previous: old,
            blocked: None,
            is_unconfirmed: false,
            grant: None,
            clock,
            booted_at: 0,
            sightings: LeaseSightings::default(),
            daemon: 0,
            renews: false,
            is_off: false,
            is_dead: false,
            has_tried: false,
            is_down: false,
        }
    }

    /// Start the daemon, without memory of earlier ones.
    pub(super) fn start(&mut self) -> Consequences {
        self.attempt += 1;
        self.daemon += 1;
        self.renews = false;
        self.lifecycle = Lifecycle::default();
        let look = (2, Occurrence::Event(self.attempt, self.observation()));
        let desire = (3, Occurrence::Desire(self.desired.clone()));
        vec![look, desire]
    }

    fn observation(&self) -> DaemonEvent {
        let boot_check = if self.is_unconfirmed {
            BootCheckState::Unconfirmed { failed_checks: None }
        } else {
            BootCheckState::Confirmed
        };
        let blocked = self.blocked.clone();
        DaemonEvent::Observed(HostObservation {
            current: Some(self.booted.clone()),
            boot_check,
            blocked: blocked.map(|desired| BlockedConfig { desired, reason: "it is not healthy".into() }),
            ..HostObservation::default()
        })
    }

    /// Let something happen at `now`.
    pub(super) fn meet(
        &mut self,
        occurrence: Occurrence,
        now: i64,
        setup: &FleetSetup,
        lock: &mut LockServer,
    ) -> Result<Consequences, Violation> {
        if self.is_dead {
            return Ok(Vec::new());
        }
        match occurrence {
            Occurrence::Event(attempt, _) if attempt != self.attempt || self.is_off => Ok(Vec::new()),
            Occurrence::Event(_, event) => self.step(event, now, setup, lock),
            Occurrence::Desire(desired) => {
                self.desired = desired.clone();
                if self.is_off {
                    Ok(Vec::new())
                } else {
                    self.step(DaemonEvent::DesiredChanged(desired), now, setup, lock)
                }
            }
            Occurrence::EndGrant => {
                Ok(if self.is_off { Vec::new() } else { self.end_grant(now, setup, lock) })
            }
            Occurrence::Kill if self.is_off => Ok(Vec::new()),
            Occurrence::Kill => Ok(self.start()),
            Occurrence::Renew(daemon) if daemon != self.daemon || self.is_off => Ok(Vec::new()),
            Occurrence::Renew(_) => Ok(self.renew(now, lock)),
            Occurrence::Boot => {
                self.boot += 1;
                self.booted_at = now;
                self.sightings = LeaseSightings::default();
                self.is_off = false;
                let mut next = self.start();
                if self.is_unconfirmed {
                    next.push((setup.boot_check, Occurrence::BootChecked));
                }
                Ok(next)
            }
            Occurrence::BootChecked => Ok(self.boot_checked(setup)),
        }
    }

    fn boot_checked(&mut self, setup: &FleetSetup) -> Consequences {
        if setup.is_bad && self.booted == config("new") {
            self.blocked = Some(std::mem::replace(&mut self.booted, self.previous.clone()));
            self.is_off = true;
            self.is_unconfirmed = false;
            self.attempt += 1;
            return vec![(setup.reboot, Occurrence::Boot)];
        }
        self.is_unconfirmed = false;
        vec![(1, Occurrence::Event(self.attempt, DaemonEvent::StateChanged))]
    }

    fn step(
        &mut self,
        event: DaemonEvent,
        now: i64,
        setup: &FleetSetup,
        lock: &mut LockServer,
    ) -> Result<Consequences, Violation> {
        let (next, commands) = std::mem::take(&mut self.lifecycle).step(event);
        self.lifecycle = next;
        self.check(now, setup, lock)?;
        let mut consequences = Vec::new();
        self.attempt += u64::from(!commands.is_empty());
        for command in commands {
            consequences.extend(self.carry_out(command, now, setup, lock));
        }
        if self.has_ended(setup) {
            consequences.push((1, Occurrence::EndGrant));
        }
        if setup.has_leases && !self.renews && self.grant.as_ref().is_some_and(RebootGrant::needs_renewal) {
            self.renews = true;
            consequences.push((1, Occurrence::Renew(self.daemon)));
        }
        Ok(consequences)
    }

    fn has_ended(&self, setup: &FleetSetup) -> bool {
        let Some(grant) = &self.grant else { return false };
        let too_early = setup.mutation == Some(Mutation::ReleaseBeforeConfirmation)
            && matches!(self.lifecycle.phase, DaemonPhase::CheckingBoot { .. });
        too_early || grant::has_ended(&self.lifecycle, grant, &boot_id(self.boot), setup.keeps_after_rollback)
    }

    /// Look for a disruption without a grant, and note its begin and its end.
    fn check(&mut self, now: i64, setup: &FleetSetup, lock: &LockServer) -> Result<(), Violation> {
        match &self.lifecycle.phase {
            DaemonPhase::Draining { .. } if !self.is_down => {
                self.is_down = true;
                if !lock.is_held_by(self.id) {
                    return Err(Violation::WithoutSlot { host: self.id, now });
                }
                if setup.has_windows && matches!(window_at(now + self.clock), WindowState::Closed { .. }) {
                    return Err(Violation::OutsideWindow { host: self.id, now });
                }
            }
            DaemonPhase::Done | DaemonPhase::Blocked { .. } => self.is_down = false,
            // It was rolled back, and runs a confirmed generation.
            DaemonPhase::Fetching { .. } if self.has_ended(setup) => self.is_down = false,
            _ => {}
        }
        if self.is_down && !lock.is_held_by(self.id) {
            return Err(Violation::WithoutSlot { host: self.id, now });
        }
        Ok(())
    }

    fn carry_out(
        &mut self,
        command: DaemonCommand,
        now: i64,
        setup: &FleetSetup,
        lock: &mut LockServer,
    ) -> Consequences {
        let attempt = self.attempt;
        let event = |seconds: i64, event: DaemonEvent| vec![(seconds, Occurrence::Event(attempt, event))];
        let vary = |most: i64| 1 + (self.number() * 7919 + now) % most;
        let problem =
            |class, reason: &str| DaemonEvent::Failed(DaemonProblem { class, reason: reason.into() });
        match command {
            DaemonCommand::Observe => event(2, self.observation()),
            DaemonCommand::Fetch(_) if setup.is_source_away(now) => {
                event(1, problem(ProblemClass::Transient, "the source is away"))
            }
            DaemonCommand::Fetch(_) => event(vary(5), DaemonEvent::Fetched),
            DaemonCommand::Prepare(_) => {
                event(vary(setup.pull), DaemonEvent::PreparedUnderPolicy(RemainingWork::Reboot(())))
            }
            DaemonCommand::RequestGrant(target) => event(1, self.request_grant(&target, now, setup, lock)),
            DaemonCommand::Drain(_) => event(vary(setup.drain), DaemonEvent::Drained),
            DaemonCommand::Apply(_) => event(1, DaemonEvent::Applied),
            DaemonCommand::Unlock(target) => {
                let is_held = !setup.has_leases
                    || self.request_grant(&target, now, setup, lock) == DaemonEvent::Granted;
                let lost = || problem(ProblemClass::Transient, "the slot is not held");
                event(1, if is_held { DaemonEvent::Unlocked } else { lost() })
            }
            DaemonCommand::Reboot(target) => {
                self.is_off = true;
                self.attempt += 1;
                self.has_tried = true;
                self.previous = std::mem::replace(&mut self.booted, target);
                self.is_unconfirmed = true;
                vec![(setup.reboot, Occurrence::Boot)]
            }
            DaemonCommand::Verify => event(1, DaemonEvent::Verified),
            DaemonCommand::Uncordon => event(1, DaemonEvent::Uncordoned),
            DaemonCommand::Cancel => event(0, problem(ProblemClass::Interrupted, "cancelled")),
            DaemonCommand::Wait(DaemonDelay::Grant(delay)) => {
                event(i64::try_from(delay.as_secs()).unwrap(), DaemonEvent::TimerExpired)
            }
            DaemonCommand::Wait(DaemonDelay::Drain | DaemonDelay::Uncordon) => Vec::new(),
            DaemonCommand::Wait(_) => event(30, DaemonEvent::TimerExpired),
        }
    }

    fn number(&self) -> i64 {
        i64::try_from(self.id).unwrap()
    }

    fn renew(&mut self, now: i64, lock: &mut LockServer) -> Consequences {
        self.renews = self.grant.as_ref().is_some_and(RebootGrant::needs_renewal);
        if !self.renews {
            return Vec::new();
        }
        lock.renew(&self.id.to_string(), now);
        let next = renewal_interval(lease_duration(Some(1))).as_secs();
        vec![(i64::try_from(next).unwrap(), Occurrence::Renew(self.daemon))]
    }

    fn ports<'a>(&'a mut self, now: i64, setup: &'a FleetSetup, lock: &'a mut LockServer) -> ModelPorts<'a> {
        ModelPorts {
            attempt: self.attempt,
            now,
            clock: self.clock,
            setup,
            lock,
            grant: &mut self.grant,
            sightings: &mut self.sightings,
            booted_at: self.booted_at,
        }
    }

    fn slot(&self, setup: &FleetSetup) -> LockSlot {
        let leases = LeasePlace { kubeconfig: String::new(), namespace: String::new() };
        LockSlot {
            address: if setup.has_leases {
                LockAddress::Leases(leases)
            } else {
                LockAddress::FleetLock { server: String::new() }
            },
            group: String::new(),
            id: self.id.to_string(),
            granted: false,
        }
    }

    fn request_grant(
        &mut self,
        target: &ConfigRef,
        now: i64,
        setup: &FleetSetup,
        lock: &mut LockServer,
    ) -> DaemonEvent {
        let time = Timestamp::from_second(now + self.clock).unwrap();
        let jitter = u32::try_from((self.number() * 31 + now) % 1000).unwrap();
        let demanded = (setup.mutation != Some(Mutation::NoLock)).then(|| self.slot(setup));
        let continued = grant::continued(self.grant.clone(), target, time);
        let boot = boot_id(self.boot);
        let mut ports = self.ports(now, setup, lock);
        let Ok(wait) = grant::request(&mut ports, continued, demanded, &boot);
        match wait {
            None => DaemonEvent::Granted,
            Some(waits_for) => {
                let retry_after = waits_for.delay(time, setup.retry, jitter);
                DaemonEvent::GrantDelayed(GrantDelay { waits_for, retry_after })
            }
        }
    }

    fn end_grant(&mut self, now: i64, setup: &FleetSetup, lock: &mut LockServer) -> Consequences {
        if !self.has_ended(setup) {
            return Vec::new();
        }
        let Some(grant) = self.grant.clone() else { return Vec::new() };
        let is_confirmed = self.lifecycle.phase == DaemonPhase::Done;
        let mut ports = self.ports(now, setup, lock);
        let Ok(left) = grant::end(&mut ports, grant, is_confirmed);
        left.map(|_| (60, Occurrence::EndGrant)).into_iter().collect()
    }
}

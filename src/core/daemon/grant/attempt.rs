//! One attempt at a grant, and its end, against ports for the lock, the hooks and the disk.
//!
//! The stored grant is written before and after each request to the lock's server, so that the power may go at any line: a
//! request whose answer was lost is repeated, and a slot that may be held is given back.

use jiff::Timestamp;

use super::{GrantProgress, GrantStep, GrantWait, SlotState, next_step};
use crate::core::config::settings::reboot_window::WindowState;
use crate::core::daemon::lifecycle::ConfigRef;
use crate::core::state::reboot_grant::{LockSlot, RebootGrant, SCHEMA};
use crate::core::values::identifiers::BootId;

/// Request about a slot of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotRequest {
    /// Request a slot, or ask if it is held.
    Acquire,
    /// Give the slot back.
    Release,
}

/// Answer to a request for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotAnswer {
    Granted,
    /// Refused, with the reason: of the server, or the holders of the slots.
    Refused(String),
}

/// Ports of an attempt at a grant.
pub trait GrantPorts {
    /// Failure that ends the attempt: of the disk, or of the policy itself.
    type Error;

    /// Return the state of the reboot windows now.
    fn windows(&self) -> Result<WindowState, Self::Error>;

    /// Send a request to the lock's server; an error is the reason why it was not granted, or may not have been.
    fn send(&mut self, slot: &LockSlot, request: SlotRequest) -> Result<(), String>;

    /// Run the hooks before the disruption; returns the first that failed.
    fn run_hooks(&mut self, grant: &RebootGrant) -> Option<GrantWait>;

    /// Run the hooks after the confirmation.
    fn run_final_hooks(&mut self, grant: &RebootGrant);

    /// Store the grant, durably.
    fn store(&mut self, grant: &RebootGrant) -> Result<(), Self::Error>;

    /// Remove the stored grant, durably.
    fn remove(&mut self) -> Result<(), Self::Error>;
}

/// Grant that is requested, and its ports.
struct GrantAttempt<'a, P> {
    ports: &'a mut P,
    /// Slot that the policy demands; `None` without a lock.
    demanded: Option<LockSlot>,
    grant: RebootGrant,
    hooks_passed: bool,
}

/// Return the grant for `target` that continues the `stored` one. A slot that was requested for another target stays this
/// host's.
#[must_use]
pub fn continued(stored: Option<RebootGrant>, target: &ConfigRef, now: Timestamp) -> RebootGrant {
    let ConfigRef { config, image, digest } = target.clone();
    let same = stored.as_ref().filter(|stored| ConfigRef::of_grant(stored).is_same(target));
    RebootGrant {
        schema: SCHEMA,
        config,
        layered_image: image,
        config_hash: digest,
        since: same.map_or(now, |stored| stored.since),
        granted_in: same.and_then(|stored| stored.granted_in.clone()),
        // It is requested again, even if it was granted before: a server can have lost its memory meanwhile.
        slot: stored.and_then(|stored| stored.slot).map(|slot| LockSlot { granted: false, ..slot }),
    }
}

/// Take steps towards `grant` until everything is granted, or one has to be waited for. `demanded` is the slot that the
/// policy demands, and `boot` the boot that the disruption ends.
pub fn request<P: GrantPorts>(
    ports: &mut P,
    grant: RebootGrant,
    demanded: Option<LockSlot>,
    boot: &BootId,
) -> Result<Option<GrantWait>, P::Error> {
    let has_begun = grant.granted_in.as_ref() == Some(boot);
    let can_be_lost = demanded.as_ref().is_some_and(LockSlot::expires);
    let mut attempt = GrantAttempt { ports, demanded, grant, hooks_passed: false };
    // The disruption goes on, even if the windows and hooks say no by now.
    if has_begun {
        while can_be_lost && !attempt.grant.holds_slot() {
            if let Some(wait) = attempt.acquire()? {
                return Ok(Some(wait));
            }
        }
        return Ok(None);
    }
    loop {
        let slot = SlotState::of(&attempt.grant);
        let progress = GrantProgress { slot, hooks_passed: attempt.hooks_passed };
        let wait = match next_step(attempt.ports.windows()?, attempt.demanded.is_some(), progress) {
            GrantStep::AwaitWindow { opens } => Some(GrantWait::Window { opens }),
            GrantStep::RequestSlot => attempt.acquire()?,
            GrantStep::ReleaseSlot => attempt.release()?,
            GrantStep::RunHooks => match attempt.run_hooks()? {
                // The hooks may have taken longer than the slot lasts.
                None if can_be_lost => attempt.acquire()?,
                wait => wait,
            },
            GrantStep::Grant => {
                attempt.grant.granted_in = Some(boot.clone());
                attempt.ports.store(&attempt.grant)?;
                return Ok(None);
            }
        };
        if wait.is_some() {
            return Ok(wait);
        }
    }
}

impl<P: GrantPorts> GrantAttempt<'_, P> {
    fn acquire(&mut self) -> Result<Option<GrantWait>, P::Error> {
        let Some(demanded) = self.demanded.clone() else { return Ok(None) };
        if self.grant.slot.as_ref().is_some_and(|held| !held.is_same(&demanded)) {
            // The policy names another lock by now.
            return self.release();
        }
        // Before the request: its answer may be lost.
        self.store_slot(Some(demanded.clone()))?;
        match self.ports.send(&demanded, SlotRequest::Acquire) {
            Ok(()) => self.store_slot(Some(LockSlot { granted: true, ..demanded })).map(|()| None),
            Err(reason) => Ok(Some(GrantWait::Slot { lock: demanded.lock(), reason })),
        }
    }

    fn release(&mut self) -> Result<Option<GrantWait>, P::Error> {
        let Some(held) = self.grant.slot.clone() else { return Ok(None) };
        match self.ports.send(&held, SlotRequest::Release) {
            Ok(()) => self.store_slot(None).map(|()| None),
            Err(reason) => {
                let reason = format!("it cannot be given back for now: {reason}");
                Ok(Some(GrantWait::Slot { lock: held.lock(), reason }))
            }
        }
    }

    fn run_hooks(&mut self) -> Result<Option<GrantWait>, P::Error> {
        let failed = self.ports.run_hooks(&self.grant);
        self.hooks_passed = failed.is_none();
        if failed.is_some() {
            // Another host can have its turn meanwhile.
            self.release()?;
        }
        Ok(failed)
    }

    /// Store the state of the slot. Without one, there is nothing to remember until everything is granted.
    fn store_slot(&mut self, slot: Option<LockSlot>) -> Result<(), P::Error> {
        self.grant.slot = slot;
        if self.grant.slot.is_some() { self.ports.store(&self.grant) } else { self.ports.remove() }
    }
}

/// End a grant: run the hooks if its update is confirmed, give the slot back, and forget the grant. Returns the reason why the
/// slot could not be given back: to be repeated until there is none.
pub fn end<P: GrantPorts>(
    ports: &mut P,
    mut grant: RebootGrant,
    is_confirmed: bool,
) -> Result<Option<String>, P::Error> {
    let mut stored = Ok(());
    if grant.granted_in.take().is_some() {
        if is_confirmed {
            ports.run_final_hooks(&grant);
        }
        // Before the slot is given back, which may fail: hooks that have run are not to run again, and a disruption that was
        // given up has to be granted again. A full disk keeps no other host waiting.
        stored = ports.store(&grant);
    }
    if let Some(held) = &grant.slot
        && let Err(reason) = ports.send(held, SlotRequest::Release)
    {
        return stored.map(|()| Some(reason));
    }
    ports.remove().map(|()| None)
}

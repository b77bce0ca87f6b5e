//! Ports of a grant on the running host: the clock, the lock's server, the hooks, the disk.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::error::GrantError;
use super::{hooks, slot};
use crate::core::config::settings::Settings;
use crate::core::config::settings::hooks::{AFTER_CONFIRMATION, BEFORE_DRAIN};
use crate::core::config::settings::reboot_window::WindowState;
use crate::core::daemon::grant::{GrantPorts, GrantWait, SlotRequest};
use crate::core::state::reboot_grant::{LockSlot, RebootGrant};
use crate::host::facts::time_zone::time_zone;
use crate::host::{HostError, Root};
use crate::transaction::grant::stored_grant;

/// Ports on the running host.
pub(super) struct HostPorts<'a> {
    root: &'a Root,
    settings: &'a Settings,
    zone: TimeZone,
}

impl<'a> HostPorts<'a> {
    /// Open the ports under these settings, whose time zone has to be known.
    pub(super) fn open(root: &'a Root, settings: &'a Settings) -> Result<Self, GrantError> {
        let zone = time_zone(settings.reboot.windows.time_zone())?;
        Ok(Self { root, settings, zone })
    }
}

impl GrantPorts for HostPorts<'_> {
    type Error = HostError;

    fn windows(&self) -> WindowState {
        self.settings.reboot.windows.at(Timestamp::now(), &self.zone)
    }

    fn send(&mut self, slot: &LockSlot, request: SlotRequest) -> Result<(), String> {
        let answer = slot::send(slot, &self.settings.reboot_lock.access, request);
        if answer.is_ok() {
            let verb = match request {
                SlotRequest::Acquire => "granted",
                SlotRequest::Release => "given back",
            };
            log::info!("a slot of {} is {verb}", slot.lock());
        }
        answer
    }

    fn run_hooks(&mut self, grant: &RebootGrant) -> Option<GrantWait> {
        hooks::run_until_failure(&BEFORE_DRAIN, self.settings.hooks.timeout(), grant).err()
    }

    fn run_final_hooks(&mut self, grant: &RebootGrant) {
        hooks::run_all(&AFTER_CONFIRMATION, self.settings.hooks.timeout(), grant);
    }

    fn store(&mut self, grant: &RebootGrant) -> Result<(), HostError> {
        stored_grant::store(self.root, grant)
    }

    fn remove(&mut self) -> Result<(), HostError> {
        stored_grant::remove(self.root)
    }
}

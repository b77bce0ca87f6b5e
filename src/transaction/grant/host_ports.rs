//! Ports of a grant on the running host: the clock, the lock's server, the hooks, the disk.

use jiff::Timestamp;

use super::error::GrantError;
use super::{hooks, slot};
use crate::core::config::settings::Settings;
use crate::core::config::settings::reboot_window::WindowState;
use crate::core::daemon::grant::{GrantPorts, GrantWait, SlotRequest};
use crate::core::state::reboot_grant::{LockSlot, RebootGrant};
use crate::host::Root;
use crate::host::facts::time_zone::time_zone;
use crate::transaction::TransactionError;
use crate::transaction::grant::stored_grant;

/// Ports on the running host.
pub(super) struct HostPorts<'a> {
    pub(super) root: &'a Root,
    pub(super) settings: &'a Settings,
}

impl GrantPorts for HostPorts<'_> {
    type Error = TransactionError;

    fn windows(&self) -> Result<WindowState, TransactionError> {
        let windows = &self.settings.reboot.windows;
        let zone = time_zone(windows.time_zone()).map_err(GrantError::from)?;
        Ok(windows.at(Timestamp::now(), &zone))
    }

    fn send(&mut self, slot: &LockSlot, request: SlotRequest) -> Result<(), String> {
        let answer = slot::send(slot, self.settings, self.root, request);
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
        hooks::run_before_drain(self.root, self.settings.hooks.timeout(), grant)
    }

    fn run_final_hooks(&mut self, grant: &RebootGrant) {
        hooks::run_after_confirmation(self.root, self.settings.hooks.timeout(), grant);
    }

    fn store(&mut self, grant: &RebootGrant) -> Result<(), TransactionError> {
        Ok(stored_grant::store(self.root, grant)?)
    }

    fn remove(&mut self) -> Result<(), TransactionError> {
        Ok(stored_grant::remove(self.root)?)
    }
}

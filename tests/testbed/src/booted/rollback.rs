//! Rollback of a generation that fails its boot check.

use super::host::Host;

impl Host {
    /// Shut down, boot the unhealthy generation that is next, and roll it back.
    pub fn reboot_into_rollback(&self) {
        self.shut_down();
        self.boot_kernel(0);
        self.run_ok(["flameholder", "activate"]);
        // The boot check fails at once.
        let outcome = self.run(["flameholder", "confirm-boot"]);
        assert!(outcome.stderr.contains("is rolled back and blocked"), "{outcome:?}");
        self.power_cut();
        self.boot();
    }
}

//! Commands that systemd units, the daemon or a pod run, not an operator.

pub(crate) mod activate;
pub(crate) mod confirm_boot;
pub(crate) mod daemon;
pub(crate) mod finalize;
pub(crate) mod firstboot;
pub(crate) mod introduce;
pub(crate) mod reboot;
pub(crate) mod work;

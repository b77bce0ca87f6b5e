//! Jobs beside those of the lifecycle, each with its own backoff: trust material, pinned images, the end of a grant, the
//! renewal of its slot, notifications.

mod failed_attempts;
pub(super) mod grant_end;
pub(super) mod image_pins;
pub(super) mod notifications;
pub(super) mod slot_renewal;
pub(super) mod trust_sync;

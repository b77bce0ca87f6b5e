//! Errors of pinned images.

use crate::core::pinned_images::drop_in::DROP_IN;
use crate::core::values::refusal::RefusalList;
use crate::cri::CriError;

/// Images that cannot be pinned. Nothing on the host has changed, but for images that were pulled.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The sets hold names that are none.
    #[error("the pinned image sets are refused: {0}")]
    Refused(RefusalList),
    /// The drop-in's path is taken.
    #[error("pinned images cannot be written: {0}")]
    Obstructed(String),
    /// The current config lists the drop-in, so that its contents are the config's.
    #[error("the current config lists {DROP_IN}, which the pinned image sets need; list it no longer")]
    Managed,
    /// The images do not fit.
    #[error(
        "the missing images of the pinned image sets ({images}) need {needed} MiB on the file system of {place}, which has {free} MiB free, of which {reserve} MiB stay free; shorten the sets, or enlarge it"
    )]
    NoSpace { images: usize, place: String, needed: u64, free: u64, reserve: u64 },
    /// The container runtime failed.
    #[error(transparent)]
    Runtime(#[from] CriError),
    /// Memory or a descriptor is missing.
    #[error("pulling images")]
    Start(#[source] std::io::Error),
}

impl PinError {
    /// Return true if another attempt at once to pull the same image may succeed.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        !self.is_about_space() && !matches!(self, Self::Runtime(CriError::TimedOut(_)))
    }

    /// Return true if the disk has no space for more images: another pull would fail too.
    #[must_use]
    pub fn is_about_space(&self) -> bool {
        matches!(self, Self::NoSpace { .. } | Self::Runtime(CriError::NoSpace(_)))
    }
}

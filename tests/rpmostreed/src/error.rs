//! Errors by the names that `GDBus` gives them.

use zbus::message::{Header, Message};
use zbus::names::ErrorName;

/// Error of a method.
#[derive(Debug)]
pub(crate) struct Refusal {
    name: &'static str,
    text: String,
}

impl Refusal {
    /// `G_IO_ERROR_BUSY`.
    pub(crate) fn busy(text: String) -> Self {
        Self { name: "org.gtk.GDBus.UnmappedGError.Quark._g_2dio_2derror_2dquark.Code26", text }
    }

    /// `G_IO_ERROR_FAILED`, the code of most errors.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { name: "org.gtk.GDBus.UnmappedGError.Quark._g_2dio_2derror_2dquark.Code0", text: text.into() }
    }

    /// `G_IO_ERROR_NOT_FOUND`.
    pub(crate) fn not_found(text: String) -> Self {
        Self { name: "org.gtk.GDBus.UnmappedGError.Quark._g_2dio_2derror_2dquark.Code1", text }
    }

    /// Error of the daemon's own domain.
    pub(crate) fn own(text: String) -> Self {
        Self { name: "org.projectatomic.rpmostreed.Error.Failed", text }
    }

    /// Error for a method that the stand-in does not implement.
    pub(crate) fn unsupported(method: &str) -> Self {
        Self::failed(format!("the stand-in for rpm-ostreed does not implement {method}"))
    }
}

impl zbus::DBusError for Refusal {
    fn create_reply(&self, call: &Header<'_>) -> zbus::Result<Message> {
        Message::error(call, self.name())?.build(&self.text)
    }

    fn name(&self) -> ErrorName<'_> {
        ErrorName::from_static_str_unchecked(self.name)
    }

    fn description(&self) -> Option<&str> {
        Some(&self.text)
    }
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        Self::failed(format!("{error:#}"))
    }
}

impl From<zbus::Error> for Refusal {
    fn from(error: zbus::Error) -> Self {
        Self::failed(error.to_string())
    }
}

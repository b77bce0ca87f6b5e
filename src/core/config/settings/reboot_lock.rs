//! Settings of the lock that a host of a fleet holds while it is disrupted: `[reboot-lock]` in a fragment.

use std::path::PathBuf;

use serde::Deserialize;

use super::server_access::{PublicKeyPin, ServerAccess};
use super::server_url::ServerUrl;
use crate::core::values::names::ManagedPath;

/// Protocol of the lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockProtocol {
    /// No lock.
    #[default]
    None,
    /// `FleetLock`, as zincati speaks it to airlock and other servers.
    FleetLock,
}

/// Group of hosts that share the slots of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct LockGroup(String);

impl LockGroup {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for LockGroup {
    /// The group of zincati's hosts.
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl TryFrom<String> for LockGroup {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        if name.is_empty() || !name.bytes().all(is_valid) {
            return Err("expected a group of letters, digits, `.` and `-`");
        }
        Ok(Self(name))
    }
}

/// The lock; absent settings have their defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockSettings {
    pub protocol: LockProtocol,
    /// Address of the lock's server, below which the protocol has its own paths.
    pub server: Option<ServerUrl>,
    pub access: ServerAccess,
    pub group: LockGroup,
    /// Identity of the host; `None` for one that is derived from its machine ID.
    pub id: Option<String>,
    keep_after_rollback: Option<bool>,
}

impl LockSettings {
    /// Return true if a slot is needed before a disruption.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.protocol != LockProtocol::None
    }

    /// Return true if a host that rolled an update back keeps its slot until another config is desired, so that a bad
    /// update takes down no more hosts than there are slots.
    #[must_use]
    pub fn keeps_after_rollback(&self) -> bool {
        self.keep_after_rollback.unwrap_or(true)
    }
}

/// The TOML of `[reboot-lock]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct LockFragment {
    protocol: Option<LockProtocol>,
    server: Option<ServerUrl>,
    group: Option<LockGroup>,
    id: Option<String>,
    keep_after_rollback: Option<bool>,
    server_ca: Option<ManagedPath>,
    #[serde(default)]
    server_pins: Vec<PublicKeyPin>,
    client_certificate: Option<ManagedPath>,
    client_key: Option<ManagedPath>,
    token_file: Option<ManagedPath>,
}

impl LockFragment {
    pub(crate) fn overlay(self, settings: &mut LockSettings) {
        let earlier = std::mem::take(settings);
        let access = ServerAccess {
            ca: self.server_ca.map(PathBuf::from),
            pins: self.server_pins,
            client_certificate: self.client_certificate.map(PathBuf::from),
            client_key: self.client_key.map(PathBuf::from),
            token_file: self.token_file.map(PathBuf::from),
        };
        *settings = LockSettings {
            protocol: self.protocol.unwrap_or(earlier.protocol),
            server: self.server.or(earlier.server),
            access: access.or(earlier.access),
            group: self.group.unwrap_or(earlier.group),
            id: self.id.or(earlier.id),
            keep_after_rollback: self.keep_after_rollback.or(earlier.keep_after_rollback),
        };
    }
}

//! Settings of the lock that a host of a fleet holds while it is disrupted: `[reboot-lock]` in a fragment.

use std::num::NonZeroU16;
use std::path::PathBuf;

use serde::Deserialize;

use super::server_access::{PublicKeyPin, ServerAccess};
use super::server_url::ServerUrl;
use crate::core::values::names::{ManagedPath, is_dns_label};

/// Namespace of the Leases, unless another one is set.
const NAMESPACE: &str = "flameholder";

/// Limit of a label's value, in bytes.
const LABEL_BYTES: usize = 63;

/// Protocol of the lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockProtocol {
    /// No lock.
    #[default]
    None,
    /// `FleetLock`, as zincati speaks it to airlock and other servers.
    FleetLock,
    /// Leases of a Kubernetes cluster, one per slot.
    Lease,
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

    /// Return true if Leases can be named after the group.
    #[must_use]
    pub fn names_leases(&self) -> bool {
        is_label(&self.0)
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

/// Identity of a host in the group of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct LockIdentity(String);

impl LockIdentity {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for LockIdentity {
    type Error = &'static str;

    fn try_from(id: String) -> Result<Self, Self::Error> {
        if id.is_empty() || !id.chars().all(|character| character.is_ascii_graphic()) {
            return Err("expected an identity of letters, digits and signs, without spaces");
        }
        Ok(Self(id))
    }
}

/// Namespace of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct LeaseNamespace(String);

impl TryFrom<String> for LeaseNamespace {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        if is_label(&name) {
            Ok(Self(name))
        } else {
            Err("expected a namespace of small letters, digits and `-`")
        }
    }
}

/// Return true if `name` can be the value of a label and the begin of an object's name, with room for the number of a slot.
fn is_label(name: &str) -> bool {
    is_dns_label(name) && name.len() <= LABEL_BYTES
}

/// The lock; absent settings have their defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockSettings {
    pub protocol: LockProtocol,
    /// Address of the lock's server, below which the protocol has its own paths.
    pub server: Option<ServerUrl>,
    pub access: ServerAccess,
    pub group: LockGroup,
    /// Identity of the host; `None` for one that is derived from its machine ID, or for the name of its Node.
    pub id: Option<LockIdentity>,
    /// Kubeconfig of the cluster that has the Leases; `None` for that of the source.
    pub kubeconfig: Option<ManagedPath>,
    namespace: Option<LeaseNamespace>,
    slots: Option<NonZeroU16>,
    keep_after_rollback: Option<bool>,
}

impl LockSettings {
    /// Return true if a slot is needed before a disruption.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.protocol != LockProtocol::None
    }

    /// Return the namespace of the Leases.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.namespace.as_ref().map_or(NAMESPACE, |namespace| namespace.0.as_str())
    }

    /// Return the number of Leases of the group.
    #[must_use]
    pub fn slots(&self) -> u16 {
        self.slots.map_or(1, NonZeroU16::get)
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
    id: Option<LockIdentity>,
    keep_after_rollback: Option<bool>,
    kubeconfig: Option<ManagedPath>,
    namespace: Option<LeaseNamespace>,
    slots: Option<NonZeroU16>,
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
            kubeconfig: self.kubeconfig.or(earlier.kubeconfig),
            namespace: self.namespace.or(earlier.namespace),
            slots: self.slots.or(earlier.slots),
        };
    }
}

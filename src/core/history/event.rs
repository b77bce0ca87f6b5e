//! Kinds of events in the history of a host.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HistoryEvent {
    /// A config was applied to the running system or to a tree, without a reboot.
    Applied,
    /// A deployment of a sysroot that is not booted was made.
    Deployed,
    /// A deployment of the next generation was staged.
    Staged,
    /// The reboot policy granted the disruption of an update.
    Granted,
    /// The staged deployment was unlocked: the next reboot boots it.
    Unlocked,
    /// The staged deployment was discarded.
    Unstaged,
    /// The shutdown finalized the staged deployment.
    Finalized,
    /// The shutdown did not finalize the staged deployment.
    FinalizeFailed,
    /// A generation booted for the first time.
    Booted,
    /// The boot check of a generation passed.
    Confirmed,
    /// A generation was rejected; the deployment before it boots next, or booted already.
    RolledBack,
    /// A config was blocked.
    Blocked,
    /// The block of a config ended.
    Unblocked,
    /// Drift was repaired.
    Repaired,
    /// Trust material of the cluster was applied.
    TrustApplied,
    /// The images that the container runtime keeps were changed.
    ImagesPinned,
    /// The node was taken over from another program.
    Adopted,
    /// The node was given back to the machine-config-daemon.
    HandedBack,
    /// An interrupted change was undone.
    Undone,
    /// A kind that a newer release knows.
    #[serde(untagged)]
    Other(String),
}

impl HistoryEvent {
    /// The kinds of this release, each with its spelling and with the message ID of its journal entries.
    pub const ALL: [(Self, &'static str, &'static str); 19] = [
        (Self::Applied, "applied", "4e830742ba8a4639ae1283ce3a8f12ce"),
        (Self::Deployed, "deployed", "69eb012f0f8a4e08a311c2d5e3ac836e"),
        (Self::Staged, "staged", "52eb3a081af447d09a0b53056223ed78"),
        (Self::Granted, "granted", "98a884d3f9e14df5aad5308a9f9ae022"),
        (Self::Unlocked, "unlocked", "f6ad8c8989104a81ba801530921bef34"),
        (Self::Unstaged, "unstaged", "9baf0aec4ace4fab98202bb94597ce35"),
        (Self::Finalized, "finalized", "40485b3e43c1426582e63abb85879d79"),
        (Self::FinalizeFailed, "finalizeFailed", "880c2ffbef3a4e34bf5feedd20dd0e50"),
        (Self::Booted, "booted", "d7210d840f0f475e8052b655f796c21e"),
        (Self::Confirmed, "confirmed", "d78612e1908b44bfbb749a7c10b45ca2"),
        (Self::RolledBack, "rolledBack", "f5b8fcdd848e4333a8f372de5cd0d826"),
        (Self::Blocked, "blocked", "21cd5c0c8f654e8f96757deb472e7519"),
        (Self::Unblocked, "unblocked", "7fe1340d7a14458c9787b8b7e8742225"),
        (Self::Repaired, "repaired", "50cfe9f67567486893ef8e6a28dd918c"),
        (Self::TrustApplied, "trustApplied", "ae28d311ce9e4a03aac44232dd519988"),
        (Self::ImagesPinned, "imagesPinned", "38ccdd151f224a6481d7848083626a48"),
        (Self::Adopted, "adopted", "a38136e0097441079cb61ee819820d32"),
        (Self::HandedBack, "handedBack", "b2b9b96597c042319da3e6526067319e"),
        (Self::Undone, "undone", "4a86b1077dd84d208828dde4379d802f"),
    ];

    /// The spelling in documents.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other(kind) => kind,
            kind => Self::ALL.iter().find(|(known, ..)| known == kind).map_or("", |(_, name, _)| name),
        }
    }

    /// Message ID of the event's entry in the journal; empty for kinds of a newer release.
    #[must_use]
    pub fn message_id(&self) -> &'static str {
        Self::ALL.iter().find(|(kind, ..)| kind == self).map_or("", |(.., id)| id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn kinds_are_spelled_as_in_documents_and_read_again() {
        for (kind, ..) in HistoryEvent::ALL {
            let spelled = serde_json::to_value(&kind).unwrap();
            assert_eq!(spelled, kind.as_str());
            assert_eq!(serde_json::from_value::<HistoryEvent>(spelled).unwrap(), kind);
        }
        let newer: HistoryEvent = serde_json::from_str("\"migrated\"").unwrap();
        assert_eq!((newer.as_str(), newer.message_id()), ("migrated", ""));
    }

    #[test]
    fn message_ids_are_128_bits_and_unique() {
        let ids: Vec<&str> = HistoryEvent::ALL.iter().map(|(.., id)| *id).collect();
        assert!(ids.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    }
}

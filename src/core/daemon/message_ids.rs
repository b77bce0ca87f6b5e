//! Message IDs of the daemon's entries in the systemd journal, one per kind: `journalctl MESSAGE_ID=...`.
//! Scripts and alerts depend on them, so an ID that was released never changes its meaning.

use super::lifecycle::DaemonPhase;

/// Entry about an error of the source.
pub const SOURCE_ERROR: &str = "2ebbbe5d3b8e40dd8b8e076729972607";

/// All message IDs. The first is for errors of the source; the others are each for the start of a phase, by
/// its name.
pub const ALL: [(&str, &str); 20] = [
    ("source error", SOURCE_ERROR),
    ("Observing", "2b87696992a14b17a2a96683f9c24678"),
    ("Idle", "5683cbd1510441e5993aebc45347cca4"),
    ("Fetching", "e1642e767c1548ddaf4de68196f9d5fa"),
    ("Preparing", "07256bb67be149998c81a0c7b4811638"),
    ("AwaitingGrant", "b5ec4063ed6648219b4eea957c49cee2"),
    ("Draining", "af80f92cea834c33a6c52aea732b9ce0"),
    ("Applying", "d74bfcfd91434e24994a4a186763d2c7"),
    ("Unlocking", "2df5e8c0c810405a8af1df81248d00f1"),
    ("Rebooting", "0da56056e62342d4ac980a000dd011c7"),
    ("ShuttingDown", "f6707f4b2d26458989cfdd4d6397d861"),
    ("CheckingBoot", "33d3c17f7015415aafbdbc8fc1e5c24a"),
    ("RollingBack", "8f1c6a0e52b94f7db1a4c7e3906d2f58"),
    ("Verifying", "caa345bd26704865bbfb924925c2dfba"),
    ("Uncordoning", "b4a765cf73a042eeba12eeeab1e66c15"),
    ("Done", "47e723ae862c4834b5c7b05eb48c1c15"),
    ("Drifted", "36f3df4369ac4df783e223c754e33cee"),
    ("Blocked", "fdb8128e10b54ee1a15ed2c6f59435ec"),
    ("BackingOff", "1daf3f4f7ac245c9a9c9289d6cec3a6c"),
    ("Stopping", "62545492a5854f93baed0fece4dab3c1"),
];

/// Return the names of all phases.
pub fn phases() -> impl Iterator<Item = &'static str> {
    ALL.iter().filter(|(_, id)| *id != SOURCE_ERROR).map(|(phase, _)| *phase)
}

/// Return the message ID for the start of `phase`.
#[must_use]
pub fn of(phase: &DaemonPhase) -> &'static str {
    ALL.iter().find(|(about, _)| *about == phase.name()).map_or("", |(_, id)| id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_message_id_is_128_bits_and_unique() {
        for (about, id) in ALL {
            let is_hex = id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
            assert!(id.len() == 32 && is_hex, "{about}");
        }
        let different: BTreeSet<&str> = ALL.iter().map(|(_, id)| *id).collect();
        assert_eq!(different.len(), ALL.len());
        assert_eq!(of(&DaemonPhase::Done), "47e723ae862c4834b5c7b05eb48c1c15");
    }
}

//! Documents that the agent writes itself, and that another release or a broken disk may have written.

use std::fmt::Debug;

use flameholder::core::state::blocked::BlockedTarget;
use flameholder::core::state::journal::Journal;
use flameholder::core::state::log_line;
use flameholder::core::state::objects::ActiveManifest;
use flameholder::core::state::pending::PendingGeneration;
use flameholder::core::state::reboot_grant::RebootGrant;
use flameholder::core::state::record::GenerationRecord;
use flameholder::os::protocol::{WorkerGreeting, WorkerReply, WorkerRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Give each line its checksum, without which no generated line is read.
fn sealed(input: &[u8]) -> Vec<u8> {
    let lines = input.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.flat_map(log_line::sealed).collect()
}

/// The input is a log, or its lines without their checksums.
pub(crate) fn journal(input: &[u8]) {
    check_journal(input);
    check_journal(&sealed(input));
}

fn check_journal(log: &[u8]) {
    let Ok(journal) = Journal::parse(log) else { return };
    let written = [journal.intent.render(), journal.state.render()].concat();
    assert_eq!(Journal::parse(&written).ok(), Some(journal));
}

/// The input is a log, or its lines without their checksums.
pub(crate) fn pending(input: &[u8]) {
    check_pending(input);
    check_pending(&sealed(input));
}

fn check_pending(log: &[u8]) {
    let Ok(pending) = PendingGeneration::parse(log) else { return };
    assert!(!pending.reboot_reason().is_empty());
    assert!(pending.reboot_reason().lines().count() == 1, "logind sends the reason as one line");
}

/// The input is read as each document of its own.
pub(crate) fn state_documents(input: &[u8]) {
    if let Ok(record) = GenerationRecord::parse(input) {
        assert_eq!(GenerationRecord::parse(&record.render()).ok(), Some(record));
    }
    if let Ok(blocked) = BlockedTarget::parse(input) {
        assert_eq!(BlockedTarget::parse(&blocked.render()).ok(), Some(blocked));
    }
    if let Ok(grant) = RebootGrant::parse(input) {
        assert_eq!(RebootGrant::parse(&grant.render()).ok(), Some(grant));
    }
    if let Ok(active) = ActiveManifest::parse(input) {
        assert_eq!(ActiveManifest::parse(&active.render()).ok(), Some(active));
    }
}

/// The input is read as each message of the worker and to it.
pub(crate) fn worker_protocol(input: &[u8]) {
    repeat::<WorkerGreeting>(input);
    repeat::<WorkerRequest>(input);
    repeat::<WorkerReply>(input);
}

fn repeat<T: Serialize + DeserializeOwned + PartialEq + Debug>(input: &[u8]) {
    let Ok(message) = serde_json::from_slice::<T>(input) else { return };
    let Ok(written) = serde_json::to_vec(&message) else { panic!("{message:?} cannot be written") };
    assert_eq!(serde_json::from_slice::<T>(&written).ok(), Some(message));
}

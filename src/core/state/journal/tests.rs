//! Parsing of journals: round trip, cut-off lines, damage, other releases.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test reports by panicking")]

use super::*;

fn path(spelled: &str) -> ManagedPath {
    ManagedPath::constant(spelled)
}

fn intent() -> JournalIntent {
    let attributes = |mode| FileAttributes { mode, uid: 0, gid: 0 };
    let slot = |name: &str| path("/etc/.flameholder.d").join(name);
    JournalIntent {
        version: VERSION,
        boot_id: "b".into(),
        scope: JournalScope::Deployment,
        current: None,
        target: Some("t".into()),
        staging: vec![path("/etc/.flameholder.d")],
        staging_inodes: vec![u64::MAX],
        volatile_staging: Vec::new(),
        moves: vec![
            JournalMove::Replace {
                path: path("/etc/a"),
                slot: slot("0"),
                inode: u64::MAX,
                content: Some(StagedContent {
                    digest: ContentDigest::of(b"a"),
                    attributes: attributes(0o600),
                }),
            },
            JournalMove::Create { path: path("/etc/b"), slot: slot("1") },
            JournalMove::Remove { path: path("/etc/c"), slot: slot("2") },
            JournalMove::MakeDirectory { path: path("/etc/d"), slot: slot("3") },
            JournalMove::RemoveDirectory { path: path("/etc/e"), slot: slot("4") },
            JournalMove::SetAttributes {
                path: path("/etc/f"),
                before: attributes(0o755),
                after: attributes(0o700),
            },
        ],
        discards: vec![path("/etc/flameholder/originals/x")],
        actions: vec![ServiceAction::DaemonReload],
    }
}

fn log(lines: &[Vec<u8>]) -> Vec<u8> {
    lines.concat()
}

#[test]
fn rendered_journal_parses_to_the_same() {
    let first = intent().render();
    let read = |lines: &[Vec<u8>]| Journal::parse(&log(lines)).unwrap();
    assert_eq!(
        read(std::slice::from_ref(&first)),
        Journal { intent: intent(), state: TransactionState::Prepared }
    );
    for reached in [TransactionState::Acting { begun: 2 }, TransactionState::Committed] {
        assert_eq!(read(&[first.clone(), reached.render()]), Journal { intent: intent(), state: reached });
    }
}

#[test]
fn cut_off_last_line_is_ignored() {
    let (first, last) = (intent().render(), TransactionState::Committed.render());
    for length in 0..last.len() {
        let cut = log(&[first.clone(), last[..length].to_vec()]);
        let journal = Journal::parse(&cut).unwrap();
        assert_eq!(journal.state, TransactionState::Prepared, "{length} bytes");
    }
}

#[test]
fn damaged_journal_is_refused() {
    let whole = log(&[intent().render(), TransactionState::Committed.render()]);
    for index in 0..whole.len() - 1 {
        let mut damaged = whole.clone();
        damaged[index] ^= 1;
        assert!(Journal::parse(&damaged).is_err(), "byte {index}");
    }
    for first in 0..intent().render().len() {
        assert!(Journal::parse(&whole[..first]).is_err(), "{first} bytes of the first line");
    }
}

#[test]
fn journal_of_another_release_is_refused() {
    let mut later = intent();
    later.version = VERSION + 1;
    assert!(
        matches!(Journal::parse(&later.render()), Err(JournalError::Version(version)) if version == VERSION + 1)
    );
    let unknown = log_line::render(&serde_json::json!({"state": "unlocked"}));
    let error = Journal::parse(&log(&[intent().render(), unknown])).unwrap_err();
    assert!(matches!(error, JournalError::Unknown { line: 2, .. }), "{error}");
}

#[test]
fn unknown_fields_are_ignored() {
    let mut document = serde_json::to_value(intent()).unwrap();
    document["added"] = true.into();
    assert_eq!(Journal::parse(&log_line::render(&document)).unwrap().intent, intent());
}

//! Parser tests: complete and torn logs.

use super::{Request, write_log};
use crate::writelog::{Kind, WriteLog};

fn read(requests: &[Request]) -> WriteLog {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    write_log(&path, requests);
    WriteLog::open(&path).unwrap()
}

fn write(at: u64, byte: u8) -> Request {
    Request::Write(at, vec![byte; 1024])
}

#[test]
fn requests_are_read_as_they_were_logged() {
    let requests =
        [write(4096, 7), Request::Flush, Request::Through(512, vec![9; 512]), Request::Discard(0, 8192)];
    let log = read(&requests);
    assert_eq!(log.torn_at(), None);
    let [first, flush, through, discard] = log.entries() else { panic!("{log:?}") };
    assert_eq!((first.kind, first.start, first.length), (Kind::Write, 4096, 1024));
    assert_eq!(log.content(first).unwrap(), vec![7; 1024]);
    assert!(flush.flushes && flush.kind == Kind::Nothing);
    assert!(through.is_durable && !through.flushes);
    assert_eq!(log.content(through).unwrap(), vec![9; 512]);
    assert_eq!((discard.kind, discard.length), (Kind::Discard, 8192));
    assert!(log.content(discard).is_err());
}

#[test]
fn epoch_ends_with_its_flush() {
    let log = read(&[write(0, 1), write(0, 2), Request::Flush, Request::Flush, write(0, 3)]);
    let epochs: Vec<_> = log.epochs().map(|e| (e.number, e.entries.len(), e.is_flushed)).collect();
    assert_eq!(epochs, [(1, 3, true), (2, 1, true), (3, 1, false)]);
    assert_eq!(read(&[]).epochs().count(), 0);
}

/// The kernel logs flushes with data, which flush the requests before them.
#[test]
fn flush_with_data_begins_new_epoch() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    write_log(&path, &[write(0, 1), write(0, 2), write(0, 3), write(0, 4)]);
    let mut bytes = std::fs::read(&path).unwrap();
    // Set the flush flag of the second and of the third entry.
    for entry in [1, 2] {
        bytes[512 + entry * 1536 + 16] = 1;
    }
    std::fs::write(&path, bytes).unwrap();
    let log = WriteLog::open(&path).unwrap();
    let epochs: Vec<Vec<usize>> =
        log.epochs().map(|epoch| epoch.entries.iter().map(|entry| entry.index).collect()).collect();
    assert_eq!(epochs, [vec![0], vec![1], vec![2, 3]]);
}

#[test]
fn torn_end_of_log_is_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    write_log(&path, &[write(0, 1), Request::Flush, write(0, 2)]);
    let complete_log = std::fs::read(&path).unwrap();
    for length in 512..complete_log.len() {
        std::fs::write(&path, &complete_log[..length]).unwrap();
        let log = WriteLog::open(&path).unwrap();
        // An entry with a header and two sectors of data, then one with a header alone.
        let complete = [2048, 2560].into_iter().filter(|end| length >= *end).count();
        assert_eq!(log.entries().len(), complete, "{length}");
        assert_eq!(log.torn_at(), Some(complete), "{length}");
    }
    // A hole in place of an entry that was not written.
    let mut hole = complete_log.clone();
    hole[2560..].fill(0);
    std::fs::write(&path, hole).unwrap();
    assert_eq!(WriteLog::open(&path).unwrap().torn_at(), Some(2));
    for no_log in [&b""[..], &[0; 4096], &complete_log[..27]] {
        std::fs::write(&path, no_log).unwrap();
        assert!(WriteLog::open(&path).is_err());
    }
}

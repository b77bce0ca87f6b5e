//! Correct orders of writes, and planted incorrect ones.

use super::pair::{BOOT, Loader, Pair, ROOT, judge};
use super::{Request, can_run, write_log};
use crate::writelog::{Layout, Replay, Report, WriteLog, join};

fn replay(pair: &Pair, variants: u32, requests: &[Vec<Request>]) -> Report {
    let log = pair.file("log");
    write_log(&log, &requests.concat());
    let sample_in = Some(pair.file("sample"));
    let options = Replay { variants, audit_every: 1, sample_in, ..Replay::keeping_in(&pair.file("kept")) };
    let layout = Layout::of_mbr(&pair.old).unwrap();
    let log = WriteLog::open(&log).unwrap();
    options.run(&log, &pair.old, layout, pair.directory.path(), &mut judge).unwrap()
}

fn flush() -> Vec<Request> {
    vec![Request::Flush]
}

#[test]
fn content_flushed_before_its_entry_is_correct() {
    if !can_run() {
        return;
    }
    for loader in [Loader::Syslinux, Loader::Entries] {
        let pair = Pair::make(loader);
        let root = || pair.changes(ROOT);
        let requests = [root(), flush(), flush(), pair.changes(BOOT), flush(), root(), flush()];
        let report = replay(&pair, 8, &requests);
        assert!(report.faults.is_empty(), "{report}");
        let switched = report.switched.unwrap();
        assert_eq!((switched.epoch, switched.variant), (3, None));
        assert_eq!((report.flushed.old, report.flushed.new), (3, 2));
        assert!(report.reordered.old > 0, "{report}");
        // The repairs were reverted: the partition is as the log wrote it.
        let new = std::fs::read(pair.file("new.root")).unwrap();
        assert!(std::fs::read(pair.file("root.raw")).unwrap() == new);
        // A sample joins to a disk again.
        let (sample, joined) = (report.sample.expect("no sample was kept"), pair.file("joined"));
        join(&pair.old, &sample, &joined).unwrap();
        let layout = Layout::of_mbr(&joined).unwrap();
        let (disk, root) = (std::fs::read(&joined).unwrap(), std::fs::read(sample.join("root.raw")).unwrap());
        let start = usize::try_from(layout.root.0).unwrap();
        assert!(disk[start..][..root.len()] == root && root == new);
    }
}

#[test]
fn entry_flushed_before_its_content_is_a_fault() {
    if !can_run() {
        return;
    }
    let pair = Pair::make(Loader::Syslinux);
    let boot = pair.changes(BOOT);
    let last = boot.len();
    let report = replay(&pair, 0, &[boot, flush(), pair.changes(ROOT), flush()]);
    let [fault] = report.faults.as_slice() else { panic!("{report}") };
    assert_eq!((fault.place.epoch, fault.place.entry), (1, Some(last)));
    assert!(fault.reason.contains("the new system has the configuration \"---\""), "{fault}");
    // The kept state: the boot partition is new, the root partition is old.
    let kept = fault.kept.clone().unwrap();
    let same = |kept_name: &str, name: &str| {
        std::fs::read(kept.join(kept_name)).unwrap() == std::fs::read(pair.file(name)).unwrap()
    };
    assert!(same("boot.raw", "new.boot") && same("root.raw", "old.root"));
}

#[test]
fn entry_not_ordered_after_its_content_is_a_fault() {
    if !can_run() {
        return;
    }
    let pair = Pair::make(Loader::Syslinux);
    let unordered = [pair.changes(ROOT), pair.changes(BOOT), flush()];
    let report = replay(&pair, 0, &unordered);
    assert!(report.faults.is_empty(), "faults at flushes: {report}");
    let report = replay(&pair, 32, &unordered);
    assert!(!report.faults.is_empty(), "{report}");
    assert!(report.faults.iter().all(|fault| fault.place.variant.is_some()), "{report}");
    assert_eq!(report.faults.iter().filter(|fault| fault.kept.is_some()).count(), 3);
    // A second run finds the same faults.
    let places = |report: &Report| report.faults.iter().map(|fault| fault.place).collect::<Vec<_>>();
    assert_eq!(places(&report), places(&replay(&pair, 32, &unordered)));
}

#[test]
fn content_written_with_fua_is_never_lost() {
    if !can_run() {
        return;
    }
    let pair = Pair::make(Loader::Syslinux);
    let through = pair.changes(ROOT).into_iter().map(|request| match request {
        Request::Write(at, content) => Request::Through(at, content),
        other => other,
    });
    let report = replay(&pair, 32, &[through.collect(), pair.changes(BOOT), flush()]);
    assert!(report.faults.is_empty(), "{report}");
}

#[test]
fn return_to_the_old_system_is_a_fault() {
    if !can_run() {
        return;
    }
    let pair = Pair::make(Loader::Syslinux);
    let back = pair.changes(BOOT).into_iter().map(|request| match request {
        Request::Write(at, content) => {
            let mut old = vec![0; content.len()];
            let disk = std::fs::File::open(&pair.old).unwrap();
            std::os::unix::fs::FileExt::read_exact_at(&disk, &mut old, at).unwrap();
            Request::Write(at, old)
        }
        other => other,
    });
    let requests = [pair.changes(ROOT), flush(), pair.changes(BOOT), flush(), back.collect(), flush()];
    let report = replay(&pair, 0, &requests);
    let [fault] = report.faults.as_slice() else { panic!("{report}") };
    assert_eq!(fault.place.epoch, 3);
    assert!(fault.reason.contains("again"), "{fault}");
}

#[test]
fn damaged_or_missing_file_system_is_a_fault() {
    if !can_run() {
        return;
    }
    let pair = Pair::make(Loader::Syslinux);
    let noise: Vec<u8> = (0..1 << 20).map(|at: u32| u8::try_from(at * 7 % 251).unwrap()).collect();
    let damage = vec![Request::Write(ROOT.0 + 4096, noise)];
    let gone = vec![Request::Discard(BOOT.0, BOOT.1)];
    for (request, at) in [(damage, "/: e2fsck -p"), (gone, "/boot: e2fsck -p")] {
        let report = replay(&pair, 0, &[request, flush()]);
        let [fault] = report.faults.as_slice() else { panic!("{report}") };
        assert!(fault.reason.starts_with(at), "{fault}");
    }
}

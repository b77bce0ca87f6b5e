//! Journal of a file system that was in use when the power went: it has writes that its blocks do not have.

use std::path::Path;
use std::process::Command;

use super::can_run;
use crate::writelog::Tree;
use crate::writelog::fsck::Repair;

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(stderr) }
}

/// Write a file system to `image` as a power cut leaves it. Returns the reason if that is impossible here.
fn cut_short(directory: &Path, image: &Path) -> Result<(), String> {
    let (disk, mount) = (directory.join("disk"), directory.join("mount"));
    std::fs::File::create(&disk).and_then(|file| file.set_len(64 << 20)).unwrap();
    run(Command::new("mke2fs").args(["-q", "-t", "ext4", "-O", "^metadata_csum"]).arg(&disk))?;
    std::fs::create_dir(&mount).unwrap();
    run(Command::new("mount").args(["-o", "loop"]).arg(&disk).arg(&mount))?;
    let written = (0..200).try_for_each(|number| {
        std::fs::write(mount.join(format!("file-{number}")), "content")?;
        std::fs::File::open(&mount)?.sync_all()
    });
    let copied = written.and_then(|()| std::fs::copy(&disk, image).map(|_| ()));
    run(Command::new("umount").arg(&mount))?;
    copied.map_err(|error| error.to_string())
}

#[test]
fn journal_replay_by_fsck_is_reverted() {
    if !can_run() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    if let Err(why) = cut_short(directory.path(), &image) {
        eprintln!("skipped: mounting a file system failed: {why}");
        return;
    }
    let before = std::fs::read(&image).unwrap();
    let seen_by_bootloader = Tree::without_journal(&image).unwrap().names("").unwrap();
    assert!(seen_by_bootloader.len() < 201, "the blocks have all files without a replay of the journal");
    let (repair, damage) = Repair::apply(&image).unwrap();
    assert_eq!(damage, None);
    assert_eq!(repair.audit().unwrap(), None);
    assert!(std::fs::read(&image).unwrap() != before, "e2fsck had no journal to replay");
    let tree = Tree::open(&image).unwrap();
    assert_eq!(tree.names("").unwrap().len(), 201, "200 files and lost+found");
    drop(tree);
    repair.revert().unwrap();
    assert!(std::fs::read(&image).unwrap() == before, "the repair is not completely reverted");
}

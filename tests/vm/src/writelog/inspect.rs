//! One look at a disk: repair it as a boot does, ask what it boots, and take the repair back.

use std::fmt;
use std::path::Path;

use anyhow::{Error, Result, anyhow};

use super::boot::BootedSystem;
use super::disk::Disk;
use super::fsck::Repair;
use super::replay::Side;
use super::tree::Tree;

/// What is wrong with a disk.
#[derive(Debug)]
pub enum Defect {
    /// What it boots is damaged, or neither system, or nothing.
    Bad(Error),
    /// All is well once the journal of `/boot` is replayed. Without it, as bootloaders read it, nothing boots.
    OnlyInJournal(Error),
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bad(what) => write!(f, "{what:#}"),
            Self::OnlyInJournal(what) => write!(f, "without the journal of /boot: {what:#}"),
        }
    }
}

/// Asks `judge` what the disk boots. With `is_audited` the file systems are checked from end to end as well.
///
/// A bootloader replays no journal: what boots is what `/boot` has without it. What it has with it boots next.
pub fn inspect(
    disk: &Disk,
    is_audited: bool,
    judge: &mut dyn FnMut(&BootedSystem) -> Result<Side>,
) -> Result<Result<Side, Defect>> {
    let (root, soundness) = repair("/", &disk.root.path, is_audited)?;
    let system = soundness.and_then(|()| Tree::open(&disk.root.path).map_err(Defect::Bad));
    let seen = match system {
        Ok(system) => inspect_boot(&disk.boot.path, &system, is_audited, judge)?,
        Err(wrong) => Err(wrong),
    };
    root.revert()?;
    Ok(seen)
}

/// What the file system `boot` boots of `system`.
fn inspect_boot(
    boot: &Path,
    system: &Tree,
    is_audited: bool,
    judge: &mut dyn FnMut(&BootedSystem) -> Result<Side>,
) -> Result<Result<Side, Defect>> {
    let first = Tree::without_journal(boot).and_then(|boot| BootedSystem::of(&boot, system));
    let first = first.map(|booted| (judge(&booted), booted.entry));
    let (undo, soundness) = repair("/boot", boot, is_audited)?;
    let next = Tree::open(boot).and_then(|boot| BootedSystem::of(&boot, system));
    let seen = match (first, next) {
        (_, Err(error)) => Err(Defect::Bad(error)),
        (Ok((side, entry)), Ok(next)) if next.entry == entry => side.map_err(Defect::Bad),
        (Ok((side, _)), Ok(next)) => side.and_then(|side| judge(&next).map(|_| side)).map_err(Defect::Bad),
        (Err(stuck), Ok(next)) => {
            Err(judge(&next).map_or_else(Defect::Bad, |_| Defect::OnlyInJournal(stuck)))
        }
    };
    undo.revert()?;
    Ok(soundness.and(seen))
}

/// Repairs a file system; the second value says what cannot be repaired.
fn repair(name: &str, image: &Path, is_audited: bool) -> Result<(Repair, Result<(), Defect>)> {
    let (undo, mut damage) = Repair::apply(image)?;
    if damage.is_none() && is_audited {
        damage = undo.audit()?;
    }
    Ok((undo, damage.map_or(Ok(()), |said| Err(Defect::Bad(anyhow!("{name}: {said}"))))))
}

//! One look at a disk: repair it as a boot does, ask what it boots, and take the repair back.

use std::fmt;
use std::path::Path;

use anyhow::{Error, Result, anyhow};

use super::boot::Booted;
use super::disk::Disk;
use super::fsck::Repair;
use super::replay::Side;
use super::tree::Tree;

/// What is wrong with a disk.
#[derive(Debug)]
pub enum Wrong {
    /// What it boots is damaged, or neither system, or nothing.
    Bad(Error),
    /// All is well once the journal of `/boot` is replayed. Without it, as bootloaders read it, nothing boots.
    OnlyInJournal(Error),
}

impl fmt::Display for Wrong {
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
pub fn look(
    disk: &Disk,
    is_audited: bool,
    judge: &mut dyn FnMut(&Booted) -> Result<Side>,
) -> Result<Result<Side, Wrong>> {
    let (root, is_sound) = repaired("/", &disk.root.path, is_audited)?;
    let system = is_sound.and_then(|()| Tree::open(&disk.root.path).map_err(Wrong::Bad));
    let seen = match system {
        Ok(system) => boots(&disk.boot.path, &system, is_audited, judge)?,
        Err(wrong) => Err(wrong),
    };
    root.take_back()?;
    Ok(seen)
}

/// What the file system `boot` boots of `system`.
fn boots(
    boot: &Path,
    system: &Tree,
    is_audited: bool,
    judge: &mut dyn FnMut(&Booted) -> Result<Side>,
) -> Result<Result<Side, Wrong>> {
    let first = Tree::without_journal(boot).and_then(|boot| Booted::of(&boot, system));
    let first = first.map(|booted| (judge(&booted), booted.choice));
    let (repair, is_sound) = repaired("/boot", boot, is_audited)?;
    let next = Tree::open(boot).and_then(|boot| Booted::of(&boot, system));
    let seen = match (first, next) {
        (_, Err(error)) => Err(Wrong::Bad(error)),
        (Ok((side, choice)), Ok(next)) if next.choice == choice => side.map_err(Wrong::Bad),
        (Ok((side, _)), Ok(next)) => side.and_then(|side| judge(&next).map(|_| side)).map_err(Wrong::Bad),
        (Err(stuck), Ok(next)) => Err(judge(&next).map_or_else(Wrong::Bad, |_| Wrong::OnlyInJournal(stuck))),
    };
    repair.take_back()?;
    Ok(is_sound.and(seen))
}

/// Repairs a file system; the second value says what cannot be repaired.
fn repaired(name: &str, image: &Path, is_audited: bool) -> Result<(Repair, Result<(), Wrong>)> {
    let (repair, mut damage) = Repair::make(image)?;
    if damage.is_none() && is_audited {
        damage = repair.audit()?;
    }
    Ok((repair, damage.map_or(Ok(()), |said| Err(Wrong::Bad(anyhow!("{name}: {said}"))))))
}

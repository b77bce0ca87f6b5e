//! Inspection of a disk: repair it as a boot does, judge the system that it boots, and revert the repair.

use std::fmt;
use std::path::Path;

use anyhow::{Error, Result, anyhow};

use super::boot::BootedSystem;
use super::disk::Disk;
use super::fsck::Repair;
use super::replay::Side;
use super::tree::Tree;

/// Defect of a disk.
#[derive(Debug)]
pub enum Defect {
    /// The disk boots nothing, a damaged system, or a mixture of the old and the new one.
    Bad(Error),
    /// The disk boots only once the journal of `/boot` is replayed, which bootloaders do not do.
    OnlyInJournal(Error),
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bad(error) => write!(f, "{error:#}"),
            Self::OnlyInJournal(error) => write!(f, "without the journal of /boot: {error:#}"),
        }
    }
}

/// Repair the file systems, ask `judge` about the system that the disk boots, and revert the repairs. With
/// `is_audited`, e2fsck checks the whole file systems as well. The inner error is a defect of the disk.
///
/// The bootloader reads `/boot` without its journal, and the boot after that reads it with its journal
/// replayed. Both entries have to boot a sound system.
pub fn inspect(
    disk: &Disk,
    is_audited: bool,
    judge: &mut dyn FnMut(&BootedSystem) -> Result<Side>,
) -> Result<Result<Side, Defect>> {
    let (root, soundness) = repair("/", &disk.root.path, is_audited)?;
    let system = soundness.and_then(|()| Tree::open(&disk.root.path).map_err(Defect::Bad));
    let result = match system {
        Ok(system) => inspect_boot(&disk.boot.path, &system, is_audited, judge)?,
        Err(defect) => Err(defect),
    };
    root.revert()?;
    Ok(result)
}

/// Judge the system in `system` that the file system `boot` boots.
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
    let result = match (first, next) {
        (_, Err(error)) => Err(Defect::Bad(error)),
        (Ok((side, entry)), Ok(next)) if next.entry == entry => side.map_err(Defect::Bad),
        (Ok((side, _)), Ok(next)) => side.and_then(|side| judge(&next).map(|_| side)).map_err(Defect::Bad),
        (Err(without_journal), Ok(next)) => {
            Err(judge(&next).map_or_else(Defect::Bad, |_| Defect::OnlyInJournal(without_journal)))
        }
    };
    undo.revert()?;
    Ok(soundness.and(result))
}

/// Repair a file system; the second value is an error if it has further damage.
fn repair(name: &str, image: &Path, is_audited: bool) -> Result<(Repair, Result<(), Defect>)> {
    let (undo, mut damage) = Repair::apply(image)?;
    if damage.is_none() && is_audited {
        damage = undo.audit()?;
    }
    Ok((undo, damage.map_or(Ok(()), |damage| Err(Defect::Bad(anyhow!("{name}: {damage}"))))))
}

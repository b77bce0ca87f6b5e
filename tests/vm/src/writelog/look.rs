//! One look at a disk: repair it as a boot does, ask what it boots, and take the repair back.

use anyhow::Result;

use super::boot::Booted;
use super::disk::Disk;
use super::fsck::Repair;
use super::replay::Side;
use super::tree::Tree;

/// Asks `judge` what the disk boots. With `is_audited` the file systems are checked from end to end as well. The inner
/// error says what is wrong with the state.
pub fn look(
    disk: &Disk,
    is_audited: bool,
    judge: &mut dyn FnMut(&Booted) -> Result<Side>,
) -> Result<Result<Side, String>> {
    let (boot, boot_damage) = Repair::make(&disk.boot.path)?;
    let (root, root_damage) = Repair::make(&disk.root.path)?;
    let mut damages = vec![("/boot", boot_damage), ("/", root_damage)];
    if is_audited {
        damages.extend([("/boot", boot.audit()?), ("/", root.audit()?)]);
    }
    let damage = damages.into_iter().find_map(|(name, said)| Some(format!("{name}: {}", said?)));
    let seen = match damage {
        Some(damage) => Err(damage),
        None => ask(disk, judge).map_err(|error| format!("{error:#}")),
    };
    root.take_back()?;
    boot.take_back()?;
    Ok(seen)
}

fn ask(disk: &Disk, judge: &mut dyn FnMut(&Booted) -> Result<Side>) -> Result<Side> {
    let (boot, root) = (Tree::open(&disk.boot.path)?, Tree::open(&disk.root.path)?);
    judge(&Booted::of(&boot, &root)?)
}

//! What a disk that lies may have kept after a power cut, as ext4 and xfs can leave it.
//!
//! A file system keeps what it was told in memory. Which of it is on the disk when the power goes
//! is its own choice, within these rules:
//!
//! - One edit is on the disk as a whole or not at all. A rename, or an exchange, takes the old names
//!   away and gives the new ones in one transaction of the file system's own journal, whichever
//!   directories they are in. So does a link, an unlink, and the making or removing of a directory;
//!   an owner, a mode and a label are single edits too.
//! - What was written to a file is the exception: until the file is flushed its end may be missing,
//!   in part or wholly, or be zeros. A new file may be there and empty, with the mode that it was
//!   opened with.
//! - Edits that were not flushed reach the disk in any order, on each file system for itself. Real
//!   file systems keep more order than that.
//! - An edit whose ground is missing does not happen: a rename of a name that never reached the
//!   disk, or onto a name that never left it, or the removal of a directory that is not empty there.
//! - `fsync` of a file keeps its content, mode, owner and label. It does not keep its name.
//! - `fsync` of a directory keeps its mode, owner and label, and every edit of a name in it so far,
//!   with the earlier edits that those start from: of the same names, and of the names in a
//!   directory that was removed. It keeps no file's content. A new symbolic link is kept with owner
//!   and label: no call flushes a link itself, and both file systems log it before its name is flushed.
//! - After the power is back the names tell what there is: an inode that none leads to is freed.

use std::collections::BTreeSet;

use crate::disk::image::{Body, Edit, Image, Inode, Number};

/// At most so many pending edits are tried in every combination, and twice as many where there is
/// time.
const EVERY: usize = 6;
/// At most so many combinations of both file systems' prefixes are tried.
const CROSS: usize = 256;

/// What is on the disk for certain, and what may be.
#[derive(Debug, Clone)]
pub struct Unflushed {
    durable: Image,
    /// Edits in order, with the file system of each.
    pending: Vec<(Edit, usize)>,
}

impl Unflushed {
    /// Everything on `durable` is kept.
    pub fn new(durable: Image) -> Self {
        Self { durable, pending: Vec::new() }
    }

    /// `edit` of `before` may be on the disk from now on.
    pub fn edit(&mut self, before: &Image, edit: &Edit) {
        let on = edit.directories().first().copied().or(edit.inode()).expect("an edit is of something");
        self.pending.push((edit.clone(), before.inode(on).volume));
    }

    /// An inode is made durable.
    pub fn flush(&mut self, number: Number) {
        if self.durable.get(number).is_none() {
            let made = self.pending.iter().find_map(|(edit, _)| match edit {
                Edit::Link { number: made, fresh: Some(inode), .. } if *made == number => Some(inode.clone()),
                _ => None,
            });
            self.durable.adopt(number, made.expect("what is not on the disk was made since"));
        }
        let mut kept = BTreeSet::new();
        for (index, (edit, _)) in self.pending.iter().enumerate() {
            if edit.inode() == Some(number) || edit.directories().contains(&number) {
                self.keep_with_grounds(index, &mut kept);
            }
        }
        for index in &kept {
            let edit = &self.pending[*index].0;
            assert!(self.durable.allows(edit), "a flush keeps what it starts from: {edit:?}");
            self.durable.apply(edit);
        }
        let mut index = 0..;
        self.pending.retain(|_| !index.next().is_some_and(|index| kept.contains(&index)));
    }

    /// Adds an edit, and the earlier ones of the same names.
    fn keep_with_grounds(&self, index: usize, kept: &mut BTreeSet<usize>) {
        if !kept.insert(index) {
            return;
        }
        let edit = &self.pending[index].0;
        if let Edit::Link { number, fresh: Some(Inode { body: Body::Symlink(_), .. }), .. } = edit {
            let own = self.pending.iter().enumerate().filter(|(_, (own, _))| own.inode() == Some(*number));
            kept.extend(own.map(|(own, _)| own));
        }
        let names = edit.places();
        // A directory goes when it is empty.
        let emptied = if let Edit::Unlink { number, .. } = edit { Some(number) } else { None };
        for (earlier, (before, _)) in self.pending.iter().enumerate().take(index) {
            let is_inside = emptied.is_some_and(|emptied| before.directories().contains(emptied));
            if is_inside || before.places().iter().any(|place| names.contains(place)) {
                self.keep_with_grounds(earlier, kept);
            }
        }
    }

    /// Tells one moment from another.
    pub fn key(&self) -> (u128, String) {
        (self.durable.hash(), format!("{:?}", self.pending))
    }

    /// Every disk that there may be after the power went now.
    pub fn disks(&self) -> Vec<Image> {
        let count = self.pending.len();
        let most = if testbed::is_exhaustive() { 2 * EVERY } else { EVERY };
        let mut disks = Vec::new();
        if count <= most {
            self.every(self.durable.clone(), 0, false, &mut disks);
        } else {
            for kept in self.choices() {
                self.chosen(&kept, &mut disks);
            }
        }
        disks.iter_mut().for_each(Image::reap);
        disks
    }

    /// Every combination of the pending edits from `index` on; one write of all may be torn.
    fn every(&self, disk: Image, index: usize, is_torn: bool, disks: &mut Vec<Image>) {
        let Some((edit, _)) = self.pending.get(index) else { return disks.push(disk) };
        if disk.allows(edit) {
            for torn in torn(edit).iter().filter(|_| !is_torn) {
                self.every(with(&disk, torn), index + 1, true, disks);
            }
            self.every(with(&disk, edit), index + 1, is_torn, disks);
        }
        // One that does not happen is like one that is lost.
        self.every(disk, index + 1, is_torn, disks);
    }

    fn chosen(&self, kept: &[bool], disks: &mut Vec<Image>) {
        let mut so_far = vec![self.durable.clone()];
        for (edit, _) in self.pending.iter().zip(kept).filter(|(_, kept)| **kept).map(|(pending, _)| pending)
        {
            let torn: Vec<Image> = match so_far.first().filter(|whole| whole.allows(edit)) {
                Some(whole) => torn(edit).iter().map(|torn| with(whole, torn)).collect(),
                None => Vec::new(),
            };
            so_far.iter_mut().filter(|disk| disk.allows(edit)).for_each(|disk| disk.apply(edit));
            so_far.extend(torn);
        }
        disks.extend(so_far);
    }

    /// Which of many pending edits are on the disk: each prefix of what each file system was told,
    /// all but one, and one alone.
    fn choices(&self) -> Vec<Vec<bool>> {
        let count = self.pending.len();
        let mut choices = self.prefixes();
        for one in 0..count {
            choices.push((0..count).map(|index| index == one).collect());
            choices.push((0..count).map(|index| index != one).collect());
        }
        choices
    }

    fn prefixes(&self) -> Vec<Vec<bool>> {
        let volumes: BTreeSet<usize> = self.pending.iter().map(|(_, volume)| *volume).collect();
        let length = |of: usize| self.pending.iter().filter(|(_, volume)| *volume == of).count();
        let lengths: Vec<(usize, usize)> = volumes.iter().map(|volume| (*volume, length(*volume))).collect();
        let is_small = lengths.iter().map(|(_, length)| length + 1).product::<usize>() <= CROSS;
        // The lengths of the prefixes so far, by file system.
        let mut chosen: Vec<Vec<(usize, usize)>> = vec![Vec::new()];
        if is_small {
            for (volume, length) in &lengths {
                let longer = |so_far: &Vec<(usize, usize)>| {
                    let so_far = so_far.clone();
                    (0..=*length).map(move |kept| [&so_far[..], &[(*volume, kept)]].concat())
                };
                chosen = chosen.iter().flat_map(longer).collect();
            }
        } else {
            chosen.clear();
            for (volume, length) in &lengths {
                for (kept, others) in (0..=*length).flat_map(|kept| [(kept, 0), (kept, usize::MAX)]) {
                    let others = lengths
                        .iter()
                        .map(|(other, _)| (*other, if other == volume { kept } else { others }));
                    chosen.push(others.collect());
                }
            }
        }
        chosen.iter().map(|lengths| self.prefix(lengths)).collect()
    }

    fn prefix(&self, lengths: &[(usize, usize)]) -> Vec<bool> {
        let mut left = lengths.to_vec();
        let take = |(_, volume): &(Edit, usize)| {
            let left = left.iter_mut().find(|(of, _)| of == volume).map(|(_, left)| left);
            left.is_some_and(|left| {
                let is_kept = *left > 0;
                *left = left.saturating_sub(1);
                is_kept
            })
        };
        self.pending.iter().map(take).collect()
    }
}

fn with(disk: &Image, edit: &Edit) -> Image {
    let mut disk = disk.clone();
    disk.apply(edit);
    disk
}

/// A write that did not reach the disk as it was: cut, or zeros.
fn torn(edit: &Edit) -> Vec<Edit> {
    let Edit::Extend { number, bytes } = edit else { return Vec::new() };
    let zeros = vec![0; bytes.len()];
    let ends = [&bytes[..bytes.len() / 2], &bytes[..bytes.len() - 1], &zeros];
    ends.map(|end| Edit::Extend { number: *number, bytes: end.into() }).to_vec()
}

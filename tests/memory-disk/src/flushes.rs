//! Disks after a power cut, as ext4 and xfs can leave them.
//!
//! A file system keeps edits in memory. Which of them are on the disk after a power cut is undefined, within
//! these rules:
//!
//! - One edit is on the disk as a whole or not at all. A rename, or an exchange, takes the old names away and
//!   gives the new ones in one transaction of the file system's own journal, across directories too. So does
//!   a link, an unlink, and the making or removing of a directory; an owner, a mode and a label are single
//!   edits too.
//! - The data of a file is the exception: until the file is flushed its end may be missing, in part or
//!   wholly, or be zeros. A new file may exist and be empty, with the mode that it was opened with.
//! - Edits that were not flushed reach the disk in any order, on each file system separately. Real file
//!   systems keep more order than that.
//! - An edit without its precondition does not happen: a rename of a name that never reached the disk, or
//!   onto a name that never left it, or the removal of a directory that is not empty there.
//! - `fsync` of a file keeps its content, mode, owner and label. It does not keep its name.
//! - `fsync` of a directory keeps its mode, owner and label, and every edit of a name in it so far, with the
//!   earlier edits that those depend on: of the same names, and of the names in a directory that was removed.
//!   It keeps no file's content. A new symbolic link is kept with owner and label: no call flushes a link
//!   itself, and both file systems log it before its name is flushed.
//! - After the power is back only names count: an inode without a name is freed.

use std::collections::BTreeSet;

use crate::image::{self, Body, Edit, Image, Inode, Number};

/// Most combinations of both file systems' prefixes that are tried.
const CROSS: usize = 256;

/// Disk that is durable for certain, and the edits that may be on it.
#[derive(Debug, Clone)]
pub struct Unflushed {
    durable: Image,
    /// Edits in order, each with its file system.
    pending: Vec<(Edit, usize)>,
}

/// Key of a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UnflushedKey {
    durable: u128,
    pending: u128,
}

impl Unflushed {
    /// Start with a durable disk and no pending edits.
    pub fn new(durable: Image) -> Self {
        Self { durable, pending: Vec::new() }
    }

    /// Add an edit of `before`, which may be on the disk from now on.
    pub fn edit(&mut self, before: &Image, edit: &Edit) {
        let on = edit
            .directories()
            .first()
            .copied()
            .or(edit.inode())
            .expect("an edit has a directory or an inode");
        self.pending.push((edit.clone(), before.inode(on).volume));
    }

    /// Make an inode durable.
    pub fn flush(&mut self, number: Number) {
        if self.durable.get(number).is_none() {
            let made = self.pending.iter().find_map(|(edit, _)| match edit {
                Edit::Link { number: made, fresh: Some(inode), .. } if *made == number => Some(inode.clone()),
                _ => None,
            });
            self.durable
                .adopt(number, made.expect("an inode that is not on the disk was made by a pending edit"));
        }
        let mut kept = BTreeSet::new();
        for (index, (edit, _)) in self.pending.iter().enumerate() {
            if edit.inode() == Some(number) || edit.directories().contains(&number) {
                self.keep_with_grounds(index, &mut kept);
            }
        }
        for index in &kept {
            let edit = &self.pending[*index].0;
            assert!(self.durable.allows(edit), "a flush keeps the edits that it depends on: {edit:?}");
            self.durable.apply(edit);
        }
        let mut index = 0..;
        self.pending.retain(|_| !index.next().is_some_and(|index| kept.contains(&index)));
    }

    /// Add an edit, and the earlier ones of the same names.
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
        // A directory is removed when it is empty: the removals of its names come first.
        let emptied = if let Edit::Unlink { number, .. } = edit { Some(number) } else { None };
        for (earlier, (before, _)) in self.pending.iter().enumerate().take(index) {
            let is_inside = emptied.is_some_and(|emptied| before.directories().contains(emptied));
            if is_inside || before.places().iter().any(|place| names.contains(place)) {
                self.keep_with_grounds(earlier, kept);
            }
        }
    }

    /// Key that tells one moment from another: a power cut leaves the same disks at moments with the same key.
    pub fn key(&self) -> UnflushedKey {
        UnflushedKey { durable: self.durable.hash(), pending: image::wide_hash(&self.pending) }
    }

    /// Disks that a power cut at this moment can leave: every one if at most `every` edits are pending, and of more
    /// edits each prefix of each file system's, all but one, and one alone.
    pub fn disks(&self, every: usize) -> Vec<Image> {
        let mut disks = Vec::new();
        if self.pending.len() <= every {
            self.every(self.durable.clone(), 0, false, &mut disks);
        } else {
            for kept in self.choices() {
                self.chosen(&kept, &mut disks);
            }
        }
        disks.iter_mut().for_each(Image::reap);
        disks
    }

    /// Add every combination of the pending edits from `index` on; at most one write is torn.
    fn every(&self, disk: Image, index: usize, is_torn: bool, disks: &mut Vec<Image>) {
        let Some((edit, _)) = self.pending.get(index) else { return disks.push(disk) };
        if disk.allows(edit) {
            for torn in torn(edit).iter().filter(|_| !is_torn) {
                self.every(with(&disk, torn), index + 1, true, disks);
            }
            self.every(with(&disk, edit), index + 1, is_torn, disks);
        }
        // An edit that cannot happen is equivalent to a lost one.
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

    /// Selections of many pending edits.
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
        // Lengths of the prefixes so far, by file system.
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

/// Writes that reached the disk in part: cut, or with zeros at the end.
fn torn(edit: &Edit) -> Vec<Edit> {
    let Edit::Extend { number, bytes } = edit else { return Vec::new() };
    let zeros = vec![0; bytes.len()];
    let ends = [&bytes[..bytes.len() / 2], &bytes[..bytes.len() - 1], &zeros];
    ends.map(|end| Edit::Extend { number: *number, bytes: end.into() }).to_vec()
}

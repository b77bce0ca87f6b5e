//! Engine with a planted fault: the product's engine on a disk that alters some of the calls it gets.

use std::cell::{Cell, RefCell};

use flameholder::core::state::journal::{JOURNAL, NEW_JOURNAL, TransactionState};
use flameholder::core::values::names::ManagedPath;
use flameholder::host::{HostDisk, HostError};

use crate::disk::effect::{Effect, Screen};

/// Planted fault of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bend {
    /// No fault.
    Straight,
    /// Commits the change before anything is visible.
    CommitsFirst,
    /// Gives the journal its name after the first visible act.
    MovesFirst,
    /// Replaces a file by removing it first.
    ReplacesInTwo,
    /// Performs the visible act of this number after the one that follows it.
    TradesTwo(usize),
    /// Stages files that every user may write.
    GivesAway,
    /// Leaves one slot, and its directory.
    ForgetsSlot,
    /// Leaves the journal.
    ForgetsJournal,
    /// Skips undoing the visible act of this number in recovery.
    ForgetsUndo(usize),
    /// Removes the journal in recovery before every act is undone.
    WithdrawsFirst,
    /// Drops the flush of this number.
    ForgetsFlush(usize),
    /// Drops the flush of this number in recovery.
    RecoversWithoutFlush(usize),
}

/// Engine with a fault, and its progress to the point where the fault applies.
pub(crate) struct Bent {
    bend: Bend,
    recovers: bool,
    count: Cell<usize>,
    held: RefCell<Option<Effect>>,
}

impl Bent {
    pub(crate) fn new(bend: Bend, recovers: bool) -> Self {
        Self { bend, recovers, count: Cell::new(0), held: RefCell::default() }
    }

    /// Count a call; return true if it is number `wanted`.
    fn is_turn(&self, wanted: usize) -> bool {
        self.count.replace(self.count.get() + 1) == wanted
    }

    fn run(&self, disk: &dyn HostDisk, effect: &Effect) -> Result<(), HostError> {
        match self.bend {
            Bend::CommitsFirst if is_opening(effect) => {
                effect.perform(disk)?;
                say(disk, TransactionState::Committed)
            }
            Bend::MovesFirst if is_opening(effect) => {
                self.hold(effect);
                Ok(())
            }
            Bend::TradesTwo(number) if is_visible(effect) && self.is_turn(number) => {
                self.hold(effect);
                Ok(())
            }
            Bend::ReplacesInTwo if is_visible(effect) => in_two(disk, effect),
            Bend::GivesAway => match effect.clone() {
                Effect::CreateFile { path, contents, mut attributes, label } => {
                    attributes.mode |= 0o022;
                    Effect::CreateFile { path, contents, attributes, label }.perform(disk)
                }
                effect => effect.perform(disk),
            },
            Bend::ForgetsFlush(number) if is_flush(effect) && self.is_turn(number) => Ok(()),
            _ => {
                effect.perform(disk)?;
                let then = self.held.take().filter(|_| !is_flush(effect));
                then.map_or(Ok(()), |held| held.perform(disk))
            }
        }
    }

    fn hold(&self, effect: &Effect) {
        *self.held.borrow_mut() = Some(effect.clone());
    }

    fn recover(&self, disk: &dyn HostDisk, effect: &Effect) -> Result<(), HostError> {
        match self.bend {
            Bend::ForgetsUndo(number) if is_visible(effect) && self.is_turn(number) => Ok(()),
            Bend::WithdrawsFirst if is_visible(effect) && self.is_turn(0) => {
                disk.remove_file(&ManagedPath::constant(JOURNAL))?;
                effect.perform(disk)
            }
            Bend::RecoversWithoutFlush(number) if is_flush(effect) && self.is_turn(number) => Ok(()),
            _ => effect.perform(disk),
        }
    }
}

impl Screen for Bent {
    fn act(&self, disk: &dyn HostDisk, effect: Effect) -> Result<(), HostError> {
        let is_staged =
            |effect: &Effect| effect.path().is_some_and(|path| path.as_str().contains("/.flameholder.d"));
        match (self.bend, &effect) {
            (Bend::ForgetsSlot, Effect::RemoveFile { .. }) if is_staged(&effect) && self.is_turn(0) => Ok(()),
            (Bend::ForgetsSlot, Effect::RemoveDirectory { path }) if is_staged(&effect) => {
                if disk.below(path)?.is_empty() { effect.perform(disk) } else { Ok(()) }
            }
            (Bend::ForgetsJournal, Effect::RemoveFile { path }) if path.as_str() == JOURNAL => Ok(()),
            _ if self.recovers => self.recover(disk, &effect),
            _ => self.run(disk, &effect),
        }
    }
}

fn say(disk: &dyn HostDisk, reached: TransactionState) -> Result<(), HostError> {
    disk.append(&ManagedPath::constant(JOURNAL), &reached.render())
}

fn is_opening(effect: &Effect) -> bool {
    matches!(effect, Effect::Rename { from, .. } if from.as_str() == NEW_JOURNAL)
}

/// True if a reader of the tree can see the act, or its undoing.
fn is_visible(effect: &Effect) -> bool {
    match effect {
        Effect::Rename { from, .. } => from.as_str() != NEW_JOURNAL,
        Effect::Exchange { a, .. } => a.as_str() != NEW_JOURNAL,
        Effect::SetAttributes { .. } => true,
        _ => false,
    }
}

fn is_flush(effect: &Effect) -> bool {
    matches!(effect, Effect::Sync { .. })
}

fn in_two(disk: &dyn HostDisk, effect: &Effect) -> Result<(), HostError> {
    let Effect::Exchange { a, b } = effect else { return effect.perform(disk) };
    let aside = a.parent().expect("a slot has a directory").join("aside");
    disk.rename(b, &aside)?;
    disk.rename(a, b)?;
    disk.rename(&aside, a)
}

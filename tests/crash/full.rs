//! Disk that stays full from one act on: the acts before it are undone without space.

use std::cell::Cell;
use std::collections::BTreeSet;

use flameholder::host::systemd::service_port::NoServices;
use flameholder::host::{FileOperation, HostDisk, HostError};
use flameholder::transaction::engine::apply::ApplyError;
use memory_disk::Unwatched;
use rustix::io::Errno;

use crate::bent::Bend;
use crate::case::{self, Case};
use crate::crashes::for_each;
use crate::disk::effect::{Effect, Screen, Screened};
use crate::explorer::{Explorer, Promise, Tally, Wrong};
use crate::kinds::{self, VAR};

/// Disk that refuses acts that need space, from an act on.
struct Full {
    from: usize,
    halfway: bool,
    acts: Cell<usize>,
    refused: Cell<usize>,
}

impl Screen for Full {
    fn act(&self, disk: &dyn HostDisk, effect: Effect) -> Result<(), HostError> {
        let number = self.acts.replace(self.acts.get() + 1);
        let takes_space = matches!(
            effect,
            Effect::MakeDirectory { .. }
                | Effect::CreateFile { .. }
                | Effect::CreateSymlink { .. }
                | Effect::HardLink { .. }
                | Effect::Append { .. }
        );
        if number < self.from || !takes_space {
            return effect.perform(disk);
        }
        self.refused.set(self.refused.get() + 1);
        if let Some(half) = effect.half().filter(|_| self.halfway) {
            half.perform(disk)?;
        }
        Err(HostError::new(
            FileOperation::Stage,
            effect.path().map_or("/", |path| path.as_str()),
            Errno::NOSPC,
        ))
    }
}

fn each_filling(case: &Case) -> (Tally, BTreeSet<(Wrong, String)>) {
    let explorer = Explorer::new(case, Bend::Straight);
    let mut fillings = 0;
    for halfway in [false, true] {
        for from in 0.. {
            let screen = Full { from, halfway, acts: Cell::new(0), refused: Cell::new(0) };
            let run = |disk: &dyn HostDisk| case.apply(&Screened { disk, screen: &screen }, &NoServices);
            let (result, image) = case::on(&case.image, &Unwatched, run);
            if screen.refused.get() == 0 {
                assert!(result.is_ok() && from > 10, "{}: {from} acts", case.name);
                break;
            }
            fillings += 1;
            let what = format!("the disk is full from act {from} on");
            match result {
                Err(ApplyError::Undone(_)) => explorer.expect(&image, Promise::Old, &what),
                other => explorer.complain(Wrong::Ended, &format!("{what}: {other:?}")),
            }
        }
    }
    (Tally { edits: 1, points: fillings, states: 1 }, explorer.complaints())
}

#[test]
fn full_disk_leaves_the_old_or_the_new_tree() {
    for_each(kinds::scenarios(VAR), each_filling);
}

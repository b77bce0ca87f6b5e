//! What becomes of a transaction that was interrupted.

use super::journal::{Journal, JournalScope, TransactionState};

/// How an interrupted transaction is settled. Each way leads, by any number of further
/// interruptions, to the whole of the generation before it or the whole of the one after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryAction {
    /// There is none.
    Nothing,
    /// All moves are taken back, newest first.
    Undo {
        /// So many actions on services, counted from the first, are then repeated, so that the
        /// services have the generation before it again.
        actions: usize,
    },
    /// It holds; what is left of it is cleared away.
    CleanUp,
    /// It was at work on another deployment's `/etc`, and only there can it be settled.
    OtherDeployment,
}

/// Decides, from the journal that was found, the generation that the record in the tree names, and
/// the ID of the current boot.
///
/// Until it is committed the generation before it is the one to have: what it became was promised
/// to nobody yet. A tree whose record names neither generation is not the one that the journal
/// speaks of, and its files are none of the journal's business.
#[must_use]
pub fn settle(journal: Option<&Journal>, found: Option<&str>, boot_id: &str) -> RecoveryAction {
    let Some(Journal { intent, reached }) = journal else {
        return RecoveryAction::Nothing;
    };
    let is_named = found == intent.current.as_deref() || found == intent.target.as_deref();
    if intent.scope == JournalScope::Deployment && !is_named {
        return RecoveryAction::OtherDeployment;
    }
    // A reboot has stopped every service, and starts it with what is on the disk.
    let rebooted = intent.boot_id != boot_id;
    match *reached {
        TransactionState::Prepared => RecoveryAction::Undo { actions: 0 },
        TransactionState::Acting { .. } if rebooted => RecoveryAction::Undo { actions: 0 },
        TransactionState::Acting { begun } => {
            RecoveryAction::Undo { actions: begun.min(intent.actions.len()) }
        }
        TransactionState::Committed => RecoveryAction::CleanUp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::state::journal::{JournalIntent, VERSION};
    use crate::core::state::service_action::ServiceAction;

    const BOOT: &str = "this boot";
    const EARLIER: &str = "an earlier boot";

    fn journal(scope: JournalScope, boot_id: &str, reached: TransactionState) -> Journal {
        let intent = JournalIntent {
            version: VERSION,
            boot_id: boot_id.to_owned(),
            scope,
            current: Some("current".to_owned()),
            target: Some("target".to_owned()),
            staging: Vec::new(),
            moves: Vec::new(),
            discards: Vec::new(),
            actions: vec![ServiceAction::DaemonReload; 2],
        };
        Journal { intent, reached }
    }

    #[test]
    fn nothing_open_is_nothing_to_settle() {
        for found in [None, Some("current")] {
            assert_eq!(settle(None, found, BOOT), RecoveryAction::Nothing);
        }
    }

    #[test]
    fn every_state_is_settled_in_one_way() {
        let acting = |begun| TransactionState::Acting { begun };
        for (boot, reached, expected) in [
            (BOOT, TransactionState::Prepared, RecoveryAction::Undo { actions: 0 }),
            (EARLIER, TransactionState::Prepared, RecoveryAction::Undo { actions: 0 }),
            (BOOT, acting(1), RecoveryAction::Undo { actions: 1 }),
            (BOOT, acting(2), RecoveryAction::Undo { actions: 2 }),
            (BOOT, acting(9), RecoveryAction::Undo { actions: 2 }),
            (EARLIER, acting(2), RecoveryAction::Undo { actions: 0 }),
            (BOOT, TransactionState::Committed, RecoveryAction::CleanUp),
            (EARLIER, TransactionState::Committed, RecoveryAction::CleanUp),
        ] {
            let deployment = journal(JournalScope::Deployment, boot, reached);
            for found in [Some("current"), Some("target")] {
                assert_eq!(settle(Some(&deployment), found, BOOT), expected, "{boot}, {reached:?}");
            }
            for found in [None, Some("another")] {
                assert_eq!(
                    settle(Some(&deployment), found, BOOT),
                    RecoveryAction::OtherDeployment,
                    "{reached:?}"
                );
                let var = journal(JournalScope::Var, boot, reached);
                assert_eq!(settle(Some(&var), found, BOOT), expected, "{boot}, {reached:?}, /var");
            }
        }
    }

    #[test]
    fn a_tree_that_had_no_generation_has_none_to_name() {
        let mut first = journal(JournalScope::Deployment, BOOT, TransactionState::Prepared);
        first.intent.current = None;
        assert_eq!(settle(Some(&first), None, BOOT), RecoveryAction::Undo { actions: 0 });
    }
}

//! Recovery from an interrupted live transaction: undo it or complete it, decided from its journal.

use super::journal::{Journal, JournalScope, TransactionState};
use crate::core::values::identifiers::{BootId, GenerationId};

/// Action that recovers from an interrupted transaction. Each one leads to the complete generation before it
/// or the complete one after it, however often recovery itself is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryAction {
    /// There is no journal.
    Nothing,
    /// Undo all moves, newest first.
    Undo {
        /// Number of service actions to repeat after that, counted from the first, so that the services load
        /// the previous generation again.
        actions: usize,
    },
    /// The transaction was committed: remove its staging directories and its journal.
    CleanUp,
    /// The transaction changed the `/etc` of another deployment, and can be recovered only from there.
    OtherDeployment,
}

/// Decide how to recover, from the journal, the generation in the tree's record, and the current boot's ID.
///
/// Before its commit a transaction is undone, since no one was told of success yet. A tree whose record names
/// neither generation is another deployment's, and the journal's paths do not apply to it.
#[must_use]
pub fn recovery_action(
    journal: Option<&Journal>,
    found: Option<&GenerationId>,
    boot_id: &BootId,
) -> RecoveryAction {
    let Some(Journal { intent, state }) = journal else {
        return RecoveryAction::Nothing;
    };
    let is_named = found == intent.current.as_ref() || found == intent.target.as_ref();
    if intent.scope == JournalScope::Deployment && !is_named {
        return RecoveryAction::OtherDeployment;
    }
    // After a reboot every service was started from the files on disk, so none needs its action repeated.
    let rebooted = intent.boot_id != *boot_id;
    match *state {
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
            boot_id: boot_id.into(),
            scope,
            current: Some("current".into()),
            target: Some("target".into()),
            staging: Vec::new(),
            staging_inodes: Vec::new(),
            volatile_staging: Vec::new(),
            moves: Vec::new(),
            discards: Vec::new(),
            actions: vec![ServiceAction::DaemonReload; 2],
        };
        Journal { intent, state: reached }
    }

    /// Return the action in the boot [`BOOT`], for a tree whose record names `found`.
    fn action(journal: Option<&Journal>, found: Option<&str>) -> RecoveryAction {
        recovery_action(journal, found.map(GenerationId::from).as_ref(), &BOOT.into())
    }

    #[test]
    fn missing_journal_needs_no_recovery() {
        for found in [None, Some("current")] {
            assert_eq!(action(None, found), RecoveryAction::Nothing);
        }
    }

    #[test]
    fn every_journal_state_has_one_recovery_action() {
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
                assert_eq!(action(Some(&deployment), found), expected, "{boot}, {reached:?}");
            }
            for found in [None, Some("another")] {
                assert_eq!(action(Some(&deployment), found), RecoveryAction::OtherDeployment, "{reached:?}");
                let var = journal(JournalScope::Var, boot, reached);
                assert_eq!(action(Some(&var), found), expected, "{boot}, {reached:?}, /var");
            }
        }
    }

    #[test]
    fn first_transaction_of_a_tree_is_undone() {
        let mut first = journal(JournalScope::Deployment, BOOT, TransactionState::Prepared);
        first.intent.current = None;
        assert_eq!(action(Some(&first), None), RecoveryAction::Undo { actions: 0 });
    }
}

//! What becomes of a transaction that was interrupted.

use super::journal::{Journal, Reached, Scope};

/// How an interrupted transaction is settled. Each way leads, by any number of further
/// interruptions, to the whole of the generation before it or the whole of the one after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// There is none.
    Nothing,
    /// All moves are taken back, newest first.
    Undo {
        /// So many actions on services, counted from the first, are then repeated, so that the
        /// services have the generation before it again.
        actions: usize,
    },
    /// It holds; what is left of it is cleared away.
    Clear,
    /// It was at work on another deployment's `/etc`, and only there can it be settled.
    Elsewhere,
}

/// Decides, from the journal that was found, the generation that the record in the tree names, and
/// the ID of the current boot.
///
/// Until it is committed the generation before it is the one to have: what it became was promised
/// to nobody yet. A tree whose record names neither generation is not the one that the journal
/// speaks of, and its files are none of the journal's business.
#[must_use]
pub fn settle(journal: Option<&Journal>, found: Option<&str>, boot_id: &str) -> Settlement {
    let Some(Journal { intent, reached }) = journal else {
        return Settlement::Nothing;
    };
    let is_named = found == intent.current.as_deref() || found == intent.target.as_deref();
    if intent.scope == Scope::Deployment && !is_named {
        return Settlement::Elsewhere;
    }
    // A reboot has stopped every service, and starts it with what is on the disk.
    let rebooted = intent.boot_id != boot_id;
    match *reached {
        Reached::Prepared => Settlement::Undo { actions: 0 },
        Reached::Acting { .. } if rebooted => Settlement::Undo { actions: 0 },
        Reached::Acting { begun } => Settlement::Undo { actions: begun.min(intent.actions.len()) },
        Reached::Committed => Settlement::Clear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::state::journal::{Intent, VERSION};
    use crate::core::state::service_action::ServiceAction;

    const BOOT: &str = "this boot";
    const EARLIER: &str = "an earlier boot";

    fn journal(scope: Scope, boot_id: &str, reached: Reached) -> Journal {
        let intent = Intent {
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
            assert_eq!(settle(None, found, BOOT), Settlement::Nothing);
        }
    }

    #[test]
    fn every_state_is_settled_in_one_way() {
        let acting = |begun| Reached::Acting { begun };
        for (boot, reached, expected) in [
            (BOOT, Reached::Prepared, Settlement::Undo { actions: 0 }),
            (EARLIER, Reached::Prepared, Settlement::Undo { actions: 0 }),
            (BOOT, acting(1), Settlement::Undo { actions: 1 }),
            (BOOT, acting(2), Settlement::Undo { actions: 2 }),
            (BOOT, acting(9), Settlement::Undo { actions: 2 }),
            (EARLIER, acting(2), Settlement::Undo { actions: 0 }),
            (BOOT, Reached::Committed, Settlement::Clear),
            (EARLIER, Reached::Committed, Settlement::Clear),
        ] {
            let deployment = journal(Scope::Deployment, boot, reached);
            for found in [Some("current"), Some("target")] {
                assert_eq!(settle(Some(&deployment), found, BOOT), expected, "{boot}, {reached:?}");
            }
            for found in [None, Some("another")] {
                assert_eq!(settle(Some(&deployment), found, BOOT), Settlement::Elsewhere, "{reached:?}");
                let var = journal(Scope::Var, boot, reached);
                assert_eq!(settle(Some(&var), found, BOOT), expected, "{boot}, {reached:?}, /var");
            }
        }
    }

    #[test]
    fn a_tree_that_had_no_generation_has_none_to_name() {
        let mut first = journal(Scope::Deployment, BOOT, Reached::Prepared);
        first.intent.current = None;
        assert_eq!(settle(Some(&first), None, BOOT), Settlement::Undo { actions: 0 });
    }
}

//! What the guest's own readers saw at several moments of its boot; `guest/usr/libexec/flameholder-test/look` writes it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use crate::host::Host;

/// What a reader at one moment of the boot saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// The boot that it saw it in.
    pub boot: String,
    /// Path and contents; nothing where the file was absent.
    pub seen: BTreeMap<String, Option<String>>,
}

impl Host {
    /// What the readers of the early boot saw, by the name of their moment.
    pub fn witnesses(&mut self) -> Result<BTreeMap<String, Witness>> {
        let records = self.run_ok("cd /run/witness && grep --recursive '' .")?;
        let mut witnesses = BTreeMap::new();
        for line in records.lines() {
            let (stage, record) = line
                .strip_prefix("./")
                .and_then(|line| line.split_once(':'))
                .with_context(|| format!("no record of a witness: {line:?}"))?;
            let witness = witnesses
                .entry(stage.to_owned())
                .or_insert_with(|| Witness { boot: String::new(), seen: BTreeMap::new() });
            match record.split_once('=') {
                Some(("boot", id)) => id.clone_into(&mut witness.boot),
                Some((path, contents)) => {
                    witness.seen.insert(path.to_owned(), Some(contents.to_owned()));
                }
                None => {
                    witness.seen.insert(record.to_owned(), None);
                }
            }
        }
        Ok(witnesses)
    }
}

//! Observations of the witness files at several moments of the guest's boot, recorded by units and a
//! generator with `guest/usr/libexec/flameholder-test/print-witnesses`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use crate::host::Host;

/// Observations of one reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// ID of the observed boot.
    pub boot: String,
    /// Content by path; `None` for an absent file.
    pub seen: BTreeMap<String, Option<String>>,
}

impl Host {
    /// Return the observations of this boot by the name of their moment, such as `generator` or `sysinit`.
    pub fn witnesses(&mut self) -> Result<BTreeMap<String, Witness>> {
        let records = self.run_ok("cd /run/witness && grep --recursive '' .")?;
        let mut witnesses = BTreeMap::new();
        for line in records.lines() {
            let (stage, record) = line
                .strip_prefix("./")
                .and_then(|line| line.split_once(':'))
                .with_context(|| format!("invalid witness record {line:?}"))?;
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

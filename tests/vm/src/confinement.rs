//! SELinux in a guest: the audit records about the project's domains.

use anyhow::{Result, ensure};

use crate::host::Host;

/// Beginning of the names of the project's types.
const TYPES: &str = "flameholder_";

/// Audit records of all boots of a host.
#[derive(Debug)]
pub struct AuditRecords(Vec<String>);

impl Host {
    /// Read the audit records of all boots.
    ///
    /// # Errors
    /// The kernel lost records.
    pub fn audit_records(&mut self) -> Result<AuditRecords> {
        self.run_ok("journalctl --sync")?;
        let lost = self.run_ok(
            "journalctl --no-pager --quiet --output=cat --dmesg --boot=all --grep=audit_lost || test $? = 1",
        )?;
        ensure!(lost.is_empty(), "the kernel lost audit records: {lost}");
        let records = self.run_ok("journalctl --no-pager --quiet --output=cat _TRANSPORT=audit")?;
        Ok(AuditRecords(records.lines().map(str::to_owned).collect()))
    }

    /// Check that SELinux enforces, and that the project's domains were neither denied anything nor anything about them.
    ///
    /// # Errors
    /// A record shows a denial or a context that the policy refuses; records are missing altogether; or a domain was not
    /// entered by its transition.
    pub fn ensure_confined(&mut self) -> Result<()> {
        ensure!(self.run_ok("cat /sys/fs/selinux/enforce")?.trim() == "1", "SELinux does not enforce");
        let records = self.audit_records()?;
        ensure!(!records.of_transitions().is_empty(), "no transition into a domain was recorded");
        let allowed = &self.errors;
        let mut refused = records.refused();
        refused.retain(|record| !allowed.iter().any(|known| record.contains(known)));
        ensure!(refused.is_empty(), "SELinux refused:\n{}", refused.join("\n"));
        Ok(())
    }
}

impl AuditRecords {
    /// Return the denials in which the project's types are on either side, and all contexts that the policy refused.
    #[must_use]
    pub fn refused(&self) -> Vec<&str> {
        let is_denial = |record: &str| record.contains(TYPES) && record.contains("denied");
        self.records(|record| is_denial(record) || record.starts_with("SELINUX_ERR"))
    }

    /// Return the recorded transitions into the project's domains, which the tests' policy module has recorded.
    #[must_use]
    pub fn of_transitions(&self) -> Vec<&str> {
        let is_ours = |record: &str| record.contains(TYPES) && record.contains("granted");
        self.records(|record| is_ours(record) && record.contains("{ transition }"))
    }

    fn records(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<&str> {
        self.0.iter().map(String::as_str).filter(|record| is_wanted(record)).collect()
    }
}

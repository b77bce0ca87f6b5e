//! Document of `status -o json` (`docs/schema/status.json`).

mod condition;
mod deployment_item;
mod host_items;
mod pending_item;
mod reboot_policy_item;
mod transaction_item;

pub use condition::{ConditionItem, ConditionOutcome};
pub use deployment_item::{DeploymentItem, GenerationItem, mark_rollback};
pub use host_items::{AgentItem, ArgumentsItem, OriginItem, SpaceItem, UnreadableDocument};
use jiff::Timestamp;
pub use pending_item::{PendingItem, PendingState};
pub use reboot_policy_item::{GrantItem, RebootPolicyItem, WindowItem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use transaction_item::{JournalState, TransactionItem};

use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::daemon::hook_verdicts::HookVerdict;
use crate::core::history::history_log::HistoryLog;
use crate::core::state::blocked::BlockedTarget;
use crate::core::state::boot_check::HealthReport;
use crate::core::state::record::GenerationRecord;
use crate::core::values::image::redact_credentials;

/// Value of the member `schema`.
const SCHEMA: u32 = 1;

/// State of a tree, a sysroot or the running host.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusDocument {
    /// Version of this document. Members may be added within a version; a member that changes its meaning
    /// makes a new one.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: u32,
    /// Time at which the document was published for users who may not read the host; null in one that was made when it
    /// was asked for.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub published: Option<Timestamp>,
    /// Condition of the running host; null elsewhere.
    pub condition: Option<ConditionItem>,
    /// Generation of a plain tree; null before the first change, and for a sysroot, whose deployments have
    /// their own.
    pub generation: Option<GenerationItem>,
    /// Deployments of a sysroot in boot order; empty for a plain tree.
    pub deployments: Vec<DeploymentItem>,
    /// Change whose journal is open, in progress or interrupted; null without one. In a sysroot: the one in
    /// the `/var` of the deployment that boots next.
    pub transaction: Option<TransactionItem>,
    /// Generation of the running host that is staged for the next boot, or booted and unconfirmed.
    pub pending: Option<PendingItem>,
    /// Config that failed its boot check on the running host, or that an operator rolled back from. It is not
    /// retried until `flameholder retry` or another desired config.
    pub blocked: Option<BlockedTarget>,
    /// Kernel arguments of the running host that take effect with the next full reboot, because a soft reboot kept the
    /// running kernel; null if the kernel has those of the boot entry.
    pub kernel_arguments_after_reboot: Option<ArgumentsItem>,
    /// Last report of the boot check of the running host in this boot.
    pub boot_check: Option<HealthReport>,
    /// Seconds until the boot check of an unconfirmed generation times out; null without one, and after that.
    pub boot_check_seconds_left: Option<u64>,
    /// Reboot policy of the running host; null without one.
    pub reboot_policy: Option<RebootPolicyItem>,
    /// Verdicts of the hooks of the running host: the last run of each in this boot.
    #[serde(default)]
    pub hooks: Vec<HookVerdict>,
    /// Last report of the daemon in this boot; kept after the daemon ends.
    pub daemon: Option<DaemonReport>,
    /// True while the daemon runs.
    pub daemon_running: bool,
    /// Number of managed paths of the running host whose drift counts; null while the daemon runs, which watches them, and
    /// where there is nothing to compare.
    pub drift: Option<u64>,
    /// Agent that made this document: the OS image's, or a copy beside the image.
    pub agent: AgentItem,
    /// Documents of the agent on the running host that it cannot read, and works without. They are kept for the release
    /// that wrote them.
    pub unreadable: Vec<UnreadableDocument>,
    /// Origin of the running host; null elsewhere.
    pub origin: Option<OriginItem>,
    /// Free space of the running host where updates need it; empty elsewhere.
    pub space: Vec<SpaceItem>,
}

impl StatusDocument {
    /// Build the document of a plain tree.
    #[must_use]
    pub fn of_tree(agent: AgentItem, record: Option<&GenerationRecord>) -> Self {
        let generation = record.map(|record| GenerationItem::of(record, true));
        Self {
            schema: SCHEMA,
            published: None,
            condition: None,
            generation,
            deployments: Vec::new(),
            transaction: None,
            pending: None,
            blocked: None,
            kernel_arguments_after_reboot: None,
            boot_check: None,
            boot_check_seconds_left: None,
            reboot_policy: None,
            hooks: Vec::new(),
            daemon: None,
            daemon_running: false,
            drift: None,
            agent,
            unreadable: Vec::new(),
            origin: None,
            space: Vec::new(),
        }
    }

    /// Build the document of a sysroot; the caller adds the state of a running host.
    #[must_use]
    pub fn of_sysroot(agent: AgentItem, deployments: Vec<DeploymentItem>) -> Self {
        Self { deployments, ..Self::of_tree(agent, None) }
    }

    /// Return the document as everybody may read it: without output of check programs and credentials of registries.
    #[must_use]
    pub fn published(mut self, now: Timestamp) -> Self {
        self.leave_out_contents();
        for image in self.deployments.iter_mut().filter_map(|item| item.image.as_mut()) {
            *image = redact_credentials(image);
        }
        self.boot_check_seconds_left = None;
        self.published = Some(now);
        self
    }

    /// Leave out the output of check programs.
    pub fn leave_out_contents(&mut self) {
        let latest = self.boot_check.iter_mut().flat_map(|report| &mut report.findings);
        let blocked = self.blocked.iter_mut().flat_map(|blocked| &mut blocked.failed_checks);
        for finding in latest.chain(blocked) {
            finding.output.clear();
        }
    }

    /// Take over the daemon's `report`, which is newer than a published document.
    #[must_use]
    pub fn with_daemon(mut self, report: Option<DaemonReport>) -> Self {
        if report.is_some() && report != self.daemon {
            self.daemon = report;
            self.condition = Some(ConditionItem::of(&self, &HistoryLog::default()));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::StatusDocument;

    #[test]
    fn published_status_has_no_outputs_and_no_credentials() {
        // Without the members that may be missing: an earlier release wrote it.
        let document: StatusDocument = serde_json::from_value(json!({
            "schema": 1, "daemonRunning": false, "unreadable": [], "space": [],
            "agent": {"version": "0.1.0", "path": "/usr/bin/flameholder"},
            "bootCheck": {"generation": null, "phase": "unhealthy", "findings": [
                {"check": "check 10-app", "ok": false, "detail": "failed with exit code 1", "output": "secret"}]},
            "blocked": {"schema": 1, "config": "worker", "configHash": "b", "generation": "0a", "reason": "it is ill",
                "attempts": 1, "failedChecks": [
                {"check": "check 10-app", "ok": false, "detail": "failed with exit code 2", "output": "secret"}]},
            "deployments": [{"next": true, "booted": true, "staged": false, "locked": false, "rollback": false,
                "pinned": false, "stateroot": "os", "commit": "0".repeat(64), "serial": 0, "kernelArguments": [],
                "image": "ostree-unverified-image:docker://user:secret@registry.example/os:1"}],
        }))
        .unwrap();
        let published = document.published(jiff::Timestamp::UNIX_EPOCH);
        let text = serde_json::to_string(&published).unwrap();
        let exit_codes = ["1", "2"].map(|code| format!("failed with exit code {code}"));
        assert!(
            exit_codes.iter().all(|code| text.contains(code)) && text.contains("registry.example/os:1"),
            "{text}"
        );
        assert!(!text.contains("secret"), "{text}");
    }
}

//! Message catalog of the journal: for each message ID, what it means and what to do. systemd shows it with `journalctl -x`
//! (<https://systemd.io/CATALOG>).

use super::message_ids;
use crate::core::history::HistoryEvent;

/// Path of the catalog on a host; `journalctl --update-catalog` takes it up.
pub const CATALOG: &str = "/usr/lib/systemd/catalog/flameholder.catalog";

/// Explanation of a message.
#[derive(Debug)]
pub struct MessageExplanation {
    /// Phase or event.
    pub about: &'static str,
    /// The message in one line.
    pub subject: &'static str,
    /// Meaning, and what to do. `@FIELD@` stands for a field of the entry.
    pub text: &'static str,
}

const fn explain(about: &'static str, subject: &'static str, text: &'static str) -> MessageExplanation {
    MessageExplanation { about, subject, text }
}

/// Explanations of the daemon's messages, in the order of [`message_ids::ALL`].
const PHASES: [MessageExplanation; 20] = [
    explain(
        "source error",
        "The desired config cannot be read from its source",
        "The host stays as it is, and the source is asked again. Check that the source (cluster, directory, server\nor registry) can be reached from this host and that what it offers is well formed; `flameholder status`\nnames the source and its error.",
    ),
    explain(
        "Observing",
        "The agent looks at the state of the host",
        "An interrupted change is undone first. Nothing has to be done.",
    ),
    explain(
        "Idle",
        "No config is desired of this host",
        "The host stays as it is until its source names a config. If one should be there, look at the source:\n@FLAMEHOLDER_REASON@",
    ),
    explain(
        "Fetching",
        "The desired config is fetched",
        "Config: @FLAMEHOLDER_DESIRED@. Nothing has to be done.",
    ),
    explain(
        "Preparing",
        "An update is planned, pulled and staged",
        "Config: @FLAMEHOLDER_DESIRED@. The workload is not disturbed yet, however long the pull takes.",
    ),
    explain(
        "AwaitingGrant",
        "An update is prepared, and waits for what the reboot policy demands",
        "The workload is not disturbed meanwhile. The policy is in the tables [reboot], [reboot-lock] and [hooks] of\nflameholder.toml(5). @FLAMEHOLDER_REASON@",
    ),
    explain(
        "Draining",
        "The node is to be drained before the update",
        "The cluster's drain controller, or with [drain] the daemon itself, cordons and drains the node.\nIf this lasts, a PodDisruptionBudget is the usual cause:\n`kubectl get poddisruptionbudgets --all-namespaces`.",
    ),
    explain(
        "Applying",
        "An update without a reboot is applied",
        "Config: @FLAMEHOLDER_DESIRED@. All of it is applied or none, also if the power fails.",
    ),
    explain(
        "Unlocking",
        "The staged update is released for the next reboot",
        "Config: @FLAMEHOLDER_DESIRED@. From now on any reboot boots it.",
    ),
    explain(
        "Rebooting",
        "The host is to reboot into the staged update",
        "Inhibitor locks delay it: `systemd-inhibit --list` shows whose. @FLAMEHOLDER_REASON@",
    ),
    explain(
        "ShuttingDown",
        "The host shuts down and finalizes the staged update",
        "If the host does not come back, choose the previous entry in the boot menu.",
    ),
    explain(
        "CheckingBoot",
        "The boot check of a new generation runs",
        "`flameholder status` shows the checks and the time that is left. A generation that fails is rolled back,\nunless `boot-check.rollback` forbids it, as it does by default on control planes.",
    ),
    explain(
        "RollingBack",
        "The booted generation is rejected, and the host goes back to the one before",
        "Reason: @FLAMEHOLDER_REASON@\nThe config is blocked afterwards. Correct it; `flameholder history` tells the whole story.",
    ),
    explain(
        "Verifying",
        "The host is compared with its record",
        "Drift is looked for, and repaired where the settings say so. Nothing has to be done.",
    ),
    explain(
        "Uncordoning",
        "The update is complete, and the node is given back to the cluster",
        "The cluster's drain controller, or with [drain] the daemon itself, uncordons the node. Nothing has to be done.",
    ),
    explain("Done", "The host is as desired", "Config: @FLAMEHOLDER_CURRENT@."),
    explain(
        "Drifted",
        "Managed files were changed by another program, and updates wait",
        "Drift: @FLAMEHOLDER_REASON@\n`flameholder verify` lists the paths. Undo the changes, or let `flameholder verify --repair` undo those whose drift policy\nis `repair`, or overrule them with `touch /run/machine-config-daemon-force`.",
    ),
    explain(
        "Blocked",
        "The desired config is blocked on this host",
        "Reason: @FLAMEHOLDER_REASON@\nDesire another config, or try this one again with `flameholder retry`. `journalctl -u flameholder-confirm-boot` tells what its\nboot check found.",
    ),
    explain(
        "BackingOff",
        "An attempt failed and is repeated later",
        "Reason (@FLAMEHOLDER_CLASS@, attempt @FLAMEHOLDER_FAILURES@): @FLAMEHOLDER_REASON@\nA problem of the class `configuration` ends with another config, one of the class `host` or `drift` when this host is\nrepaired, and a `transient` or `interrupted` one by itself. One of the class `bug` is to be reported.",
    ),
    explain("Stopping", "The daemon stops", "The host stays as it is; the next start continues."),
];

/// Explanations of the events of the history, in the order of [`HistoryEvent::ALL`].
const EVENTS: [MessageExplanation; 19] = [
    explain("applied", "A config was applied", "Config: @FLAMEHOLDER_CONFIG@, without a reboot."),
    explain(
        "deployed",
        "A config was written into a new deployment",
        "Config: @FLAMEHOLDER_CONFIG@. It boots next.",
    ),
    explain(
        "staged",
        "An update was staged",
        "Config: @FLAMEHOLDER_CONFIG@. It boots once it is unlocked; `flameholder unstage` discards it.",
    ),
    explain(
        "granted",
        "The reboot policy granted the disruption of an update",
        "Config: @FLAMEHOLDER_CONFIG@. The node is drained, if the host is one; then the host is rebooted, or updated in place.",
    ),
    explain(
        "unlocked",
        "The staged update boots with the next reboot",
        "Config: @FLAMEHOLDER_CONFIG@. `flameholder unstage` still discards it.",
    ),
    explain(
        "unstaged",
        "The staged update was discarded",
        "Config: @FLAMEHOLDER_CONFIG@. @FLAMEHOLDER_REASON@",
    ),
    explain(
        "finalized",
        "The staged update was finalized at shutdown",
        "Config: @FLAMEHOLDER_CONFIG@. The boot menu has it and the generation before it.",
    ),
    explain(
        "finalizeFailed",
        "The staged update was not finalized at shutdown",
        "Reason: @FLAMEHOLDER_REASON@\nThe host booted as before, and `flameholder recover` stages the update again. See\n`journalctl -b -1 -u ostree-finalize-staged`.",
    ),
    explain("booted", "A new generation was booted", "Config: @FLAMEHOLDER_CONFIG@. Its boot check follows."),
    explain("confirmed", "A generation passed its boot check", "Config: @FLAMEHOLDER_CONFIG@."),
    explain(
        "rolledBack",
        "A generation was rolled back",
        "Config: @FLAMEHOLDER_CONFIG@\nReason: @FLAMEHOLDER_REASON@\nThe config is blocked until another one is desired or `flameholder retry` releases it.",
    ),
    explain(
        "blocked",
        "A config was blocked on this host",
        "Config: @FLAMEHOLDER_CONFIG@\nReason: @FLAMEHOLDER_REASON@\nDesire another config, or try this one again with `flameholder retry`.",
    ),
    explain(
        "unblocked",
        "A blocked config was released",
        "Config: @FLAMEHOLDER_CONFIG@. It may be applied again.",
    ),
    explain(
        "repaired",
        "Drift was repaired",
        "Another program had changed managed files. Find out which: the drift policies in the settings (`[drift]`) say what is\ndone about a path.",
    ),
    explain("trustApplied", "CAs and pull secret of the cluster were applied", "@FLAMEHOLDER_REASON@"),
    explain("imagesPinned", "The container runtime keeps other images now", "@FLAMEHOLDER_REASON@"),
    explain(
        "adopted",
        "The agent took this host over",
        "Config: @FLAMEHOLDER_CONFIG@. `flameholder release` gives it back.",
    ),
    explain("handedBack", "The agent gave this host back", "The machine-config-daemon manages it again."),
    explain(
        "undone",
        "An interrupted change was undone",
        "Every managed file is as before the change. @FLAMEHOLDER_REASON@",
    ),
];

/// Return the explanations of the phases, each with its message ID.
#[must_use]
pub fn phases() -> Vec<(&'static str, &'static MessageExplanation)> {
    message_ids::ALL.iter().map(|(_, id)| *id).zip(&PHASES).collect()
}

/// Return the explanations of the history's events, each with its message ID.
#[must_use]
pub fn events() -> Vec<(&'static str, &'static MessageExplanation)> {
    HistoryEvent::ALL.iter().map(|(.., id)| *id).zip(&EVENTS).collect()
}

/// Render the catalog.
#[must_use]
pub fn render() -> String {
    let mut text = String::from(
        "# Written from src/core/daemon/message_catalog.rs; see journalctl(1), option --catalog.\n",
    );
    for (id, MessageExplanation { subject, text: body, .. }) in phases().into_iter().chain(events()) {
        text.push_str(&format!(
            "\n-- {id}\nSubject: {subject}\nDefined-By: Flameholder\nDocumentation: man:flameholder(8)\n\n{body}\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_are_in_the_order_of_the_message_ids() {
        let phases = message_ids::ALL.iter().zip(&PHASES).map(|((about, _), text)| (*about, text.about));
        let events = HistoryEvent::ALL.iter().zip(&EVENTS).map(|((_, about, _), text)| (*about, text.about));
        for (about, explained) in phases.chain(events) {
            assert_eq!(about, explained);
        }
    }
}

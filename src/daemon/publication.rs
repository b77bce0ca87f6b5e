//! Publication of the daemon's state: to the source, in the status file and in the journal.

use jiff::Timestamp;

use super::{Daemon, notify};
use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::daemon::lifecycle::DaemonPhase;
use crate::core::daemon::message_ids;
use crate::core::values::identifiers::ConfigName;
use crate::source::{LifecycleView, SourceCommand};

impl Daemon {
    pub(super) fn publish_lifecycle(&mut self) {
        self.views[0] += 1;
        let view = Box::new(LifecycleView {
            number: self.views[0],
            lifecycle: self.lifecycle.clone(),
            irreconcilable: self.irreconcilable.clone(),
        });
        // A source that ended is noticed by the main loop, at its event channel.
        drop(self.commands.send(SourceCommand::Publish(view)));
        self.publish_report();
        let phase = &self.lifecycle.phase;
        if phase.is_resting() {
            self.delivery = None;
        }
        if !matches!(phase, DaemonPhase::Rebooting { .. }) {
            self.inhibited_since = None;
        }
    }

    pub(super) fn publish_report(&mut self) {
        // Where no node is drained, these phases end at once.
        if !self.has_node
            && matches!(self.lifecycle.phase, DaemonPhase::Draining { .. } | DaemonPhase::Uncordoning { .. })
        {
            return;
        }
        let (pid, now) = (std::process::id(), Timestamp::now());
        let report =
            DaemonReport::of(&self.lifecycle, &self.source, pid, now).continuing(self.reported.as_ref());
        notify::publish_status(&report);
        self.notifications.tell(&report);
        let level = notify::journal_level(&report, self.reported.as_ref());
        // Jobs of pinned images have lines of their own.
        let is_of_pins = self.reported.replace(report.clone()).is_some_and(|before| {
            before.pinned_images != report.pinned_images
                && DaemonReport { pinned_images: report.pinned_images.clone(), ..before } == report
        });
        if is_of_pins {
            return;
        }
        log::log!(
            level,
            MESSAGE_ID = message_ids::of(&self.lifecycle.phase),
            FLAMEHOLDER_PHASE = report.phase.as_str(),
            FLAMEHOLDER_DESIRED = report.desired.as_ref().map_or("", ConfigName::as_str),
            FLAMEHOLDER_CURRENT = report.current.as_ref().map_or("", ConfigName::as_str),
            FLAMEHOLDER_REASON = report.reason.as_deref().unwrap_or_default(),
            FLAMEHOLDER_CLASS = report.class.as_deref().unwrap_or_default(),
            FLAMEHOLDER_FAILURES = report.failures;
            "{}{}", report.summary(), self.update.take_news(&self.lifecycle.phase)
        );
    }
}

//! Events of the source: desired config, fetched documents, drain state, trust material and pinned image sets.

use std::sync::Arc;

use tokio::time::Instant;

use super::Daemon;
use crate::core::daemon::lifecycle::{DaemonEvent, DaemonPhase};
use crate::core::daemon::message_ids;
use crate::core::pinned_images::drop_in::DROP_IN;
use crate::core::values::names::ManagedPath;
use crate::host::HostDisk as _;
use crate::source::{PinDelivery, SourceEvent};

impl Daemon {
    pub(super) fn handle_source_event(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::DesiredChanged(desired) => self.handle(DaemonEvent::DesiredChanged(desired)),
            SourceEvent::NoDesiredConfig(reason) => self.handle(DaemonEvent::NoDesiredConfig(reason)),
            SourceEvent::Published(number) => {
                self.views[1] = self.views[1].max(number);
                self.run_announced();
            }
            SourceEvent::Fetched(desired, fetched) => {
                if self.lifecycle.phase != (DaemonPhase::Fetching { target: desired.clone() }) {
                    return;
                }
                let is_missing = fetched.as_ref().is_err_and(|failure| failure.is_missing);
                self.metrics.record_missing_config(is_missing.then_some(&desired));
                match fetched {
                    Ok(delivery) => {
                        self.delivery = Some((desired, Arc::new(delivery)));
                        self.handle(DaemonEvent::Fetched);
                    }
                    Err(failure) => self.handle(DaemonEvent::Failed(failure.problem)),
                }
            }
            SourceEvent::Drained(desired) => {
                if self.lifecycle.phase.target().is_some_and(|target| target.is_same(&desired)) {
                    self.handle(DaemonEvent::Drained);
                }
            }
            SourceEvent::Uncordoned => self.handle(DaemonEvent::Uncordoned),
            SourceEvent::PolicyChanged => {
                if matches!(self.lifecycle.phase, DaemonPhase::BackingOff { .. }) {
                    log::info!("the cluster's node disruption policy has changed");
                    self.handle(DaemonEvent::StateChanged);
                }
            }
            SourceEvent::SourceError(trouble) => self.take_source_error(trouble),
            SourceEvent::ArtifactPulled(digest) => {
                log::info!("the desired config is that of the artifact {digest}");
                self.source.digest = Some(digest);
                self.publish_report();
            }
            SourceEvent::TrustChanged(delivery) => {
                self.trust.deliver(delivery);
                self.begin_side_jobs();
            }
            SourceEvent::TrustUnavailable(problem) => {
                let event = self.trust.unavailable(problem);
                self.handle(event);
            }
            SourceEvent::PinsChanged(delivery) => self.take_pins(delivery),
            SourceEvent::ConnectionFailed { is_untrusted } => {
                self.trust.connection_failed(is_untrusted);
                self.begin_side_jobs();
            }
        }
    }

    fn take_source_error(&mut self, trouble: Option<String>) {
        if let Some(trouble) = &trouble {
            log::warn!(MESSAGE_ID = message_ids::SOURCE_ERROR; "{trouble}");
        }
        self.metrics.set_source_error(trouble.is_some());
        self.source.error = trouble;
        self.publish_report();
    }

    fn take_pins(&mut self, delivery: PinDelivery) {
        let found = self.root.status(&ManagedPath::constant(DROP_IN));
        if let Some(event) = self.pins.deliver(delivery, found.is_ok_and(|found| found.is_some())) {
            self.handle(event);
        }
        self.begin_side_jobs();
    }

    pub(super) fn side_job_due(&mut self) {
        let now = Instant::now();
        self.trust.expire(now);
        self.pins.expire(now);
        self.grant_end.expire(now);
        self.begin_side_jobs();
    }
}

//! Events of the source: desired config, fetched documents, drain state, trust material and pinned image sets.

use std::sync::Arc;

use jiff::Timestamp;

use super::Daemon;
use crate::core::daemon::grant::{GrantDelay, GrantWait};
use crate::core::daemon::lifecycle::{ConfigRef, DaemonEvent, DaemonPhase};
use crate::core::daemon::message_ids;
use crate::core::pinned_images::drop_in::DROP_IN;
use crate::core::values::names::ManagedPath;
use crate::host::HostDisk as _;
use crate::host::facts::boot;
use crate::source::{FetchFailure, FetchedConfig, PinDelivery, SourceEvent};
use crate::transaction::state::settings::settings_or_default;

impl Daemon {
    pub(super) fn handle_source_event(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::DesiredChanged(desired) => self.handle(DaemonEvent::DesiredChanged(desired)),
            SourceEvent::NoDesiredConfig(reason) => self.handle(DaemonEvent::NoDesiredConfig(reason)),
            SourceEvent::Published(number) => {
                self.views[1] = self.views[1].max(number);
                self.run_announced();
            }
            SourceEvent::Fetched(desired, fetched) => self.take_fetched(desired, fetched),
            SourceEvent::Drained(desired) => {
                if self.lifecycle.phase.target().is_some_and(|target| target.is_same(&desired)) {
                    self.handle(DaemonEvent::Drained);
                }
            }
            SourceEvent::DrainWaits(desired, subject) => {
                if self.drains_for(&desired) {
                    self.handle(DaemonEvent::DrainDelayed(subject));
                }
            }
            SourceEvent::DrainGivenUp(desired, reason) => self.give_up_drain(&desired, reason),
            SourceEvent::Uncordoned => self.handle(DaemonEvent::Uncordoned),
            SourceEvent::UncordonWaits(reason) => self.handle(DaemonEvent::UncordonDelayed(reason)),
            SourceEvent::RetryRequested(request) => self.take_retry_request(request),
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

    /// Release the blocked target with the next observation. The Node names the request until that has happened.
    fn take_retry_request(&mut self, request: String) {
        if self.retry_request.as_ref() == Some(&request) {
            return;
        }
        log::info!("an operator asks by the Node to release the blocked target");
        self.retry_request = Some(request);
        self.releases_block = true;
        self.handle(DaemonEvent::StateChanged);
    }

    /// Report an error of the source, or its end, unless that is known.
    fn take_source_error(&mut self, trouble: Option<String>) {
        if trouble == self.source.error {
            return;
        }
        if let Some(trouble) = &trouble {
            log::warn!(MESSAGE_ID = message_ids::SOURCE_ERROR; "{trouble}");
        }
        self.metrics.set_source_error(trouble.is_some());
        self.source.error = trouble;
        self.publish_report();
    }

    fn take_fetched(&mut self, desired: ConfigRef, fetched: Result<FetchedConfig, FetchFailure>) {
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

    fn give_up_drain(&mut self, desired: &ConfigRef, reason: String) {
        if self.drains_for(desired) {
            let waits_for = GrantWait::Drain { reason };
            let interval = settings_or_default(&self.root).reboot.retry_interval();
            let retry_after = waits_for.delay(Timestamp::now(), interval, boot::jitter());
            self.handle(DaemonEvent::DrainGivenUp(GrantDelay { waits_for, retry_after }));
        }
    }

    fn drains_for(&self, desired: &ConfigRef) -> bool {
        matches!(&self.lifecycle.phase, DaemonPhase::Draining { target, .. } if target.is_same(desired))
    }

    fn take_pins(&mut self, delivery: PinDelivery) {
        let found = self.root.status(&ManagedPath::constant(DROP_IN));
        if let Some(event) = self.pins.deliver(delivery, found.is_ok_and(|found| found.is_some())) {
            self.handle(event);
        }
        self.begin_side_jobs();
    }
}

//! Drain of the host's Node where no controller of the cluster does it: by the daemon itself, or by nothing, so that the phases
//! `Draining` and `Uncordoning` end at once. It stands between the daemon and a source.
//!
//! Nothing is stored on the host: the Node says if it is cordoned, and whether the daemon did it, for which update.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep};

use crate::cluster::{ClusterError, DrainClient, EvictionAnswer};
use crate::core::config::settings::drain::DrainSettings;
use crate::core::daemon::drain::{NodeDemand, NodePod, PodTreatment};
use crate::core::daemon::lifecycle::{ConfigRef, Lifecycle};
use crate::core::values::causes::chain;
use crate::core::values::identifiers::ConfigName;
use crate::source::kube::retry_timer::RetryTimer;
use crate::source::{SourceCommand, SourceEvent, acknowledge};

/// Time between two looks at the pods, and between two evictions of a pod that its budget protects (kubectl's value).
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Attempts to uncordon a Node that may be none.
const ATTEMPTS: u32 = 10;
/// Pods that a wait names.
const NAMED: usize = 3;

/// Drain by the daemon.
#[derive(Debug)]
pub struct OwnDrain {
    pub client: DrainClient,
    /// Rules of the drain; `None` if the node is not drained, and the phases end at once.
    pub rules: Option<DrainSettings>,
    /// True if the host is a Node, which an earlier daemon may have cordoned under other settings.
    pub is_node: bool,
    /// Reports to the daemon.
    pub events: UnboundedSender<SourceEvent>,
    /// The source, which gets all commands.
    pub source: UnboundedSender<SourceCommand>,
    /// The reporter on the Node, which gets each state.
    pub reporter: UnboundedSender<Lifecycle>,
}

/// Work for the demand of a phase.
enum NodeWork {
    Idle,
    Draining(ConfigRef, Pin<Box<dyn Future<Output = SourceEvent> + Send>>),
    Uncordoning {
        /// Event for the phase that waits for it.
        event: Option<SourceEvent>,
        /// Update for which the Node may stay cordoned.
        kept: Option<ConfigRef>,
        running: Pin<Box<dyn Future<Output = ()> + Send>>,
    },
}

impl OwnDrain {
    /// Run until the daemon drops its end of the command channel.
    pub async fn run(self, mut commands: UnboundedReceiver<SourceCommand>) {
        let mut work = NodeWork::Idle;
        // The daemon may have been started anew after it had cordoned the Node.
        let mut may_be_cordoned = self.rules.is_some() || self.is_node || self.client.has_kubeconfig();
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    None => return,
                    Some(SourceCommand::Publish(view)) => {
                        drop(self.events.send(SourceEvent::Published(view.number)));
                        if let Some(rules) = &self.rules {
                            self.follow(rules, &view.lifecycle, &mut work, &mut may_be_cordoned);
                        } else {
                            acknowledge(&view, |event| drop(self.events.send(event)));
                            self.release(&view.lifecycle, &mut work, may_be_cordoned);
                        }
                        // A host that is no node has none.
                        drop(self.reporter.send(view.lifecycle.clone()));
                        drop(self.source.send(SourceCommand::Publish(view)));
                    }
                    // A source that ended is noticed where it runs.
                    Some(command) => drop(self.source.send(command)),
                },
                event = finished(&mut work) => {
                    if matches!(work, NodeWork::Uncordoning { kept: None, .. }) {
                        may_be_cordoned = false;
                    }
                    work = NodeWork::Idle;
                    // The receiver is gone only when the daemon stops.
                    if let Some(event) = event {
                        drop(self.events.send(event));
                    }
                }
            }
        }
    }

    /// Begin, continue or end the work for a state of the daemon.
    fn follow(
        &self,
        rules: &DrainSettings,
        lifecycle: &Lifecycle,
        work: &mut NodeWork,
        may_be_cordoned: &mut bool,
    ) {
        let demand = NodeDemand::of(lifecycle);
        let reported = (demand == NodeDemand::Uncordoned).then_some(SourceEvent::Uncordoned);
        match (demand, &mut *work) {
            (NodeDemand::Drained(target), NodeWork::Draining(running, _)) if running == target => {}
            (NodeDemand::Drained(target), work) => {
                *may_be_cordoned = true;
                let drain = NodeDrain {
                    client: self.client.clone(),
                    rules: *rules,
                    events: self.events.clone(),
                    target: target.clone(),
                };
                *work = NodeWork::Draining(target.clone(), Box::pin(drain.run()));
            }
            (
                NodeDemand::Uncordoned | NodeDemand::Schedulable | NodeDemand::SchedulableUnlessFor(_),
                NodeWork::Uncordoning { event, kept: None, .. },
            ) => *event = reported,
            (NodeDemand::SchedulableUnlessFor(target), NodeWork::Uncordoning { kept: Some(kept), .. })
                if kept == target => {}
            (NodeDemand::Uncordoned, work) => *work = self.uncordon(reported, None),
            (NodeDemand::Schedulable, work) if *may_be_cordoned => *work = self.uncordon(None, None),
            (NodeDemand::SchedulableUnlessFor(target), work) if *may_be_cordoned => {
                *work = self.uncordon(None, Some(target));
            }
            (_, work) => *work = NodeWork::Idle,
        }
    }

    /// Uncordon the Node where the settings do not let the daemon drain it any more.
    fn release(&self, lifecycle: &Lifecycle, work: &mut NodeWork, may_be_cordoned: bool) {
        let is_idle = matches!(work, NodeWork::Idle);
        let is_released =
            !matches!(NodeDemand::of(lifecycle), NodeDemand::Drained(_) | NodeDemand::Unchanged);
        if may_be_cordoned && is_idle && is_released {
            *work = self.uncordon(None, None);
        }
    }

    /// Begin to uncordon the Node, but for an update to `kept`.
    fn uncordon(&self, event: Option<SourceEvent>, kept: Option<&ConfigRef>) -> NodeWork {
        let uncordon = NodeUncordon {
            client: self.client.clone(),
            kept: kept.map(|kept| kept.config.clone()),
            is_node: self.is_node || self.rules.is_some(),
            events: self.events.clone(),
        };
        NodeWork::Uncordoning { event, kept: kept.cloned(), running: Box::pin(uncordon.run()) }
    }
}

/// Wait for the end of the work, and return its event.
async fn finished(work: &mut NodeWork) -> Option<SourceEvent> {
    match work {
        NodeWork::Idle => std::future::pending().await,
        NodeWork::Draining(_, running) => Some(running.await),
        NodeWork::Uncordoning { event, running, .. } => {
            running.await;
            event.take()
        }
    }
}

/// Uncordon of the Node.
struct NodeUncordon {
    client: DrainClient,
    /// Config of the update for which the Node may stay cordoned.
    kept: Option<ConfigName>,
    /// True if the host is surely a Node.
    is_node: bool,
    events: UnboundedSender<SourceEvent>,
}

impl NodeUncordon {
    /// Uncordon the Node, however long the API server cannot be reached. A host that may have left its cluster gives up after
    /// some attempts.
    async fn run(self) {
        let (mut said, mut retry) = (String::new(), RetryTimer::default());
        let mut attempts = 0;
        while let Err(error) = self.client.uncordon(self.kept.as_ref()).await {
            let reason = chain(&error);
            attempts += 1;
            let is_over = match &error {
                // A Node that was deleted is cordoned no more.
                ClusterError::NotFound(_) => true,
                // A host that is no Node may not ask for one either.
                ClusterError::Denied(_) => !self.is_node,
                _ => !self.is_node && attempts == ATTEMPTS,
            };
            if is_over {
                log::debug!("no node {} to uncordon: {reason}", self.client.node);
                return;
            }
            // The receiver is gone only when the daemon stops.
            drop(self.events.send(SourceEvent::UncordonWaits(reason.clone())));
            if reason != said {
                log::warn!("the node {} cannot be uncordoned yet: {reason}", self.client.node);
                said = reason;
            }
            forget_connection(&self.client, &error);
            retry.fail(&error);
            retry.wait().await;
        }
    }
}

/// Read the kubeconfig anew for the next request, if that may help.
fn forget_connection(client: &DrainClient, error: &ClusterError) {
    if error.is_about_the_connection() {
        client.forget_client();
    }
}

/// One drain of the Node.
struct NodeDrain {
    client: DrainClient,
    rules: DrainSettings,
    events: UnboundedSender<SourceEvent>,
    target: ConfigRef,
}

impl NodeDrain {
    /// Drain until no pod is left that has to go, or the time is over.
    async fn run(self) -> SourceEvent {
        let began = Instant::now();
        let mut reported = None;
        loop {
            let waits_for = match self.round().await {
                Ok(None) => return SourceEvent::Drained(self.target),
                Ok(Some(waits_for)) => waits_for,
                Err(error) => {
                    forget_connection(&self.client, &error);
                    chain(&error)
                }
            };
            self.report(&waits_for, &mut reported);
            sleep(LOOK_AGAIN).await;
            if began.elapsed() >= self.rules.timeout() {
                return SourceEvent::DrainGivenUp(self.target, waits_for);
            }
        }
    }

    fn report(&self, waits_for: &str, reported: &mut Option<String>) {
        if reported.as_deref() != Some(waits_for) {
            *reported = Some(waits_for.to_owned());
            let event = SourceEvent::DrainWaits(self.target.clone(), waits_for.to_owned());
            drop(self.events.send(event));
        }
    }

    /// Cordon the Node, and evict each pod that has to go; returns the reason to wait, or nothing once the Node is drained.
    async fn round(&self) -> Result<Option<String>, ClusterError> {
        self.client.cordon(&self.target.config).await?;
        let mut waits = Vec::new();
        for pod in self.client.pods().await? {
            match pod.treatment(&self.rules) {
                PodTreatment::Leave => {}
                PodTreatment::AwaitEnd => waits.push(ends(&pod)),
                PodTreatment::AwaitOperator(reason) => waits.insert(0, format!("{pod}, which {reason}")),
                PodTreatment::Evict => match self.client.evict(&pod).await {
                    Ok(EvictionAnswer::Accepted) => waits.push(ends(&pod)),
                    Ok(EvictionAnswer::Refused(reason)) => waits.insert(0, format!("{pod}: {reason}")),
                    Err(error)
                        if error.is_about_the_connection() && !matches!(error, ClusterError::Denied(_)) =>
                    {
                        return Err(error);
                    }
                    // An error of this pod, such as two budgets or an admission webhook: the others are evicted.
                    Err(error) => waits.insert(0, format!("{pod}: {}", chain(&error))),
                },
            }
        }
        let unnamed = waits.len().saturating_sub(NAMED);
        waits.truncate(NAMED);
        let more = if unnamed == 0 { String::new() } else { format!("; and {unnamed} more") };
        Ok((!waits.is_empty()).then(|| format!("the pods {}{more}", waits.join("; "))))
    }
}

fn ends(pod: &NodePod) -> String {
    format!("{pod}, which is ending")
}

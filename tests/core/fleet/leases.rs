//! Model of an API server that has the Leases of a lock: each write needs the present version, and nothing expires by itself.

use std::collections::BTreeSet;
use std::time::Duration;

use flameholder::core::daemon::grant::SlotRequest;
use flameholder::core::daemon::grant::leases::{
    LeaseGroup, LeaseSightings, LeaseStep, SlotLease, lease_duration,
};

use super::model::Mutation;

const GROUP: &str = "g";

/// The Leases, and the states of the Nodes.
#[derive(Debug, Default)]
pub(super) struct LeaseServer {
    slots: u16,
    leases: Vec<SlotLease>,
    writes: u64,
    /// Nodes that are not Ready.
    pub(super) down: BTreeSet<String>,
    /// Nodes that were removed from the cluster.
    pub(super) gone: BTreeSet<String>,
}

/// Host that sends a request.
#[derive(Debug)]
pub(super) struct LeaseClient<'a> {
    pub(super) node: &'a str,
    pub(super) sightings: &'a mut LeaseSightings,
    /// Time since the host booted.
    pub(super) uptime: Duration,
    pub(super) mutation: Option<Mutation>,
}

impl LeaseServer {
    pub(super) fn new(slots: usize) -> Self {
        Self { slots: u16::try_from(slots).unwrap(), ..Self::default() }
    }

    pub(super) fn holds(&self, node: &str) -> bool {
        self.leases.iter().any(|lease| lease.holder.as_deref() == Some(node))
    }

    pub(super) fn held(&self) -> usize {
        self.leases.iter().filter(|lease| lease.holder.is_some()).count()
    }

    pub(super) fn request(&mut self, client: LeaseClient<'_>, request: SlotRequest) -> Result<(), String> {
        match request {
            SlotRequest::Acquire => self.acquire(client),
            SlotRequest::Release => {
                self.write(client.node, None);
                Ok(())
            }
        }
    }

    /// Renew the Lease of a node, if it has one.
    pub(super) fn renew(&mut self, node: &str) {
        self.write(node, Some(node));
    }

    fn write(&mut self, from: &str, to: Option<&str>) {
        for lease in self.leases.iter_mut().filter(|lease| lease.holder.as_deref() == Some(from)) {
            self.writes += 1;
            lease.version = self.writes.to_string();
            lease.holder = to.map(str::to_owned);
        }
    }

    fn acquire(&mut self, client: LeaseClient<'_>) -> Result<(), String> {
        let LeaseClient { node, sightings, uptime, mutation } = client;
        let group = LeaseGroup { name: GROUP, slots: self.slots, node };
        sightings.note(&self.leases, uptime);
        let (mut seen, mut now) = (self.leases.clone(), uptime);
        if mutation == Some(Mutation::NoExpiry) {
            for lease in &mut seen {
                lease.duration = Duration::ZERO;
            }
            now += Duration::from_secs(1);
        }
        let mut passed_over = BTreeSet::new();
        loop {
            let name = match group.next_step(&seen, sightings, now, &passed_over) {
                LeaseStep::Refuse(reason) => return Err(reason),
                LeaseStep::Create(name) => {
                    let empty = SlotLease {
                        name: name.clone(),
                        holder: None,
                        version: String::new(),
                        duration: Duration::ZERO,
                    };
                    self.leases.push(empty);
                    name
                }
                LeaseStep::TakeOver { lease, holder } => {
                    let is_down = self.down.contains(&holder) && !self.gone.contains(&holder);
                    if is_down && mutation != Some(Mutation::TakeFromTheDead) {
                        passed_over.insert(lease.name);
                        continue;
                    }
                    lease.name
                }
                LeaseStep::Take(lease) | LeaseStep::Renew(lease) => lease.name,
            };
            self.writes += 1;
            let lease = self.leases.iter_mut().find(|lease| lease.name == name).unwrap();
            lease.holder = Some(node.to_owned());
            lease.version = self.writes.to_string();
            lease.duration = lease_duration(Some(1));
            return Ok(());
        }
    }
}

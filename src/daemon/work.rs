//! What is done to the host for the daemon, one thing at a time and each in a process of its own: the daemon idles for
//! months, and keeps neither what a change needs in memory nor what it leaves behind. It dies, the daemon does not.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::core::config::machine_configuration;
use crate::core::config::managed_files;
use crate::core::config::policy::DisruptionPolicy;
use crate::core::config::settings::DriftPolicy;
use crate::core::daemon::lifecycle::{
    BlockedConfig, BootCheckState, ConfigRef, DaemonEvent, HostObservation, PreparedUpdate,
};
use crate::core::state::boot_check;
use crate::core::state::boot_check::complaint;
use crate::core::state::pending::PendingGeneration;
use crate::core::values::causes::first_of;
use crate::core::values::profile::Profile;
use crate::host::facts::booted::BootedDeployment;
use crate::host::systemd::logind::LogindReboot;
use crate::host::systemd::reboot_port;
use crate::host::systemd::reboot_port::{InhibitorLock, InhibitorPolicy, RebootControl as _, RebootError};
use crate::host::{Root, SystemdServices};
use crate::os::Sysroot;
use crate::os::protocol::Access;
use crate::source::Delivery;
use crate::transaction::TransactionError;
use crate::transaction::boot::staged_deployment;
use crate::transaction::boot::staged_deployment::Settlement;
use crate::transaction::handover;
use crate::transaction::plan::target::{Errand, Site, Target};
use crate::transaction::state::current::{Configuration, Current};
use crate::transaction::state::{blocked, pending, status_files};
use crate::transaction::update::repair::repair;
use crate::transaction::update::{running_host, sysroot};

use crate::daemon::problem;

/// Whoever makes this has what is wanted applied whatever was held or deviates, and over a reboot (the reference's path).
pub(super) const FORCE: &str = "/run/machine-config-daemon-force";
/// How long those who block a reboot are waited for at a time; what is wanted may change meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many deviating paths are named.
const NAMED: usize = 5;

/// Opens sessions on the sysroot that runs.
pub type Open<'a> = &'a mut dyn FnMut(Access) -> Result<Box<dyn Sysroot>, TransactionError>;

/// What is to be done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Job {
    Look,
    Prepare(ConfigRef),
    Apply(ConfigRef),
    Arm(ConfigRef),
    Reboot {
        target: ConfigRef,
        /// Whether those who block it are overruled.
        insists: bool,
    },
    Verify,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Finished {
    pub(super) event: DaemonEvent,
    /// What else was found out.
    pub(super) found: Option<Found>,
}

/// What the host was found to be.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Found {
    /// The paths that are managed.
    pub(super) managed: BTreeSet<PathBuf>,
    /// How many packages somebody else asked for.
    pub(super) unsupported_packages: usize,
}

/// What such a process is told, in one line; the bytes of a delivery follow.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) job: Job,
    pub(super) profile: Profile,
    /// How many bytes the configuration has; none where what was applied last is meant.
    pub(super) document: usize,
    /// How many bytes the policy has that follows it.
    pub(super) policy: Option<usize>,
}

/// Does what is ordered, and says what came of it.
pub fn run(open: Open<'_>, input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<()> {
    // Whoever ordered it settles what is left, should they start again.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let mut line = String::new();
    input.read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line)?;
    let mut bytes = |length: usize| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        input.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    let document = bytes(order.document)?;
    let delivery = Delivery { document, policy: order.policy.map(bytes).transpose()? };
    let mut host = Host { open, profile: order.profile };
    serde_json::to_writer(&mut *output, &host.perform(&order.job, &delivery))?;
    output.flush()
}

/// The host, as far as it is worked on.
struct Host<'a> {
    open: Open<'a>,
    profile: Profile,
}

impl Host<'_> {
    fn perform(&mut self, job: &Job, delivery: &Delivery) -> Finished {
        let mut found = None;
        let event = match job {
            Job::Look => self.look().map(DaemonEvent::Observed),
            Job::Prepare(wish) => self.prepare(wish, delivery).map(DaemonEvent::Prepared),
            Job::Apply(wish) => self.apply(wish, delivery).map(|()| DaemonEvent::Applied),
            Job::Arm(wish) => self.arm(wish).map(|()| DaemonEvent::Unlocked),
            Job::Reboot { target, insists } => reboot(target, *insists),
            Job::Verify => self.verify(&mut found),
        };
        let event = event.unwrap_or_else(|error| DaemonEvent::Failed(problem::of(&error)));
        Finished { event, found }
    }

    fn session(&mut self, access: Access) -> Result<Box<dyn Sysroot>, TransactionError> {
        (self.open)(access)
    }

    fn look(&mut self) -> Result<HostObservation, TransactionError> {
        let booted = booted()?;
        let settlement = staged_deployment::settle(&booted, &mut |access| self.session(access))?;
        let root = Root::open(Path::new("/"))?;
        let record = Current::load_record(&root)?;
        let vain_reboot = match &settlement {
            Settlement::StagedAgain(_, failure) => Some(failure.reason.clone()),
            Settlement::Waits(pending) => {
                pending.intent.failures.last().map(|failure| failure.reason.clone())
            }
            _ => None,
        };
        let standing = match settlement {
            Settlement::OnProbation(pending) => {
                let report = status_files::HEALTH
                    .load(&root)
                    .filter(|report| report.generation.as_deref() == Some(pending.generation()));
                let complaint = report.as_ref().and_then(|report| complaint(&report.findings));
                match (report.map(|report| report.phase), complaint) {
                    (Some(boot_check::HealthPhase::Unhealthy), Some(complaint)) => {
                        BootCheckState::Unhealthy { complaint }
                    }
                    (_, complaint) => BootCheckState::Unconfirmed { complaint },
                }
            }
            _ => BootCheckState::Confirmed,
        };
        let wish = |config: &str, hash: &str, image: Option<&String>| ConfigRef {
            config: config.to_owned(),
            image: image.cloned(),
            digest: Some(hash.to_owned()),
        };
        Ok(HostObservation {
            runs: record
                .map(|record| wish(&record.config, &record.config_hash, record.layered_image.as_ref())),
            standing,
            held: blocked::load(&root)?.map(|held| BlockedConfig {
                wish: wish(&held.config, &held.config_hash, None),
                reason: held.reason,
            }),
            is_forced: is_forced(),
            vain_reboot,
        })
    }

    fn prepare(&mut self, wish: &ConfigRef, delivery: &Delivery) -> Result<PreparedUpdate, TransactionError> {
        handover::ensure_alone()?;
        let mut os = self.session(Access::Stage)?;
        let is_forced = is_forced();
        if !is_forced {
            ensure_as_applied(&mut *os)?;
        }
        let errand = if is_forced { Errand::Forced } else { Errand::Update };
        let prepared = self.with_target(wish, delivery, errand, |booted, target| {
            running_host::prepare(&mut *os, booted, target, &mut |_| {})
        })?;
        Ok(match prepared {
            running_host::Prepared::Nothing { .. } => PreparedUpdate::Nothing,
            running_host::Prepared::Ready { plan } => {
                log_actions(wish, &plan);
                PreparedUpdate::Live { drain: plan.disruption.drain }
            }
            running_host::Prepared::Staged { plan, .. } => {
                if let Some(plan) = &plan {
                    log_actions(wish, plan);
                }
                if is_forced {
                    // It is kept that it was asked for: what is staged boots.
                    forget_force();
                }
                PreparedUpdate::Staged
            }
        })
    }

    fn apply(&mut self, wish: &ConfigRef, delivery: &Delivery) -> Result<(), TransactionError> {
        let mut os = self.session(Access::Stage)?;
        self.with_target(wish, delivery, Errand::Update, |booted, target| {
            running_host::apply(&mut *os, &SystemdServices::system(), booted, target, &mut |_| {})
        })?;
        Ok(())
    }

    fn with_target<T>(
        &self,
        wish: &ConfigRef,
        delivery: &Delivery,
        errand: Errand<'_>,
        act: impl FnOnce(&BootedDeployment, Target<'_>) -> Result<T, TransactionError>,
    ) -> Result<T, TransactionError> {
        let desired = wanted(&delivery.document)?.layered(wish.image.clone());
        let policy = delivery.policy.as_deref().map(machine_configuration::parse_policy).transpose()?;
        let policy = policy.unwrap_or_else(DisruptionPolicy::default);
        let booted = booted()?;
        let target = Target {
            site: Site::Running(&booted),
            desired: &desired,
            image: None,
            errand,
            profile: self.profile,
            policy: &policy,
        };
        act(&booted, target)
    }

    fn arm(&mut self, wish: &ConfigRef) -> Result<(), TransactionError> {
        let pending = staged(wish)?;
        staged_deployment::arm(&mut *self.session(Access::Stage)?, &SystemdServices::system(), &pending)
    }

    fn verify(&mut self, found: &mut Option<Found>) -> Result<DaemonEvent, TransactionError> {
        let root = Root::open(Path::new("/"))?;
        running_host::clear(&booted()?, &mut |access| self.session(access))?;
        let mut os = self.session(Access::Read)?;
        let booted = os.deployments()?.into_iter().find(|deployment| deployment.booted);
        *found = Some(Found {
            managed: managed_paths(&Current::load(&root)?),
            unsupported_packages: booted.map_or(0, |booted| booted.layering.unsupported()),
        });
        let mut verified = sysroot::verify_running(&mut *os)?;
        if verified.deviations.iter().any(|found| found.policy == DriftPolicy::Repair) {
            for drift in &repair(&root)?.repaired {
                log::warn!("{} is made good: it was not as it was applied", drift.path);
            }
            verified = sysroot::verify_running(&mut *os)?;
        }
        Ok(if verified.deviates() {
            let reason = format!(
                "the host is not as it was applied: {}; see `flameholder verify`, put that back, or have it applied anew with a reboot: touch {FORCE}",
                first_of(&verified.paths(), NAMED)
            );
            DaemonEvent::Drifted { reason }
        } else {
            DaemonEvent::Verified
        })
    }
}

/// What is staged for the wish.
fn staged(wish: &ConfigRef) -> Result<PendingGeneration, TransactionError> {
    let pending = pending::load(&Root::open(Path::new("/"))?)?;
    let pending = pending.filter(|pending| pending.intent.record.config == wish.config);
    pending.ok_or_else(|| TransactionError::NotStaged(wish.config.clone()))
}

fn reboot(wish: &ConfigRef, insists: bool) -> Result<DaemonEvent, TransactionError> {
    let insist = if insists { InhibitorPolicy::OverruleAfterDeadline } else { InhibitorPolicy::Obey };
    let request = reboot_port::RebootRequest {
        reason: format!("flameholder: {} becomes generation {}", wish.config, staged(wish)?.generation()),
        patience: if insists { Duration::ZERO } else { PATIENCE },
        insist,
    };
    match LogindReboot::system().reboot(&request, &mut |_| {}) {
        Ok(_) => Ok(DaemonEvent::RebootAccepted),
        Err(RebootError::Inhibited { by, .. }) => {
            let by: Vec<String> = by.iter().map(InhibitorLock::to_string).collect();
            Ok(DaemonEvent::Inhibited { by: by.join(", ") })
        }
        Err(error) => Err(error.into()),
    }
}

/// What is delivered; what was applied last where nothing is.
fn wanted(document: &[u8]) -> Result<Configuration, TransactionError> {
    if !document.is_empty() {
        return Ok(Configuration::parse(document)?);
    }
    let applied = Current::load(&Root::open(Path::new("/"))?)?.configuration;
    applied.ok_or_else(|| TransactionError::NoGeneration("/".to_owned()))
}

fn booted() -> Result<BootedDeployment, TransactionError> {
    BootedDeployment::look()?.ok_or_else(|| TransactionError::NoDeployment("/".to_owned()))
}

fn is_forced() -> bool {
    Path::new(FORCE).exists()
}

fn forget_force() {
    if let Err(error) = std::fs::remove_file(FORCE) {
        log::warn!("{FORCE} cannot be removed, and would force the next update too: {error}");
    }
}

/// An update starts from what was applied: what somebody changed since would be lost, or decide what the update does.
fn ensure_as_applied(os: &mut dyn Sysroot) -> Result<(), TransactionError> {
    match sysroot::verify_running(os) {
        Ok(verified) if verified.deviates() => Err(TransactionError::Deviates(verified.paths())),
        // Nothing was applied yet, or somebody else did it.
        Ok(_) | Err(TransactionError::NoGeneration(_) | TransactionError::Foreign(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Everything that somebody might touch.
fn managed_paths(current: &Current) -> BTreeSet<PathBuf> {
    let paths = current.host().map(managed_files::written_paths).unwrap_or_default();
    paths.iter().map(|path| PathBuf::from(path.as_str())).collect()
}

fn log_actions(wish: &ConfigRef, plan: &crate::core::plan::Plan) {
    for required in &plan.disruption.actions {
        log::info!("{}: {:?}, because {}", wish.config, required.action, required.because.join("; "));
    }
}

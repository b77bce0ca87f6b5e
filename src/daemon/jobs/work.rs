//! Work on the host for the daemon: observe, prepare, apply, unlock, reboot, verify. Each job is a process of
//! its own (`flameholder work`), so that memory and crashes of a change do not stay with the daemon, which
//! idles for months.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::core::config::host_config::FORCE_FILE;
use crate::core::config::{machine_configuration, managed_files};
use crate::core::daemon::lifecycle::{
    BlockedConfig, BootCheckState, ConfigRef, DaemonEvent, HostObservation,
};
use crate::core::history::update_phases::last_update;
use crate::core::plan::remaining_work::{LiveDisruption, RemainingWork};
use crate::core::state::pending::PendingGeneration;
use crate::core::values::causes::first_of;
use crate::core::values::names::ManagedPath;
use crate::core::values::profile::Profile;
use crate::daemon::jobs::boot_check_state::unconfirmed_state;
use crate::daemon::jobs::drift_work::{compare_and_repair, ensure_no_drift};
use crate::daemon::jobs::force_file::{is_forced, remove_force_file};
use crate::daemon::jobs::generation_figures::{DeploymentRole, GenerationFigures, own_generations};
use crate::daemon::jobs::work_job::{WorkJob, WorkRequest};
use crate::daemon::jobs::work_result::{HostFacts, JobFindings, WorkResult};
use crate::daemon::jobs::{notify_work, pin_work, problem, reboot_attempt, trust_work};
use crate::host::facts::boot;
use crate::host::{LockedHost, RunningHost, SystemdServices};
use crate::os::Sysroot;
use crate::os::protocol::SysrootAccess;
use crate::transaction::boot::pending_recovery;
use crate::transaction::boot::pending_recovery::PendingRecovery;
use crate::transaction::plan::host_origin::HostOrigin;
use crate::transaction::plan::target::{TargetSysroot, UpdateProgress, UpdatePurpose, UpdateTarget};
use crate::transaction::state::current::{CurrentState, DecodedConfig};
use crate::transaction::state::error::StateError;
use crate::transaction::state::settings::settings_or_default;
use crate::transaction::state::unconfirmed_mark::{MarkState, mark_state};
use crate::transaction::state::{blocked, boot_check_time, pending, status_files};
use crate::transaction::update::error::UpdateError;
use crate::transaction::update::{running_host, stage, sysroot};
use crate::transaction::{SysrootOpener, TransactionError, grant, handover, history};

/// Paths that a message names.
pub(super) const NAMED: usize = 5;

/// Config and policy of a request; an empty document for the current config.
struct ReceivedConfig {
    document: Vec<u8>,
    policy: Option<Vec<u8>>,
}

/// Read a request, carry out its job and write the result, a line of JSON, after any number of lines about its progress.
/// Errors of the job are part of the result.
pub fn run(open: SysrootOpener<'_>, input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<()> {
    // Ends with the daemon; the next daemon recovers an interrupted change.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let mut line = String::new();
    input.read_line(&mut line)?;
    let request: WorkRequest = serde_json::from_str(&line)?;
    let mut bytes = |length: usize| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        input.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    let document = bytes(request.document)?;
    let delivery = ReceivedConfig { document, policy: request.policy.map(bytes).transpose()? };
    let WorkRequest { profile, is_in_cluster, .. } = request;
    let mut ports = WorkPorts { open, profile, is_in_cluster };
    let mut progress = |event| {
        let line = serde_json::to_vec(&WorkResult::of_progress(event)).unwrap_or_default();
        // Without its reader, the daemon, this process ends as well.
        drop(output.write_all(&line).and_then(|()| output.write_all(b"\n")).and_then(|()| output.flush()));
    };
    let result = ports.perform(&request.job, &delivery, &mut progress);
    serde_json::to_writer(&mut *output, &result)?;
    output.write_all(b"\n")?;
    output.flush()
}

/// Ports of a job: sessions on the sysroot, the profile of its changes, and whether the host is a cluster's node.
struct WorkPorts<'a> {
    open: SysrootOpener<'a>,
    profile: Profile,
    is_in_cluster: bool,
}

impl WorkPorts<'_> {
    fn perform(
        &mut self,
        job: &WorkJob,
        delivery: &ReceivedConfig,
        progress: &mut dyn FnMut(DaemonEvent),
    ) -> WorkResult {
        let mut findings = JobFindings::default();
        let running = RunningHost::open().map_err(TransactionError::from);
        let running =
            running.and_then(|host| host.ok_or_else(|| StateError::NoDeployment("/".to_owned()).into()));
        let event = running.and_then(|host| match job {
            WorkJob::Observe { releases_block } => {
                self.observe(&host, *releases_block, &mut findings).map(DaemonEvent::Observed)
            }
            WorkJob::Prepare { desired, held_back } => {
                let remaining = self.prepare(&host, desired, held_back, delivery, &mut findings)?;
                Ok(if grant::is_demanded(&host) {
                    DaemonEvent::PreparedUnderPolicy(remaining)
                } else {
                    DaemonEvent::Prepared(remaining)
                })
            }
            WorkJob::RequestGrant(target) => Ok(match grant::request(&host, target)? {
                None => DaemonEvent::Granted,
                Some(delay) => DaemonEvent::GrantDelayed(delay),
            }),
            WorkJob::EndGrant { is_confirmed } => {
                grant::end(&host, *is_confirmed).map(|()| DaemonEvent::GrantEnded)
            }
            WorkJob::Apply(desired) => self.apply(&host, desired, delivery).map(|()| DaemonEvent::Applied),
            WorkJob::Unlock(desired) => self.unlock(&host, desired).map(|()| DaemonEvent::Unlocked),
            WorkJob::Reboot { target, waited } => {
                grant::ensure_held(&host, target)?;
                let reboots = settings_or_default(&host.root).reboot;
                let reason = pending_for(&host, target)?.reboot_reason();
                reboot_attempt::reboot(reason, reboots.time_to_overrule(*waited, self.is_in_cluster))
            }
            WorkJob::Verify { held_back } => self.verify(&host, held_back, &mut findings),
            WorkJob::ApplyTrust(version) => {
                trust_work::apply(&host, version.clone(), &delivery.document, self.profile)
            }
            WorkJob::RestartKubelet => trust_work::restart_kubelet(&host),
            WorkJob::PullImages => pin_work::pull(&host, &delivery.document, progress),
            WorkJob::Notify { phase, config } => {
                notify_work::notify(&host.root, phase, config.as_ref());
                Ok(DaemonEvent::HooksNotified)
            }
            WorkJob::PinImages => pin_work::pin(&host, &delivery.document),
        });
        let is_os_work = matches!(job, WorkJob::Prepare { .. } | WorkJob::Unlock(_));
        findings.is_os_failure = is_os_work && event.as_ref().is_err_and(problem::is_os_failure);
        let event = event.unwrap_or_else(|error| DaemonEvent::Failed(problem::problem_of(&error)));
        WorkResult { event, findings, is_progress: false }
    }

    fn session(&mut self, access: SysrootAccess) -> Result<Box<dyn Sysroot>, TransactionError> {
        (self.open)(access)
    }

    fn observe(
        &mut self,
        host: &RunningHost,
        releases_block: bool,
        findings: &mut JobFindings,
    ) -> Result<HostObservation, TransactionError> {
        let report = status_files::BOOT_CHECK.load(&host.root);
        findings.boot_check = report.map(|report| report.findings).unwrap_or_default();
        let locked = host.lock()?;
        let recovery = pending_recovery::recover_pending(&locked, &mut |access| self.session(access))?;
        if releases_block {
            blocked::release(&locked)?;
            findings.has_released_block = true;
        }
        let blocked = blocked::load_or_set_aside(&locked)?;
        drop(locked);
        let root = &host.root;
        let record = CurrentState::load_record(root)?;
        let finalize_failure = match &recovery {
            PendingRecovery::Restaged(_, failure) => Some(failure.reason.clone()),
            PendingRecovery::AwaitsReboot(pending) => {
                pending.staged.failures.last().map(|failure| failure.reason.clone())
            }
            _ => None,
        };
        let boot_check = match recovery {
            PendingRecovery::Unconfirmed(pending) => unconfirmed_state(host, Some(pending.generation())),
            PendingRecovery::RollingBack(_, reason) => BootCheckState::RollingBack { reason },
            // Its pending record is lost, or was replaced by that of the next generation.
            _ if mark_state(root, &host.booted.deployment) == MarkState::Unconfirmed => {
                unconfirmed_state(host, record.as_ref().map(|record| &record.generation))
            }
            _ => BootCheckState::Confirmed,
        };
        if matches!(boot_check, BootCheckState::Unconfirmed { .. }) {
            findings.boot_check_left = boot_check_time::time_left(host).map(|left| left.as_secs());
        }
        Ok(HostObservation {
            current: record.as_ref().map(ConfigRef::of),
            boot_check,
            blocked: blocked.map(|blocked| BlockedConfig {
                desired: ConfigRef::of_blocked(&blocked),
                reason: blocked.reason,
            }),
            is_forced: is_forced(),
            finalize_failure,
        })
    }

    fn prepare(
        &mut self,
        host: &RunningHost,
        desired: &ConfigRef,
        held_back: &BTreeSet<ManagedPath>,
        delivery: &ReceivedConfig,
        findings: &mut JobFindings,
    ) -> Result<RemainingWork, TransactionError> {
        handover::ensure_mcd_stopped()?;
        let mut os = self.session(SysrootAccess::Stage)?;
        let is_forced = is_forced();
        if !is_forced {
            ensure_no_drift(&mut *os, host, held_back, findings)?;
        }
        let purpose = if is_forced { UpdatePurpose::Forced } else { UpdatePurpose::Update };
        let image_bytes = &mut findings.image_bytes;
        let mut progress = |progress| {
            if let UpdateProgress::Pulling(pull) = progress {
                *image_bytes = pull.bytes_done.max(*image_bytes);
            }
        };
        self.with_target(host, desired, delivery, purpose, |host, target| {
            Ok(match running_host::prepare(&mut *os, host, target, &mut progress)? {
                RemainingWork::Nothing => RemainingWork::Nothing,
                RemainingWork::Live(update) => {
                    log_actions(desired, update.plan());
                    RemainingWork::Live(LiveDisruption { drain: update.plan().disruption.drain })
                }
                RemainingWork::Reboot(staged) => {
                    if let Some(plan) = &staged.plan {
                        log_actions(desired, plan);
                    }
                    if is_forced {
                        // Consumed: the staged deployment carries the forced update from here on.
                        remove_force_file();
                    }
                    let record = &staged.pending.staged.record;
                    findings.staged = Some(GenerationFigures::of(record, DeploymentRole::Staged));
                    RemainingWork::Reboot(())
                }
            })
        })
    }

    fn apply(
        &mut self,
        host: &RunningHost,
        desired: &ConfigRef,
        delivery: &ReceivedConfig,
    ) -> Result<(), TransactionError> {
        grant::ensure_held(host, desired)?;
        let mut os = self.session(SysrootAccess::Stage)?;
        self.with_target(host, desired, delivery, UpdatePurpose::Update, |host, target| {
            match running_host::prepare(&mut *os, host, target, &mut |_| {})? {
                RemainingWork::Live(update) => drop(update.apply(&SystemdServices::system(), host)?),
                // An operator has applied it since the preparation.
                RemainingWork::Nothing => {}
                // It is staged now. An update that is prepared again gets the grant and the drain of a reboot.
                RemainingWork::Reboot(_) => {
                    return Err(UpdateError::NotLiveAnyMore(desired.config.clone()).into());
                }
            }
            Ok(())
        })
    }

    fn with_target<T>(
        &self,
        host: &RunningHost,
        desired: &ConfigRef,
        delivery: &ReceivedConfig,
        purpose: UpdatePurpose<'_>,
        act: impl FnOnce(&LockedHost<'_>, UpdateTarget<'_>) -> Result<T, TransactionError>,
    ) -> Result<T, TransactionError> {
        let configuration = desired_configuration(host, &delivery.document)?.layered(desired.image.clone());
        let policy = delivery.policy.as_deref().map(machine_configuration::parse_policy).transpose()?;
        let target = UpdateTarget {
            sysroot: TargetSysroot::Running(host),
            desired: &configuration,
            image: None,
            purpose,
            profile: self.profile,
            policy: policy.as_ref(),
        };
        act(&host.lock()?, target)
    }

    fn unlock(&mut self, host: &RunningHost, desired: &ConfigRef) -> Result<(), TransactionError> {
        let pending = pending_for(host, desired)?;
        grant::ensure_held(host, desired)?;
        let mut os = self.session(SysrootAccess::Stage)?;
        stage::unlock(&mut *os, &SystemdServices::system(), &host.lock()?, &pending)
    }

    fn verify(
        &mut self,
        host: &RunningHost,
        held_back: &BTreeSet<ManagedPath>,
        findings: &mut JobFindings,
    ) -> Result<DaemonEvent, TransactionError> {
        let locked = host.lock()?;
        running_host::unstage_leftover(&locked, &mut |access| self.session(access))?;
        findings.has_released_block = blocked::release_former(&locked)?;
        drop(locked);
        let mut os = self.session(SysrootAccess::Read)?;
        let deployments = os.deployments()?;
        let booted = deployments.iter().find(|found| sysroot::is_booted(found, &host.booted));
        findings.facts = Some(HostFacts {
            began: SystemTime::now(),
            managed: managed_paths(&CurrentState::load(&host.root)?),
            unsupported_packages: booted.map_or(0, |booted| booted.layering.unsupported()),
            generations: own_generations(deployments, host),
            origin: HostOrigin::load(&host.root),
            // The history is informative: one that cannot be read fails no verification.
            update: last_update(&history::load(&host.root).unwrap_or_default().entries, &boot::boot_id(0)),
        });
        let verified = compare_and_repair(&mut *os, host, held_back, findings)?;
        let blocking = verified.blocking();
        Ok(if blocking.is_empty() {
            if verified.has_drift() {
                log::warn!(
                    "drift where users other than root can write: {}; see `flameholder verify`",
                    first_of(&verified.counting(), NAMED)
                );
            }
            DaemonEvent::Verified
        } else {
            let advice = if verified.undone_by_update().is_empty() {
                "correct `fips` in the config, or reinstall the host".to_owned()
            } else {
                format!(
                    "see `flameholder verify`, restore the files, or apply the config again with a reboot: touch {FORCE_FILE}"
                )
            };
            let reason = format!("config drift: {}; {advice}", first_of(&blocking, NAMED));
            DaemonEvent::Drifted { reason }
        })
    }
}

/// Load the pending generation of the desired config.
fn pending_for(host: &RunningHost, desired: &ConfigRef) -> Result<PendingGeneration, TransactionError> {
    let pending = pending::load(&host.root)?;
    // A name alone does not tell two contents apart: a file of a directory keeps its name when it is edited.
    let pending = pending.filter(|pending| ConfigRef::of(&pending.staged.record).is_same(desired));
    pending.ok_or_else(|| UpdateError::ConfigNotStaged(desired.config.clone()).into())
}

/// Decode the fetched config; load the current config from disk if none was fetched.
fn desired_configuration(host: &RunningHost, document: &[u8]) -> Result<DecodedConfig, TransactionError> {
    if !document.is_empty() {
        return Ok(DecodedConfig::parse(document)?);
    }
    let applied = CurrentState::load(&host.root)?.configuration;
    applied.ok_or_else(|| StateError::NoGeneration("/".to_owned()).into())
}

/// Collect the managed paths of the current config, which the daemon watches.
fn managed_paths(current: &CurrentState) -> BTreeSet<PathBuf> {
    let paths = current.host().map(managed_files::written_paths).unwrap_or_default();
    paths.iter().map(|path| PathBuf::from(path.as_str())).collect()
}

fn log_actions(desired: &ConfigRef, plan: &crate::core::plan::Plan) {
    for required in &plan.disruption.actions {
        let because = required.because.join("; ");
        let because = if because.is_empty() { because } else { format!(", because {because}") };
        log::info!("{}: {}{because}", desired.config, required.action);
    }
}

//! Implementation of the [`Sysroot`] port for a running host whose images and packages rpm-ostreed manages.

use std::path::Path;
use std::time::Instant;

use super::RpmOstreeDeadlines;
use super::daemon::RpmOstreeDaemon;
use super::progress_messages::{BusyNotice, TransactionProgress};
use super::request::LayerRequest;
use super::transaction::RpmOstreeOutcome;
use super::verdict::{FailedLayering, LayerVerdict, conclude};
use crate::core::etc_merge::SpecialFiles;
use crate::core::image_policy::SignatureVerdict;
use crate::core::plan::FetchSize;
use crate::core::values::backoff::RetryClass;
use crate::core::values::causes::chain;
use crate::core::values::identifiers::BootId;
use crate::core::values::image::ImageRef;
use crate::host::facts::boot;
use crate::host::interrupt_signals::InterruptSignals;
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::os::{
    DeployRequest, Deployment, DeploymentId, DeploymentOrigin, ImportRequest, ImportedCommit, OsError,
    PullPhase, PullProgress, RedactedCause, Sysroot, pull_secret, sysroot_lock,
};

/// libostree calls the running sysroot the same.
const SYSROOT: &str = "/";
/// Maximum number of transactions for one request.
const TRIES: u32 = 5;
/// First release whose version shows support for container images, including the RHEL 8 backports.
const KNOWS_IMAGES: (u32, u32) = (2022, 10);

/// Session that uses rpm-ostreed for images and packages and libostree for everything else. rpm-ostreed takes
/// libostree's lock, so the worker session ends before each transaction.
#[derive(Debug)]
pub struct RpmOstreeSession {
    program: WorkerProgram,
    interrupt: InterruptSignals,
    deadlines: RpmOstreeDeadlines,
    special_files: SpecialFiles,
    prunes_boot_early: bool,
    local: Option<(SysrootAccess, WorkerSession)>,
    /// Deployment staged by rpm-ostreed, which libostree is to stage again with the generation's kernel
    /// arguments.
    made: Option<DeploymentId>,
}

impl RpmOstreeSession {
    /// Open the sysroot with libostree. Does not call rpm-ostreed.
    pub fn open(
        program: WorkerProgram,
        interrupt: InterruptSignals,
        deadlines: RpmOstreeDeadlines,
        access: SysrootAccess,
    ) -> Result<Self, OsError> {
        let special_files = SpecialFiles::Refused;
        let mut session = Self {
            program,
            interrupt,
            deadlines,
            special_files,
            prunes_boot_early: false,
            local: None,
            made: None,
        };
        let local = session.local(access)?;
        let (special_files, prunes_boot_early) = (local.special_files(), local.prunes_boot_early());
        session.special_files = special_files;
        session.prunes_boot_early = prunes_boot_early;
        Ok(session)
    }

    /// Return the worker session, reopened if it has less than `access`.
    fn local(&mut self, access: SysrootAccess) -> Result<&mut WorkerSession, OsError> {
        let serves =
            self.local.as_ref().is_some_and(|(has, _)| *has == access || access == SysrootAccess::Read);
        if !serves {
            self.local = None;
        }
        let session = match self.local.take() {
            Some(session) => session,
            None => (access, self.open_waiting_for_lock(access)?),
        };
        Ok(&mut self.local.insert(session).1)
    }

    /// Open the sysroot and wait if it is locked: rpm-ostreed finishes a transaction even after its client
    /// has exited.
    fn open_waiting_for_lock(&self, access: SysrootAccess) -> Result<WorkerSession, OsError> {
        let begun = Instant::now();
        match WorkerSession::open(&self.program, Path::new(SYSROOT), access) {
            Err(OsError::Busy { .. }) => {}
            opened => return opened,
        }
        match self.wait_for_daemon() {
            Err(error @ OsError::RpmOstreedBusy { .. }) => return Err(error),
            // Another program than rpm-ostreed may hold the lock.
            Err(error) => log::debug!("cannot ask rpm-ostreed if it holds the sysroot lock: {error}"),
            Ok(()) => {}
        }
        let left = self.deadlines.busy_timeout.saturating_sub(begun.elapsed());
        sysroot_lock::open_when_unlocked(&self.program, Path::new(SYSROOT), access, left)
    }

    fn wait_for_daemon(&self) -> Result<(), OsError> {
        let mut busy = BusyNotice::default();
        in_runtime(async {
            let daemon = RpmOstreeDaemon::connect(None, self.deadlines).await?;
            let finished = daemon.wait_until_idle(&mut |event| busy.log(&event)).await;
            daemon.disconnect().await;
            Ok(finished?)
        })
    }

    /// Find the image in the repository by its digest. One that has to be signed is pulled again: the
    /// repository does not tell if it was verified.
    fn find_imported(&mut self, image: &ImageRef) -> Result<Option<ImportedCommit>, OsError> {
        match image.digest().filter(|_| !self.program.demands_signature(image)) {
            Some(digest) => self.local(SysrootAccess::Read)?.find(digest),
            None => Ok(None),
        }
    }

    /// Fail unless the demanded signature of the image is verified: rpm-ostreed pulls through skopeo's proxy too.
    fn require_policy(&mut self, image: Option<&ImageRef>) -> Result<Option<SignatureVerdict>, OsError> {
        match image {
            Some(image) => self.local(SysrootAccess::Read)?.require_policy(image),
            None => Ok(None),
        }
    }

    /// Have rpm-ostreed stage a deployment, with retries. Returns the deployment, `None` if the booted one
    /// already satisfies the request, and the number of transactions.
    fn layer_with_retries(
        &mut self,
        request: &LayerRequest,
        progress: &mut dyn FnMut(PullProgress),
    ) -> Result<(Option<Deployment>, u32), OsError> {
        let mut transactions = 0;
        loop {
            // The worker's lock would block rpm-ostreed.
            self.local = None;
            let outcome = self.layer_once(request, progress)?;
            transactions += 1;
            let deployments = self.local(SysrootAccess::Read)?.deployments()?;
            match conclude(&outcome, request, &deployments) {
                LayerVerdict::Staged(deployment) => return Ok((Some(*deployment), transactions)),
                LayerVerdict::Unchanged => return Ok((None, transactions)),
                LayerVerdict::Retry(failed) if transactions < TRIES => {
                    let error = self.discard(failed)?;
                    let delay = RetryClass::Time
                        .backoff(transactions, boot::jitter())
                        .min(self.deadlines.max_poll_interval);
                    log::warn!("{error}; retrying", error = chain(&error));
                    std::thread::sleep(delay);
                }
                LayerVerdict::Retry(failed) | LayerVerdict::Failed(failed) => {
                    return Err(self.discard(failed)?);
                }
            }
        }
    }

    /// Discard the deployment that a failed transaction staged, with the image that no deployment has then: found by its
    /// digest, it would be deployed without the check that it failed.
    fn discard(&mut self, failed: FailedLayering) -> Result<OsError, OsError> {
        if let Some(staged) = &failed.staged {
            log::info!(
                "discarding the deployment {staged}, which a failed transaction of rpm-ostreed left staged"
            );
            let local = self.local(SysrootAccess::Stage)?;
            local.unstage(staged)?;
            local.clean_up()?;
        }
        Ok(failed.error)
    }

    fn layer_once(
        &self,
        request: &LayerRequest,
        progress: &mut dyn FnMut(PullProgress),
    ) -> Result<RpmOstreeOutcome, OsError> {
        let (mut pull, mut busy) = (TransactionProgress::nothing(), BusyNotice::default());
        let mut on_event = |event| {
            log::debug!(event:?; "rpm-ostreed");
            busy.log(&event);
            if let Some(step) = pull.update(&event) {
                progress(step);
            }
        };
        let mut guard = self.interrupt.guard();
        in_runtime(async {
            // One connection for each attempt: rpm-ostreed drops an earlier attempt's transaction when its
            // connection closes.
            let daemon = RpmOstreeDaemon::connect(None, self.deadlines).await?;
            let outcome = daemon.layer(request, &mut on_event, guard.interrupted()).await;
            daemon.disconnect().await;
            Ok(outcome?)
        })
    }

    /// Make the booted deployment the default boot entry where its packages matter: rpm-ostreed changes those of the default
    /// one. Another is the default after a choice in the boot menu, or a rollback of another program. Return that one.
    fn make_default(
        &mut self,
        request: &LayerRequest,
        booted: &Deployment,
        deployments: &[Deployment],
    ) -> Result<Option<DeploymentId>, OsError> {
        let stateroot = &booted.id.stateroot;
        let mut entries =
            deployments.iter().filter(|found| !found.staged && found.id.stateroot == *stateroot);
        let Some(first) = entries.next().filter(|first| first.id != booted.id) else { return Ok(None) };
        if request.image().is_some() && !first.is_layered() && !booted.is_layered() {
            return Ok(None);
        }
        log::warn!(
            "{} was to boot next; the booted deployment takes its place, which rpm-ostreed starts from",
            first.id
        );
        self.set_default(&booted.id)?;
        Ok(Some(first.id.clone()))
    }

    /// Return true if the booted rpm-ostreed supports container images, or if its version is unknown.
    fn knows_images(&mut self, booted: &Deployment) -> Result<bool, OsError> {
        let version = self.local(SysrootAccess::Read)?.package_version(&booted.id.commit, "rpm-ostree")?;
        Ok(version.as_deref().is_none_or(is_new_enough))
    }
}

/// Run a future on the current thread.
fn in_runtime<T>(work: impl Future<Output = Result<T, OsError>>) -> Result<T, OsError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| OsError::RpmOstreed(RedactedCause::new(&error.to_string())))?.block_on(work)
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= KNOWS_IMAGES
}

impl Sysroot for RpmOstreeSession {
    fn layers_packages(&self) -> bool {
        true
    }

    fn deployments(&mut self) -> Result<Vec<Deployment>, OsError> {
        self.local(SysrootAccess::Read)?.deployments()
    }

    fn import(
        &mut self,
        wanted: &ImportRequest,
        progress: &mut dyn FnMut(PullProgress),
    ) -> Result<ImportedCommit, OsError> {
        let deployments = self.deployments()?;
        let Some(booted) = deployments.iter().find(|deployment| deployment.booted).cloned() else {
            return Err(OsError::NotRunning { path: SYSROOT.into() });
        };
        // Pulling the image with libostree would drop layered packages, so rpm-ostreed has to do it if there
        // are any.
        let is_bare = wanted.packages.is_empty() && !booted.is_layered();
        let signature = self.require_policy(wanted.image.as_ref())?;
        if let Some(image) = &wanted.image {
            if let (true, Some(found)) = (is_bare, self.find_imported(image)?) {
                return Ok(found);
            }
            match (self.knows_images(&booted)?, is_bare) {
                (true, _) => {}
                (false, true) => {
                    log::warn!("this version of rpm-ostreed cannot deploy images; deploying with libostree");
                    return self.local(SysrootAccess::Stage)?.import(wanted, progress);
                }
                (false, false) => {
                    let text = "this version of rpm-ostreed cannot deploy images with layered packages; first update the OS without packages";
                    return Err(OsError::Packages { source: RedactedCause::new(text) });
                }
            }
        }
        pull_secret::link_cluster_secret()?;
        progress(PullProgress {
            phase: PullPhase::Manifest,
            layers_done: 0,
            layers: 0,
            bytes_done: 0,
            bytes: 0,
        });
        let request = LayerRequest::of(wanted, &booted);
        let former = self.make_default(&request, &booted, &deployments)?;
        let layered = self.layer_with_retries(&request, progress);
        if let (Err(_), Some(former)) = (&layered, former)
            && let Err(error) = self.set_default(&former)
        {
            log::warn!("{former} does not boot next any more: {error}", error = chain(&error));
        }
        let (made, transactions) = layered?;
        let staged = made.as_ref().map(|made| made.id.clone());
        self.made.clone_from(&staged);
        let deployment = made.unwrap_or(booted);
        Ok(ImportedCommit {
            commit: deployment.id.commit,
            manifest_digest: deployment.manifest_digest,
            version: deployment.version,
            signature,
            layers_fetched: 0,
            bytes_fetched: 0,
            staged,
            transactions,
        })
    }

    fn measure(&mut self, image: &ImageRef) -> Result<FetchSize, OsError> {
        self.local(SysrootAccess::Read)?.measure(image)
    }

    fn unpack(&mut self, image: &ImageRef, within: &Path, to: &Path) -> Result<(), OsError> {
        self.local(SysrootAccess::Read)?.unpack(image, within, to)
    }

    fn deploy(&mut self, _request: &DeployRequest) -> Result<Deployment, OsError> {
        Err(OsError::Running { path: SYSROOT.into() })
    }

    fn labels(&mut self, paths: &[(String, u32)]) -> Result<Vec<Option<String>>, OsError> {
        // A session that staged stays open, and knows its deployment.
        self.local(SysrootAccess::Read)?.labels(paths)
    }

    fn special_files(&self) -> SpecialFiles {
        self.special_files
    }

    fn prunes_boot_early(&self) -> bool {
        self.prunes_boot_early
    }

    fn check_out_etc(&mut self, commit: &str) -> Result<std::path::PathBuf, OsError> {
        self.local(SysrootAccess::Stage)?.check_out_etc(commit)
    }

    fn finish(&mut self) -> Result<(), OsError> {
        Err(OsError::Running { path: SYSROOT.into() })
    }

    fn set_default(&mut self, deployment: &DeploymentId) -> Result<(), OsError> {
        self.local(SysrootAccess::Stage)?.set_default(deployment)
    }

    fn set_pinned(&mut self, deployment: &DeploymentId, pinned: bool) -> Result<(), OsError> {
        self.local(SysrootAccess::Stage)?.set_pinned(deployment, pinned)
    }

    fn stage(&mut self, request: &DeployRequest, boot_id: &BootId) -> Result<Deployment, OsError> {
        let mut request = request.clone();
        if let Some(made) = self.made.clone().filter(|made| made.commit == request.commit) {
            // Keep the origin that rpm-ostreed wrote, which lists the packages.
            request.origin = DeploymentOrigin::Deployment(made.clone());
            request.replaces = Some(made);
        }
        let staged = self.local(SysrootAccess::Stage)?.stage(&request, boot_id)?;
        self.made = None;
        Ok(staged)
    }

    fn unlock(&mut self, staged: &DeploymentId) -> Result<(), OsError> {
        self.local(SysrootAccess::Stage)?.unlock(staged)
    }

    fn unstage(&mut self, staged: &DeploymentId) -> Result<(), OsError> {
        self.local(SysrootAccess::Stage)?.unstage(staged)?;
        self.made = None;
        Ok(())
    }

    fn clean_up(&mut self) -> Result<(), OsError> {
        self.local(SysrootAccess::Stage)?.clean_up()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_support_is_derived_from_the_version() {
        for (version, expected) in
            [("2022.10.99", true), ("2022.13", true), ("2026.2", true), ("2022.9", false), ("2021.14", false)]
        {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }
}

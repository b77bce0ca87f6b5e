//! The sysroot that runs, on a host whose images and packages are rpm-ostreed's.

use std::path::Path;
use std::time::{Duration, Instant};

use super::RpmOstreeDeadlines;
use super::daemon::RpmOstreeDaemon;
use super::messages::TransactionProgress;
use super::request::{LayerBase, LayerRequest};
use super::transaction::{RpmOstreeEvent, RpmOstreeOutcome};
use super::verdict::{LayerVerdict, conclude};
use crate::core::etc_merge::SpecialFiles;
use crate::core::values::backoff::RetryClass;
use crate::core::values::image::ImageRef;
use crate::host::facts::boot;
use crate::host::interrupt_signals::InterruptSignals;
use crate::os::protocol::SysrootAccess;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::os::{
    DeployRequest, Deployment, DeploymentId, DeploymentOrigin, ImportRequest, ImportedCommit, OsError,
    PullPhase, PullProgress, RedactedCause, Sysroot, pull_secret,
};

/// The sysroot that runs is called this, by libostree as well.
const SYSROOT: &str = "/";
/// How often the daemon is asked for one thing.
const TRIES: u32 = 5;
/// How long the lock is waited for while the daemon has nothing to do: it gives it back a moment after it has said that it
/// is done, and a worker whose caller was killed a moment after that.
const LOCK: Duration = Duration::from_secs(30);
const PACE: Duration = Duration::from_millis(100);
/// The first release that says of itself that it knows images, and those that it was added to for RHEL 8.
const KNOWS_IMAGES: (u32, u32) = (2022, 10);

/// A session that asks rpm-ostreed for images and packages, and libostree for everything else. The daemon takes libostree's
/// lock, so the session with libostree ends before it is asked.
#[derive(Debug)]
pub struct RpmOstreeSession {
    program: WorkerProgram,
    interrupt: InterruptSignals,
    deadlines: RpmOstreeDeadlines,
    special_files: SpecialFiles,
    local: Option<(SysrootAccess, WorkerSession)>,
    /// What the daemon staged and is to be staged anew.
    made: Option<DeploymentId>,
}

impl RpmOstreeSession {
    /// Opens the sysroot. The daemon is not asked yet.
    pub fn open(
        program: WorkerProgram,
        interrupt: InterruptSignals,
        deadlines: RpmOstreeDeadlines,
        access: SysrootAccess,
    ) -> Result<Self, OsError> {
        let special_files = SpecialFiles::Refused;
        let mut session = Self { program, interrupt, deadlines, special_files, local: None, made: None };
        session.special_files = session.local(access)?.special_files();
        Ok(session)
    }

    /// The session with libostree, with at least this access.
    fn local(&mut self, access: SysrootAccess) -> Result<&mut WorkerSession, OsError> {
        let serves =
            self.local.as_ref().is_some_and(|(has, _)| *has == access || access == SysrootAccess::Read);
        if !serves {
            self.local = None;
        }
        let session = match self.local.take() {
            Some(session) => session,
            None => (access, self.open_patiently(access)?),
        };
        Ok(&mut self.local.insert(session).1)
    }

    /// Whoever holds the lock is waited for: the daemon goes on with what a caller began that is gone since.
    fn open_patiently(&self, access: SysrootAccess) -> Result<WorkerSession, OsError> {
        let open = || WorkerSession::open(&self.program, Path::new(SYSROOT), access);
        match open() {
            Err(OsError::Busy { .. }) => {}
            opened => return opened,
        }
        match self.let_the_daemon_finish() {
            Err(error @ OsError::RpmOstreedBusy { .. }) => return Err(error),
            // It is not the daemon who holds it.
            Err(error) => log::debug!("rpm-ostreed cannot be waited for: {error}"),
            Ok(()) => {}
        }
        let end = Instant::now() + LOCK;
        loop {
            match open() {
                Err(OsError::Busy { .. }) if Instant::now() < end => std::thread::sleep(PACE),
                opened => return opened,
            }
        }
    }

    fn let_the_daemon_finish(&self) -> Result<(), OsError> {
        let mut waits = Waits::default();
        in_runtime(async {
            let daemon = RpmOstreeDaemon::connect(None, self.deadlines).await?;
            let finished = daemon.until_idle(&mut |news| waits.hear(&news)).await;
            daemon.leave().await;
            Ok(finished?)
        })
    }

    /// Has the daemon make a deployment; `None` where what runs is what is wanted already. Says how many transactions it
    /// took as well.
    fn ask(
        &mut self,
        mut request: LayerRequest,
        progress: &mut dyn FnMut(PullProgress),
    ) -> Result<(Option<Deployment>, u32), OsError> {
        let mut transactions = 0;
        loop {
            // Its lock would keep the daemon out.
            self.local = None;
            let outcome = self.ask_once(&request, progress)?;
            transactions += 1;
            let deployments = self.local(SysrootAccess::Read)?.deployments()?;
            match conclude(&outcome, &request, &deployments) {
                LayerVerdict::Staged(deployment) => return Ok((Some(*deployment), transactions)),
                LayerVerdict::Unchanged => return Ok((None, transactions)),
                LayerVerdict::Retry { without_driver, error } if transactions < TRIES => {
                    request.drives &= !without_driver;
                    let delay = RetryClass::Time.delay(transactions, boot::chance()).min(self.deadlines.pace);
                    let cause =
                        std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                    log::warn!("{error}: {cause}; it is asked again");
                    std::thread::sleep(delay);
                }
                LayerVerdict::Retry { error, .. } | LayerVerdict::Failed(error) => return Err(error),
            }
        }
    }

    fn ask_once(
        &self,
        request: &LayerRequest,
        progress: &mut dyn FnMut(PullProgress),
    ) -> Result<RpmOstreeOutcome, OsError> {
        let (mut heard, mut waits) = (TransactionProgress::nothing(), Waits::default());
        let mut news = |news| {
            log::debug!(news:?; "rpm-ostreed");
            waits.hear(&news);
            if let Some(step) = heard.hear(&news) {
                progress(step);
            }
        };
        let mut care = self.interrupt.guard();
        in_runtime(async {
            // A connection for each: what an earlier one had begun goes with it.
            let daemon = RpmOstreeDaemon::connect(None, self.deadlines).await?;
            let outcome = daemon.layer(request, &mut news, care.asked()).await;
            daemon.leave().await;
            Ok(outcome?)
        })
    }

    /// Whether the daemon that runs can rebase to images at all. Where nobody knows, it is asked.
    fn knows_images(&mut self, booted: &Deployment) -> Result<bool, OsError> {
        let version = self.local(SysrootAccess::Read)?.package_version(&booted.id.commit, "rpm-ostree")?;
        Ok(version.as_deref().is_none_or(is_new_enough))
    }
}

/// Whom the daemon is waited for, said once.
#[derive(Debug, Default)]
struct Waits {
    said: String,
}

impl Waits {
    fn hear(&mut self, news: &RpmOstreeEvent) {
        if let RpmOstreeEvent::Busy(with) = news
            && self.said != *with
        {
            log::warn!("rpm-ostreed is busy, and is waited for: {with}");
            self.said.clone_from(with);
        }
    }
}

/// In this thread alone.
fn in_runtime<T>(work: impl Future<Output = Result<T, OsError>>) -> Result<T, OsError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| OsError::RpmOstreed(RedactedCause::new(&error.to_string())))?.block_on(work)
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= KNOWS_IMAGES
}

/// Whether this process belongs to a unit, as the daemon needs it to note who drives updates.
fn is_in_unit() -> bool {
    std::env::var_os("INVOCATION_ID").is_some()
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
        let Some(booted) = deployments.into_iter().find(|deployment| deployment.booted) else {
            return Err(OsError::NotRunning { path: SYSROOT.into() });
        };
        // Its packages would be lost with another image under them, were it not the daemon that puts it there.
        let is_bare = wanted.packages.is_empty() && booted.layering.is_empty();
        if let Some(image) = &wanted.image {
            if let (true, Some(digest)) = (is_bare, image.digest())
                && let Some(found) = self.local(SysrootAccess::Read)?.find(digest)?
            {
                return Ok(found);
            }
            match (self.knows_images(&booted)?, is_bare) {
                (true, _) => {}
                (false, true) => {
                    log::warn!(
                        "the rpm-ostreed that runs is too old to deploy images; libostree does it without it"
                    );
                    return self.local(SysrootAccess::Stage)?.import(wanted, progress);
                }
                (false, false) => {
                    let text = "the rpm-ostreed that runs is too old to deploy images with packages; update to a version of the OS without packages first";
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
        let base = match &wanted.image {
            None => LayerBase::BootedCommit,
            Some(image) if image.digest().is_none() && booted.image.as_ref() == Some(image) => {
                LayerBase::BootedImageName
            }
            Some(image) => LayerBase::Image(image.clone()),
        };
        let request = LayerRequest { base, change: wanted.packages.clone(), drives: is_in_unit() };
        let (made, transactions) = self.ask(request, progress)?;
        let staged = made.as_ref().map(|made| made.id.clone());
        self.made.clone_from(&staged);
        let deployment = made.unwrap_or(booted);
        Ok(ImportedCommit {
            commit: deployment.id.commit,
            manifest_digest: deployment.manifest_digest,
            version: deployment.version,
            layers_fetched: 0,
            bytes_fetched: 0,
            staged,
            transactions,
        })
    }

    fn unpack(&mut self, image: &ImageRef, within: &Path, to: &Path) -> Result<(), OsError> {
        self.local(SysrootAccess::Read)?.unpack(image, within, to)
    }

    fn deploy(&mut self, _request: &DeployRequest) -> Result<Deployment, OsError> {
        Err(OsError::Running { path: SYSROOT.into() })
    }

    fn labels(&mut self, paths: &[(String, u32)]) -> Result<Vec<Option<String>>, OsError> {
        self.local(SysrootAccess::Stage)?.labels(paths)
    }

    fn special_files(&self) -> SpecialFiles {
        self.special_files
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

    fn stage(&mut self, request: &DeployRequest) -> Result<Deployment, OsError> {
        let mut request = request.clone();
        if let Some(made) = self.made.clone().filter(|made| made.commit == request.commit) {
            // Its origin is the daemon's, packages included.
            request.origin = DeploymentOrigin::Deployment(made.clone());
            request.replaces = Some(made);
        }
        let staged = self.local(SysrootAccess::Stage)?.stage(&request)?;
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
    fn old_daemons_are_known_by_their_version() {
        for (version, expected) in
            [("2022.10.99", true), ("2022.13", true), ("2026.2", true), ("2022.9", false), ("2021.14", false)]
        {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }
}

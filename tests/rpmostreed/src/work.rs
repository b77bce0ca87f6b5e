//! Work of transactions, each on a thread of its own, because libostree's objects must stay on their thread.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use ostree_ext::gio::Cancellable;
use ostree_ext::ostree;
use ostree_ext::prelude::{CancellableExt as _, CancellableExtManual as _};
use tokio::sync::{mpsc, oneshot};

use crate::active::Said;
use crate::error::Refusal;
use crate::faults::Faults;
use crate::kargs::{self, KargsChange};
use crate::options::Dict;
use crate::pull;
use crate::update::{self, Update};

/// File of the staged deployment, and the lock file of older versions.
pub(crate) const STAGED: &str = "/run/ostree/staged-deployment";
pub(crate) const LOCK: &str = "/run/ostree/staged-deployment-locked";

/// Work of a transaction.
#[derive(Debug)]
pub(crate) enum Work {
    Update(Update),
    Kargs(String, KargsChange),
    Cleanup(Cleanup),
    Rollback,
    Finalize(Finalize),
}

impl Work {
    /// Title from the start on; `None` where the one of its creation stays.
    fn title(&self) -> Option<String> {
        match self {
            Self::Update(update) => Some(update.title()),
            Self::Kargs(_, change) => change.title.clone(),
            Self::Cleanup(_) | Self::Rollback | Self::Finalize(_) => None,
        }
    }

    /// Title until the start.
    pub(crate) fn title_of_creation(&self) -> &'static str {
        match self {
            Self::Update(_) => "new-deployment",
            Self::Kargs(..) => "kernel-arg",
            Self::Cleanup(_) => "cleanup",
            Self::Rollback => "rollback",
            Self::Finalize(_) => "finalize-deployment",
        }
    }
}

/// Deployments and caches to clean up.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cleanup {
    pending: bool,
    rollback: bool,
}

impl Cleanup {
    pub(crate) fn of(elements: &[String]) -> Result<Self, Refusal> {
        let mut cleanup = Self::default();
        for element in elements {
            match element.as_str() {
                "pending-deploy" => cleanup.pending = true,
                "rollback-deploy" => cleanup.rollback = true,
                "base" | "repomd" => {}
                other => return Err(Refusal::failed(format!("Invalid cleanup type: {other}"))),
            }
        }
        Ok(cleanup)
    }
}

/// Deployment to finalize.
#[derive(Debug)]
pub(crate) struct Finalize {
    checksum: Option<String>,
    allow_missing: bool,
    allow_unlocked: bool,
}

impl Finalize {
    pub(crate) fn of(options: &Dict) -> Self {
        Self {
            checksum: options.text("checksum"),
            allow_missing: options.flag("allow-missing-checksum"),
            allow_unlocked: options.flag("allow-unlocked"),
        }
    }
}

/// Error text of a cancelled operation (`GCancellable`).
const CANCELLED: &str = "Operation was cancelled";

/// Thread that does the work.
pub(crate) struct Worker {
    pub(crate) work: Work,
    pub(crate) faults: PathBuf,
    pub(crate) say: mpsc::UnboundedSender<Said>,
    pub(crate) cancellable: Cancellable,
}

impl Worker {
    /// Lock the sysroot, wait for the start, and do the work. Without a start the lock is released.
    pub(crate) fn run(self, locked: oneshot::Sender<Result<(), Refusal>>, started: &Receiver<()>) {
        let sysroot = match open() {
            Ok(sysroot) => sysroot,
            Err(refusal) => return drop(locked.send(Err(refusal))),
        };
        if locked.send(Ok(())).is_err() || started.recv().is_err() {
            return sysroot.unlock();
        }
        let done = self.carry_out(&sysroot);
        // Before the result: a peer may want the lock next.
        sysroot.unlock();
        let finished = match done {
            Ok(()) => Said::Finished(true, String::new()),
            Err(error) => {
                let text = format!("{error:#}");
                // The step that was cancelled precedes it, if there is one.
                let is_cancelled = self.cancellable.is_cancelled() && !text.ends_with(CANCELLED);
                Said::Finished(false, if is_cancelled { CANCELLED.to_owned() } else { text })
            }
        };
        self.say(finished);
    }

    fn carry_out(&self, sysroot: &ostree::Sysroot) -> anyhow::Result<()> {
        if let Work::Update(update) = &self.work {
            update.ensure_consistent()?;
        }
        if let Some(title) = self.work.title() {
            self.say(Said::Title(title));
        }
        let faults = Faults::load(&self.faults);
        if faults.lie {
            return Ok(());
        }
        if !matches!(self.work, Work::Update(_)) {
            self.pause()?;
        }
        match &self.work {
            Work::Update(update) => update::carry_out(self, sysroot, update),
            Work::Kargs(stateroot, change) => kargs::carry_out(self, sysroot, stateroot, change),
            Work::Cleanup(cleanup) => self.clean_up(sysroot, *cleanup),
            Work::Rollback => self.roll_back(sysroot),
            Work::Finalize(finalize) => finish(sysroot, finalize),
        }
    }

    /// Wait for as long as the faults say, unless the transaction is cancelled.
    pub(crate) fn pause(&self) -> anyhow::Result<()> {
        self.pause_for(Faults::load(&self.faults).slow)
    }

    /// Wait for a number of milliseconds, unless the transaction is cancelled.
    pub(crate) fn pause_for(&self, milliseconds: u64) -> anyhow::Result<()> {
        let end = Instant::now() + Duration::from_millis(milliseconds);
        while Instant::now() < end {
            self.ensure_wanted()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        self.ensure_wanted()
    }

    pub(crate) fn ensure_wanted(&self) -> anyhow::Result<()> {
        Ok(self.cancellable.set_error_if_cancelled()?)
    }

    pub(crate) fn say(&self, said: Said) {
        // No peer may be connected any more.
        drop(self.say.send(said));
    }

    pub(crate) fn message(&self, text: impl Into<String>) {
        self.say(Said::Message(text.into()));
    }

    fn clean_up(&self, sysroot: &ostree::Sysroot, cleanup: Cleanup) -> anyhow::Result<()> {
        let before = sysroot.deployments();
        let runs = sysroot.booted_deployment();
        let booted = before.iter().position(|one| runs.as_ref().is_some_and(|runs| runs.equal(one)));
        // Not cloned: libostree's own `clone` makes another deployment, and libostree compares by address.
        let mut kept = sysroot.deployments();
        let mut index = 0;
        kept.retain(|one| {
            let is_rollback = booted.is_some_and(|booted| index > booted) && !one.is_pinned();
            let is_pending = one.is_staged() || booted.is_some_and(|booted| index < booted);
            index += 1;
            !(cleanup.pending && is_pending || cleanup.rollback && is_rollback)
        });
        if kept.len() == before.len() {
            self.message("Deployments unchanged.");
            return Ok(());
        }
        if cleanup.pending {
            drop(std::fs::remove_file(LOCK));
        }
        // Objects are removed below, where their size is told.
        let options = ostree::SysrootWriteDeploymentsOpts { do_postclean: false };
        sysroot.write_deployments_with_options(&kept, &options, Cancellable::NONE)?;
        self.say(Said::Reload);
        // Removes the refs of deployments that are gone.
        sysroot.prepare_cleanup(Cancellable::NONE)?;
        pull::prune(self, sysroot)
    }

    fn roll_back(&self, sysroot: &ostree::Sysroot) -> anyhow::Result<()> {
        let mut order = sysroot.deployments();
        anyhow::ensure!(
            !order.iter().any(ostree::Deployment::is_staged),
            "Staged deployment (remove with cleanup -p)"
        );
        anyhow::ensure!(order.len() > 1, "No rollback deployment found");
        order.swap(0, 1);
        self.message("Moving the rollback deployment to be first in boot order");
        Ok(sysroot.write_deployments(&order, Cancellable::NONE)?)
    }
}

fn open() -> Result<ostree::Sysroot, Refusal> {
    let sysroot = ostree::Sysroot::new_default();
    sysroot.set_mount_namespace_in_use();
    let failed = |error: ostree_ext::glib::Error| Refusal::own(error.to_string());
    if !sysroot.try_lock().map_err(failed)? {
        return Err(Refusal::busy("System transaction in progress".to_owned()));
    }
    sysroot.load(Cancellable::NONE).map_err(failed)?;
    Ok(sysroot)
}

fn finish(sysroot: &ostree::Sysroot, wanted: &Finalize) -> anyhow::Result<()> {
    let Some(staged) = sysroot.staged_deployment() else {
        anyhow::bail!("No pending staged deployment found");
    };
    match &wanted.checksum {
        None if !wanted.allow_missing => anyhow::bail!("Missing expected checksum"),
        Some(checksum) if *checksum != staged.csum() => {
            anyhow::bail!("Expected staged base checksum {checksum}, but found {}", staged.csum())
        }
        _ => {}
    }
    if !is_locked() && !wanted.allow_unlocked {
        anyhow::bail!("Staged deployment already unlocked");
    }
    unlock()?;
    anyhow::bail!("Reboot blocked by a systemd inhibitor lock: the stand-in cannot reboot")
}

fn is_locked() -> bool {
    Path::new(LOCK).exists() || update::noted_lock().unwrap_or(false)
}

fn unlock() -> anyhow::Result<()> {
    drop(std::fs::remove_file(LOCK));
    update::note_lock(false)
}

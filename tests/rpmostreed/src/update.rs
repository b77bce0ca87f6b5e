//! New deployments: another image, other packages, or both.

use std::process::{Command, Stdio};

use anyhow::Context as _;
use ostree_ext::container::OstreeImageReference as ImageReference;
use ostree_ext::container::deploy::ORIGIN_CONTAINER;
use ostree_ext::gio::Cancellable;
use ostree_ext::prelude::{CancellableExt as _, FileExt as _};
use ostree_ext::{glib, ostree};

use crate::active::Said;
use crate::deployments::origin_of;
use crate::faults::{Die, Faults};
use crate::layering::{self, REMOVED, REQUESTED};
use crate::options::Dict;
use crate::work::{LOCK, STAGED, Worker};
use crate::{packages, pull};

/// Requested update.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "options of a method")]
pub(crate) struct Update {
    pub(crate) stateroot: String,
    pub(crate) refspec: Option<String>,
    pub(crate) install: Vec<String>,
    pub(crate) uninstall: Vec<String>,
    pub(crate) remove: Vec<String>,
    pub(crate) reset: Vec<String>,
    pub(crate) no_pull_base: bool,
    pub(crate) skip_purge: bool,
    pub(crate) lock: bool,
    pub(crate) idempotent: bool,
    pub(crate) allow_downgrade: bool,
    pub(crate) driver: Option<String>,
    pub(crate) title: Option<String>,
}

impl Update {
    pub(crate) fn of(stateroot: &str, modifiers: &Dict, options: &Dict) -> Self {
        Self {
            stateroot: stateroot.to_owned(),
            refspec: modifiers.text("set-refspec"),
            install: modifiers.list("install-packages"),
            uninstall: modifiers.list("uninstall-packages"),
            remove: modifiers.list("override-remove-packages"),
            reset: modifiers.list("override-reset-packages"),
            no_pull_base: options.flag("no-pull-base"),
            skip_purge: options.flag("skip-purge"),
            lock: options.flag("lock-finalization"),
            idempotent: options.flag("idempotent-layering"),
            allow_downgrade: options.flag("allow-downgrade"),
            driver: options.text("register-driver"),
            title: options.text("initiating-command-line"),
        }
    }

    /// Title of the transaction once it has begun.
    pub(crate) fn title(&self) -> String {
        if let Some(title) = &self.title {
            return title.clone();
        }
        let has_overrides = !self.remove.is_empty() || !self.reset.is_empty();
        let title = match self {
            Self { refspec: Some(_), .. } => "rebase",
            Self { no_pull_base: false, .. } => "upgrade",
            Self { install, .. } if !install.is_empty() => "install",
            _ if has_overrides => "override",
            _ => "uninstall",
        };
        let counted = [("uninstall", self.uninstall.len()), ("install", self.install.len())];
        let counted = counted.into_iter().filter(|(_, count)| *count > 0);
        counted.fold(title.to_owned(), |title, (what, count)| format!("{title}; {what}: {count}"))
    }

    /// Refuse options that exclude each other, before the transaction has a title.
    pub(crate) fn ensure_consistent(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            !(self.no_pull_base && self.refspec.is_some()),
            "Can't specify no-pull-base if setting a new refspec or revision"
        );
        anyhow::ensure!(
            !self.skip_purge || self.refspec.is_some(),
            "Can't specify skip-purge if not setting a new refspec"
        );
        Ok(())
    }
}

pub(crate) fn carry_out(worker: &Worker, sysroot: &ostree::Sysroot, update: &Update) -> anyhow::Result<()> {
    if update.driver.is_some() && !is_in_unit() {
        anyhow::bail!("could not find caller systemd unit");
    }
    let merge = origin_merge(sysroot, &update.stateroot)?;
    let origin = origin_of(&merge)?;
    let refspec = origin.string("origin", ORIGIN_CONTAINER).map(|text| text.to_string()).unwrap_or_default();
    if let Some(wanted) = &update.refspec {
        anyhow::ensure!(
            ImageReference::try_from(wanted.as_str()).is_ok(),
            "Could not determine default ref to pull."
        );
        anyhow::ensure!(*wanted != refspec, "Old and new refs are equal: {wanted}");
        origin.remove_key("origin", "refspec").unwrap_or_default();
        origin.set_string("origin", ORIGIN_CONTAINER, wanted);
    }
    let mut is_changed = change_packages(&origin, update)?;
    let faults = Faults::load(&worker.faults);
    if let Some(text) = faults.fail.clone() {
        anyhow::bail!("{text}");
    }
    let old_base = layering::base(&sysroot.repo(), &merge.csum())?;
    let base = if update.no_pull_base {
        worker.pause()?;
        old_base.clone()
    } else {
        pull::pull(worker, &sysroot.repo(), &origin.string("origin", ORIGIN_CONTAINER)?)?
    };
    is_changed |= base != old_base;
    worker.ensure_wanted()?;
    if !update.allow_downgrade && update.refspec.is_none() && base != old_base {
        pull::ensure_newer(&sysroot.repo(), &base, &old_base)?;
    }
    if !is_changed && update.refspec.is_none() {
        let is_upgrade = !update.no_pull_base;
        worker.message(if is_upgrade { "No upgrade available." } else { "No change." });
        return Ok(());
    }
    faults.reach(&worker.faults, Die::Midway);
    let (requested, removed) = (layering::list(&origin, REQUESTED), layering::list(&origin, REMOVED));
    packages::ensure_installed(&sysroot.repo(), &base, &removed)?;
    if faults.script_fails && !(requested.is_empty() && removed.is_empty()) {
        let task = "Running systemd-sysusers";
        worker.say(Said::TaskBegin(task.to_owned()));
        worker.say(Said::TaskEnd("done".to_owned()));
        anyhow::bail!("{task}: bwrap(/usr/lib/rpm/sysusers.sh): Child process exited with code 1");
    }
    let commit = packages::lay(&sysroot.repo(), &base, &requested, &removed)?;
    worker.ensure_wanted()?;
    let arguments = arguments_of(&merge);
    stage(worker, sysroot, (&update.stateroot, &commit, &origin), &arguments, update.lock)?;
    faults.reach(&worker.faults, Die::AfterStaging);
    if faults.cancelled_late {
        worker.cancellable.cancel();
        worker.ensure_wanted().context("Sanity-checking final rootfs: bwrap(/usr/bin/true)")?;
    }
    run_sanity_check(sysroot)
}

/// Run `/usr/bin/true` of the staged deployment. The deployment stays where that fails.
fn run_sanity_check(sysroot: &ostree::Sysroot) -> anyhow::Result<()> {
    sysroot.load(Cancellable::NONE)?;
    let Some(staged) = sysroot.staged_deployment() else { return Ok(()) };
    let root = sysroot.deployment_directory(&staged).path().context("the deployment has no path")?;
    let checked = Command::new("chroot").arg(root).arg("/usr/bin/true").stdin(Stdio::null()).output()?;
    match checked.status.code() {
        Some(0) => Ok(()),
        code => anyhow::bail!(
            "Sanity-checking final rootfs: bwrap(/usr/bin/true): Child process exited with code {}",
            code.unwrap_or(1)
        ),
    }
}

/// Deployment whose origin is changed: the first in the order of the boot menu, the staged one included, whichever is booted
/// (`rpmostree_syscore_get_origin_merge_deployment`).
pub(crate) fn origin_merge(sysroot: &ostree::Sysroot, stateroot: &str) -> anyhow::Result<ostree::Deployment> {
    let merge = sysroot.deployments().into_iter().find(|deployment| deployment.osname() == stateroot);
    merge.ok_or_else(|| anyhow::anyhow!("No deployments found for {stateroot}"))
}

pub(crate) fn arguments_of(deployment: &ostree::Deployment) -> Vec<String> {
    let options = deployment.bootconfig().and_then(|entry| entry.get("options")).unwrap_or_default();
    let arguments = ostree::KernelArgs::from_string(&options).to_strv();
    arguments.iter().map(ToString::to_string).filter(|argument| !argument.starts_with("ostree=")).collect()
}

/// Stage a deployment, replacing the staged one; `lock` locks its finalization, otherwise a lock is removed.
pub(crate) fn stage(
    worker: &Worker,
    sysroot: &ostree::Sysroot,
    (stateroot, commit, origin): (&str, &str, &glib::KeyFile),
    arguments: &[String],
    lock: bool,
) -> anyhow::Result<()> {
    worker.say(Said::TaskBegin("Staging deployment".to_owned()));
    let merge = sysroot.booted_deployment();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let options =
        ostree::SysrootDeployTreeOpts { override_kernel_argv: Some(&arguments), overlay_initrds: None };
    // Newer versions of libostree write lock and deployment together; this needs two steps.
    if lock {
        std::fs::write(LOCK, "")?;
    }
    sysroot.stage_tree_with_options(
        Some(stateroot),
        commit,
        Some(origin),
        merge.as_ref(),
        &options,
        Cancellable::NONE,
    )?;
    if ostree::check_version(2023, 8) {
        note_lock(lock)?;
        drop(std::fs::remove_file(LOCK));
    } else if !lock {
        drop(std::fs::remove_file(LOCK));
    }
    sysroot.cleanup(Cancellable::NONE)?;
    worker.say(Said::Reload);
    worker.say(Said::TaskEnd("done".to_owned()));
    Ok(())
}

/// True if the file of the staged deployment has the lock.
pub(crate) fn noted_lock() -> Option<bool> {
    staged()?.lookup::<bool>("locked").ok()?
}

fn staged() -> Option<glib::VariantDict> {
    let bytes = std::fs::read(STAGED).ok()?;
    let variant = glib::Variant::from_data_with_type(bytes, glib::VariantTy::VARDICT);
    Some(glib::VariantDict::new(Some(&variant)))
}

pub(crate) fn note_lock(lock: bool) -> anyhow::Result<()> {
    let Some(staged) = staged() else { return Ok(()) };
    staged.insert("locked", lock);
    let new = format!("{STAGED}.new");
    std::fs::write(&new, staged.end().data())?;
    Ok(std::fs::rename(new, STAGED)?)
}

/// The real daemon inspects its caller; here all callers count as being in the unit of the stand-in, if it
/// has one.
fn is_in_unit() -> bool {
    std::env::var_os("INVOCATION_ID").is_some()
}

fn change_packages(origin: &glib::KeyFile, update: &Update) -> anyhow::Result<bool> {
    let (mut requested, mut removed) = (layering::list(origin, REQUESTED), layering::list(origin, REMOVED));
    let before = (requested.clone(), removed.clone());
    for package in &update.uninstall {
        let is_there = requested.contains(package);
        anyhow::ensure!(
            is_there || update.idempotent,
            "Package/capability '{package}' is not currently requested"
        );
        requested.retain(|other| other != package);
    }
    for package in &update.install {
        let is_there = requested.contains(package);
        anyhow::ensure!(
            !is_there || update.idempotent,
            "Package/capability '{package}' is already requested"
        );
        if !is_there {
            requested.push(package.clone());
        }
    }
    for package in &update.reset {
        anyhow::ensure!(removed.contains(package), "No overrides for package '{package}'");
        removed.retain(|other| other != package);
    }
    for package in &update.remove {
        anyhow::ensure!(!removed.contains(package), "Override already exists for package '{package}'");
        removed.push(package.clone());
    }
    layering::set(origin, REQUESTED, &requested);
    layering::set(origin, REMOVED, &removed);
    Ok(before != (requested, removed))
}

//! The `/usr/etc` of a commit that is not deployed, for a look at what merging it would do.

use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use flameholder::os::OsError;
use ostree_ext::gio::Cancellable;
use ostree_ext::ostree::RepoCheckoutAtOptions;
use ostree_ext::prelude::FileExt as _;

use crate::classify::failure;
use crate::session::{OpenedSysroot, other};

/// Where it lies in the sysroot. libostree clears this directory of what is older than a day.
const PLACE: &str = "ostree/repo/tmp/flameholder-etc";

/// Removed with the session.
pub(crate) struct EtcCheckout(PathBuf);

/// Checks it out; returns the directory that stands for the commit's root, which holds nothing but `usr/etc`.
pub(crate) fn check_out(opened: &mut OpenedSysroot, commit: &str) -> Result<PathBuf, OsError> {
    let Some(sysroot) = opened.sysroot.path().path() else {
        return Err(other("finding the repository", "the sysroot has no path"));
    };
    let root = sysroot.join(PLACE);
    opened.etc = None;
    let doing = || format!("checking out /usr/etc of commit {commit}");
    // A run that was killed may have left one.
    clear(&root).map_err(|error| failure(doing(), &error.into()))?;
    std::fs::create_dir_all(root.join("usr")).map_err(|error| failure(doing(), &error.into()))?;
    let checkout = EtcCheckout(root.clone());
    let options = RepoCheckoutAtOptions { subpath: Some("/usr/etc".into()), ..Default::default() };
    let here = rustix::fs::CWD.as_raw_fd();
    let (repo, target) = (opened.sysroot.repo(), root.join("usr/etc"));
    repo.checkout_at(Some(&options), here, target, commit, Cancellable::NONE)
        .map_err(|error| failure(doing(), &error.into()))?;
    opened.etc = Some(checkout);
    Ok(root)
}

fn clear(root: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(root) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        cleared => cleared,
    }
}

impl Drop for EtcCheckout {
    fn drop(&mut self) {
        if let Err(error) = clear(&self.0) {
            eprintln!("{} stays behind: {error}", self.0.display());
        }
    }
}

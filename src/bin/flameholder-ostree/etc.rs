//! Checkout of `/usr/etc` of a commit that is not deployed, from which `plan` and `etc-diff` compute the
//! merge.

use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use flameholder::os::OsError;
use ostree_ext::gio::Cancellable;
use ostree_ext::ostree::RepoCheckoutAtOptions;
use ostree_ext::prelude::FileExt as _;

use crate::error_classes::failure;
use crate::session::{OpenedSysroot, other};

/// Path of the checkout in the sysroot. libostree removes entries of its parent that are older than a day.
const PLACE: &str = "ostree/repo/tmp/flameholder-etc";

/// Checkout, removed at the end of the session.
pub(crate) struct EtcCheckout(PathBuf);

/// Check out `/usr/etc` of a commit. Returns the directory in place of the commit's root, which holds only
/// `usr/etc`.
pub(crate) fn check_out(opened: &mut OpenedSysroot, commit: &str) -> Result<PathBuf, OsError> {
    let Some(sysroot) = opened.sysroot.path().path() else {
        return Err(other("finding the repository", "the sysroot has no path"));
    };
    let root = sysroot.join(PLACE);
    opened.etc = None;
    let doing = || format!("checking out /usr/etc of commit {commit}");
    // A killed worker may have left a checkout.
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
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

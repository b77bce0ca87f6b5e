//! Pull secret for OS images: makes the cluster's pull secret available to libostree and rpm-ostreed, which
//! read other paths than the kubelet.

use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::core::values::paths::{KUBELET_PULL_SECRET, MERGED_PULL_SECRET};
use crate::os::{OsError, RedactedCause};

/// Path that libostree reads first. Below `/run`: gone after a reboot.
const OSTREE_AUTH: &str = "/run/ostree/auth.json";
const NEW: &str = "/run/ostree/.auth.json.flameholder";
/// Other paths of libostree's own pull secret.
const OWN: [&str; 2] = ["/etc/ostree/auth.json", "/usr/lib/ostree/auth.json"];
/// Paths of the cluster's pull secret: the one merged with the internal registry's credentials, or else the
/// kubelet's. The order is that of the MCD.
const CLUSTER: [&str; 2] = [MERGED_PULL_SECRET, KUBELET_PULL_SECRET];

/// Return the path of the cluster's pull secret, unless the host has a pull secret of its own for OS images.
#[must_use]
pub fn cluster_pull_secret() -> Option<PathBuf> {
    let is_own = OWN.iter().any(|path| Path::new(path).exists());
    let is_foreign = Path::new(OSTREE_AUTH).exists() && !is_our_link();
    if is_own || is_foreign {
        return None;
    }
    let is_usable = |path: &&&str| {
        let read = std::fs::File::open(path).map(std::io::BufReader::new);
        read.is_ok_and(|file| serde_json::from_reader::<_, serde::de::IgnoredAny>(file).is_ok())
    };
    CLUSTER.iter().find(is_usable).map(PathBuf::from)
}

fn is_our_link() -> bool {
    std::fs::read_link(OSTREE_AUTH).is_ok_and(|target| CLUSTER.iter().any(|path| target == Path::new(path)))
}

/// Link the cluster's pull secret to the path that libostree reads. The link is replaced by a rename, so that
/// rpm-ostreed, reading it at the same time, finds the old or the new one. A pull secret of another program
/// is kept.
pub fn link_cluster_secret() -> Result<(), OsError> {
    let Some(secret) = cluster_pull_secret() else { return Ok(()) };
    if std::fs::read_link(OSTREE_AUTH).is_ok_and(|target| target == secret) {
        return Ok(());
    }
    link(&secret).map_err(|error| OsError::Other {
        doing: format!("linking the pull secret {} as {OSTREE_AUTH}", secret.display()),
        source: RedactedCause::new(&error.to_string()),
    })
}

fn link(secret: &Path) -> std::io::Result<()> {
    if let Some(directory) = Path::new(OSTREE_AUTH).parent() {
        std::fs::create_dir_all(directory)?;
    }
    match std::fs::remove_file(NEW) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink(secret, NEW)?;
    std::fs::rename(NEW, OSTREE_AUTH)
}

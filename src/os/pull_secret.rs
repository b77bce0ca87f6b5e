//! Credentials for registries. libostree and rpm-ostreed look in places of their own, and a cluster keeps them elsewhere.

use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::os::{OsError, RedactedCause};

/// What is looked at first; gone with the boot.
const LENT: &str = "/run/ostree/auth.json";
const NEW: &str = "/run/ostree/.auth.json.flameholder";
/// Where else libostree's own secrets lie.
const OWN: [&str; 2] = ["/etc/ostree/auth.json", "/usr/lib/ostree/auth.json"];
/// Where a cluster's lie: the one with which internal registries are merged, or else the kubelet's (the reference's
/// choice).
const CLUSTER: [&str; 2] = ["/etc/mco/internal-registry-pull-secret.json", "/var/lib/kubelet/config.json"];

/// The cluster's pull secret, where the host has none for its OS.
#[must_use]
pub fn cluster_pull_secret() -> Option<PathBuf> {
    let is_own = OWN.iter().any(|path| Path::new(path).exists());
    let is_somebodys = Path::new(LENT).exists() && !is_our_link();
    if is_own || is_somebodys {
        return None;
    }
    let is_usable = |path: &&&str| {
        let read = std::fs::File::open(path).map(std::io::BufReader::new);
        read.is_ok_and(|file| serde_json::from_reader::<_, serde::de::IgnoredAny>(file).is_ok())
    };
    CLUSTER.iter().find(is_usable).map(PathBuf::from)
}

/// Whether the link is ours.
fn is_our_link() -> bool {
    std::fs::read_link(LENT).is_ok_and(|target| CLUSTER.iter().any(|path| target == Path::new(path)))
}

/// Puts a link to the cluster's secret where libostree looks, in place of an earlier one, and at once: a daemon that reads
/// it meanwhile finds one or the other. A secret that is not ours stays.
pub fn link_cluster_secret() -> Result<(), OsError> {
    let Some(secret) = cluster_pull_secret() else { return Ok(()) };
    if std::fs::read_link(LENT).is_ok_and(|target| target == secret) {
        return Ok(());
    }
    link(&secret).map_err(|error| OsError::Other {
        doing: format!("linking the pull secret {} as {LENT}", secret.display()),
        source: RedactedCause::new(&error.to_string()),
    })
}

fn link(secret: &Path) -> std::io::Result<()> {
    if let Some(directory) = Path::new(LENT).parent() {
        std::fs::create_dir_all(directory)?;
    }
    match std::fs::remove_file(NEW) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink(secret, NEW)?;
    std::fs::rename(NEW, LENT)
}

//! Deployments in the form that the daemon reports.

use std::collections::HashMap;
use std::path::Path;
use std::time::SystemTime;

use ostree_ext::container::deploy::ORIGIN_CONTAINER;
use ostree_ext::container::store;
use ostree_ext::gio::Cancellable;
use ostree_ext::{glib, ostree};
use zbus::zvariant::{OwnedValue, Value};

use crate::layering;
use crate::work::LOCK;

pub(crate) type Described = HashMap<String, OwnedValue>;

/// Deployments of the sysroot at one moment.
pub(crate) struct Looked {
    pub(crate) deployments: Vec<Described>,
    pub(crate) stateroots: Vec<String>,
    pub(crate) booted: Option<String>,
}

pub(crate) fn look() -> anyhow::Result<Looked> {
    let sysroot = ostree::Sysroot::new_default();
    sysroot.load(Cancellable::NONE)?;
    let deployments = sysroot.deployments();
    let mut stateroots: Vec<String> = deployments.iter().map(|one| one.osname().to_string()).collect();
    stateroots.sort();
    stateroots.dedup();
    let booted = sysroot.booted_deployment().map(|booted| booted.osname().to_string());
    let deployments = deployments.iter().map(|one| describe(&sysroot, one)).collect::<anyhow::Result<_>>()?;
    Ok(Looked { deployments, stateroots, booted })
}

/// Return the time of the sysroot's last change, which libostree sets on its directory of deployments.
pub(crate) fn changed() -> anyhow::Result<SystemTime> {
    Ok(std::fs::metadata("/ostree/deploy")?.modified()?)
}

fn describe(sysroot: &ostree::Sysroot, deployment: &ostree::Deployment) -> anyhow::Result<Described> {
    let (osname, checksum) = (deployment.osname().to_string(), deployment.csum().to_string());
    let serial = deployment.deployserial();
    let origin = deployment.origin().unwrap_or_default();
    let is_booted = sysroot.booted_deployment().is_some_and(|booted| booted.equal(deployment));
    let mut entries: Vec<(&str, Value<'_>)> = vec![
        ("id", format!("{osname}-{checksum}.{serial}").into()),
        ("serial", serial.into()),
        ("booted", is_booted.into()),
        ("staged", deployment.is_staged().into()),
        ("pinned", deployment.is_pinned().into()),
        ("unlocked", "none".into()),
        ("requested-packages", layering::list(&origin, layering::REQUESTED).into()),
        ("packages", layering::list(&origin, layering::REQUESTED).into()),
        ("requested-base-removals", layering::list(&origin, layering::REMOVED).into()),
    ];
    if let Ok(reference) = origin.string("origin", ORIGIN_CONTAINER) {
        entries.push(("container-image-reference", reference.to_string().into()));
        let repo = sysroot.repo();
        let base = layering::base(&repo, &checksum)?;
        let (commit, _) = repo.load_commit(&base)?;
        if let Ok(digest) = store::manifest_digest_from_commit(&commit) {
            entries.push(("container-image-reference-digest", digest.to_string().into()));
        }
    } else if let Ok(reference) = origin.string("origin", "refspec") {
        entries.push(("origin", reference.to_string().into()));
    }
    // The daemon looks for the file alone, not for the lock in the file of the staged deployment.
    if deployment.is_staged() && Path::new(LOCK).exists() {
        entries.push(("finalization-locked", true.into()));
    }
    entries.push(("osname", osname.into()));
    entries.push(("checksum", checksum.into()));
    let owned = entries.into_iter().map(|(key, value)| Ok((key.to_owned(), OwnedValue::try_from(value)?)));
    owned.collect()
}

/// Copy of a deployment's origin that can be changed.
pub(crate) fn origin_of(deployment: &ostree::Deployment) -> anyhow::Result<glib::KeyFile> {
    let origin = glib::KeyFile::new();
    if let Some(own) = deployment.origin() {
        origin.load_from_data(&own.to_data(), glib::KeyFileFlags::NONE)?;
    }
    ostree::Deployment::origin_remove_transient_state(&origin);
    Ok(origin)
}

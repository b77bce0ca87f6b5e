//! Layered packages and overrides, as rpm-ostree stores them in origins of deployments and in metadata of
//! commits.

use flameholder::core::config::layering::PackageLayering;
use flameholder::os::OsError;
use ostree_ext::{glib, ostree};

use crate::error_classes::failure;

/// Commit metadata: true for a commit that rpm-ostree created on this host from its parent and packages.
const MADE_HERE: &str = "rpmostree.clientlayer";
/// Metadata of an image's commit: name, epoch, version, release and architecture of each package.
const PACKAGES: &str = "rpmostree.rpmdb.pkglist";

/// Read requested packages and removed base packages from an origin.
pub(crate) fn layering(origin: &glib::KeyFile) -> PackageLayering {
    let list = |group, key| {
        let items = origin.string_list(group, key);
        items.map(|items| items.iter().map(ToString::to_string).collect()).unwrap_or_default()
    };
    PackageLayering { requested: list("packages", "requested"), removed: list("overrides", "remove") }
}

/// Write requested packages and removed base packages into an origin.
pub(crate) fn set_layering(origin: &glib::KeyFile, layering: &PackageLayering) {
    for (group, key, list) in
        [("packages", "requested", &layering.requested), ("overrides", "remove", &layering.removed)]
    {
        if list.is_empty() {
            // An error means that the key does not exist.
            drop(origin.remove_key(group, key));
        } else {
            origin.set_string(group, key, &format!("{};", list.join(";")));
        }
    }
}

/// Return checksum and contents of the commit below layered packages; `None` if it has none.
pub(crate) fn base(
    repo: &ostree::Repo,
    checksum: &str,
    commit: &glib::Variant,
) -> Result<Option<(String, glib::Variant)>, OsError> {
    let metadata = glib::VariantDict::new(Some(&commit.child_value(0)));
    let is_made_here = metadata.lookup::<bool>(MADE_HERE).ok().flatten().unwrap_or(false);
    let Some(parent) = ostree::commit_get_parent(commit).filter(|_| is_made_here) else { return Ok(None) };
    let (contents, _state) = repo
        .load_commit(&parent)
        .map_err(|error| failure(format!("reading the base of commit {checksum}"), &error.into()))?;
    Ok(Some((parent.to_string(), contents)))
}

/// Look up the version of a package in the image of a commit.
pub(crate) fn version(repo: &ostree::Repo, checksum: &str, package: &str) -> Result<Option<String>, OsError> {
    let (commit, _state) = repo
        .load_commit(checksum)
        .map_err(|error| failure(format!("reading commit {checksum}"), &error.into()))?;
    let commit = base(repo, checksum, &commit)?.map_or(commit, |(_, base)| base);
    let metadata = glib::VariantDict::new(Some(&commit.child_value(0)));
    let Some(list) = metadata.lookup_value(PACKAGES, None) else { return Ok(None) };
    let packages =
        list.iter().filter_map(|package| package.get::<(String, String, String, String, String)>());
    let found = packages.into_iter().find(|(name, ..)| name == package);
    Ok(found.map(|(_, _, version, ..)| version))
}

/// Return the checksums of a deployment's initramfs overlays, made by `rpm-ostree initramfs-etc`.
pub(crate) fn initrd_overlays(deployment: &ostree::Deployment) -> Vec<String> {
    let paths = deployment.bootconfig().map(|entry| entry.overlay_initrds()).unwrap_or_default();
    let names = paths.iter().filter_map(|path| path.rsplit('/').next()?.strip_suffix(".img"));
    names.map(str::to_owned).collect()
}

/// Return the checksums of the staged deployment's initramfs overlays, from libostree's state file.
pub(crate) fn staged_overlays(staged: &glib::VariantDict) -> Vec<String> {
    staged.lookup("overlay-initrds").ok().flatten().unwrap_or_default()
}

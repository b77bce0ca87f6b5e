//! Packages in origins, and commits with layered packages.

use ostree_ext::{glib, ostree};

/// Group and key of a list in an origin.
pub(crate) type Place = (&'static str, &'static str);
pub(crate) const REQUESTED: Place = ("packages", "requested");
pub(crate) const REMOVED: Place = ("overrides", "remove");

/// Metadata of a commit with layered packages.
pub(crate) const MADE_HERE: &str = "rpmostree.clientlayer";

pub(crate) fn list(origin: &glib::KeyFile, (group, key): Place) -> Vec<String> {
    let items = origin.string_list(group, key);
    items.map(|items| items.iter().map(ToString::to_string).collect()).unwrap_or_default()
}

pub(crate) fn set(origin: &glib::KeyFile, (group, key): Place, items: &[String]) {
    if items.is_empty() {
        drop(origin.remove_key(group, key));
        return;
    }
    let mut sorted: Vec<&str> = items.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    origin.set_string(group, key, &format!("{};", sorted.join(";")));
}

/// Base commit of a commit with layered packages; other commits are their own base.
pub(crate) fn base(repo: &ostree::Repo, checksum: &str) -> anyhow::Result<String> {
    let (commit, _) = repo.load_commit(checksum)?;
    let metadata = glib::VariantDict::new(Some(&commit.child_value(0)));
    let is_made_here = metadata.lookup::<bool>(MADE_HERE).ok().flatten().unwrap_or(false);
    let parent = ostree::commit_get_parent(&commit).filter(|_| is_made_here);
    Ok(parent.map_or_else(|| checksum.to_owned(), |parent| parent.to_string()))
}

//! Packages of the stand-in: a package is a file of its name, in a directory that a `.repo` file names.

use std::path::PathBuf;

use anyhow::Context as _;
use ostree_ext::gio::{self, Cancellable};
use ostree_ext::prelude::*;
use ostree_ext::{glib, ostree};

use crate::layering::MADE_HERE;

const REPOSITORIES: &str = "/etc/yum.repos.d";
/// Folder of packages that were downloaded before.
const CACHE: &str = "/var/cache/rpm-ostree-double";
/// Folder of the packages in an image.
const INSTALLED: &str = "usr/share/packages";

/// List of the packages in an image, one per line.
const LIST: &str = "usr/share/packages.list";

/// Refuse to remove packages that the image does not have.
pub(crate) fn ensure_installed(repo: &ostree::Repo, base: &str, removed: &[String]) -> anyhow::Result<()> {
    if removed.is_empty() {
        return Ok(());
    }
    let (root, _) = repo.read_commit(base, Cancellable::NONE)?;
    let list = root.resolve_relative_path(LIST);
    let text =
        list.load_contents(Cancellable::NONE).with_context(|| format!("reading {LIST} of the image"))?.0;
    let text = String::from_utf8_lossy(&text);
    for package in removed {
        anyhow::ensure!(text.lines().any(|line| line == package), "Package \"{package}\" not found");
    }
    Ok(())
}

/// Commit of `base` with layered packages; `base` if there are none.
pub(crate) fn lay(
    repo: &ostree::Repo,
    base: &str,
    requested: &[String],
    removed: &[String],
) -> anyhow::Result<String> {
    if requested.is_empty() && removed.is_empty() {
        return Ok(base.to_owned());
    }
    let missing: Vec<&str> =
        requested.iter().filter(|name| find(name).is_none()).map(String::as_str).collect();
    anyhow::ensure!(missing.is_empty(), "Packages not found: {}", missing.join(", "));
    let scratch = PathBuf::from(format!("/run/rpm-ostree-double-{}", std::process::id()));
    let written = write(&scratch, requested, removed).and_then(|()| commit(repo, base, &scratch));
    drop(std::fs::remove_dir_all(&scratch));
    written
}

fn write(scratch: &std::path::Path, requested: &[String], removed: &[String]) -> anyhow::Result<()> {
    let directory = scratch.join(INSTALLED);
    std::fs::create_dir_all(&directory)?;
    std::fs::create_dir_all(CACHE)?;
    for name in requested {
        let found = find(name).with_context(|| format!("Packages not found: {name}"))?;
        let text = std::fs::read(found)?;
        std::fs::write(PathBuf::from(CACHE).join(name), &text)?;
        std::fs::write(directory.join(name), &text)?;
    }
    for name in removed {
        std::fs::write(directory.join(format!("{name}.removed")), "")?;
    }
    Ok(())
}

fn find(name: &str) -> Option<PathBuf> {
    let cached = PathBuf::from(CACHE).join(name);
    let offered = || {
        let files = std::fs::read_dir(REPOSITORIES).ok()?.flatten().map(|entry| entry.path());
        let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
        let directories: Vec<PathBuf> = texts
            .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
            .filter_map(|line| {
                line.strip_prefix("baseurl=").map(|url| url.trim_start_matches("file://").into())
            })
            .collect();
        directories.into_iter().map(|directory| directory.join(name)).find(|file| file.is_file())
    };
    offered().or_else(|| cached.is_file().then_some(cached))
}

/// Commit a tree as rpm-ostree does: a child of the image's commit, with metadata that mark the layering.
fn commit(repo: &ostree::Repo, base: &str, tree: &std::path::Path) -> anyhow::Result<String> {
    let transaction = repo.auto_transaction(Cancellable::NONE)?;
    let (root, _) = repo.read_commit(base, Cancellable::NONE)?;
    let merged = ostree::MutableTree::new();
    repo.write_directory_to_mtree(&root, &merged, None, Cancellable::NONE)?;
    let modifier =
        ostree::RepoCommitModifier::new(ostree::RepoCommitModifierFlags::CANONICAL_PERMISSIONS, None);
    let added = gio::File::for_path(tree);
    repo.write_directory_to_mtree(&added, &merged, Some(&modifier), Cancellable::NONE)?;
    let written = repo.write_mtree(&merged, Cancellable::NONE)?;
    let written =
        written.downcast::<ostree::RepoFile>().map_err(|_| anyhow::anyhow!("no tree was written"))?;
    let (of_base, _) = repo.load_commit(base)?;
    let metadata = glib::VariantDict::new(None);
    metadata.insert(MADE_HERE, true);
    metadata.insert("ostree.bootable", true);
    let of_base = glib::VariantDict::new(Some(&of_base.child_value(0)));
    for key in ["version", "ostree.linux"] {
        if let Some(value) = of_base.lookup_value(key, None) {
            metadata.insert_value(key, &value);
        }
    }
    let commit =
        repo.write_commit(Some(base), None, None, Some(&metadata.end()), &written, Cancellable::NONE)?;
    transaction.commit(Cancellable::NONE)?;
    Ok(commit.to_string())
}

//! Export of a tree to an OSTree commit, and of the commit to a container image.

use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context as _, anyhow};
use ostree_ext::chunking::ObjectMetaSized;
use ostree_ext::container::{Config, ExportOpts, ImageReference, Transport};
use ostree_ext::gio::{self, Cancellable, FileQueryInfoFlags, FileType};
use ostree_ext::glib::{ToVariant as _, Variant};
use ostree_ext::objectsource::{ObjectMeta, ObjectSourceMeta};
use ostree_ext::ostree::{self, RepoCommitModifierFlags, RepoMode};
use ostree_ext::prelude::{Cast as _, FileExt as _};

use crate::canonical::canonicalize;
use crate::tree::Os;

/// Commit time of version 0, 2026-01-01T00:00:00Z in seconds. Each version is a day younger: commit times are
/// fixed, so that the same content has the same digest.
const FIRST_BUILD: u64 = 1_767_225_600;
/// One day, in seconds.
const DAY: u64 = 86_400;

/// Path prefix and name of each layer. A file belongs to the first layer whose prefix matches.
type Layers = [(String, &'static str)];

/// Metadata of an image, and its division into layers.
#[derive(Debug)]
pub struct Release {
    /// Value of the image's label `version`.
    pub version: String,
    /// Number of days by which the image is younger than version 0.
    pub number: u32,
    /// Release of the kernel; `None` if the image cannot boot.
    pub kernel: Option<String>,
    /// True if files are labelled by the SELinux policy of the tree.
    pub selinux: bool,
    /// Path prefix and name of each layer. A file belongs to the first layer whose prefix matches.
    pub layers: Vec<(String, &'static str)>,
}

impl Release {
    fn of(os: &Os) -> Self {
        let layers = [("/usr/lib/modules/", "kernel"), ("/usr/lib/systemd/", "systemd"), ("/", "base")];
        Self {
            version: os.version(),
            number: os.number(),
            kernel: os.is_bootable().then(|| os.kernel()),
            selinux: os.has_selinux(),
            layers: layers.map(|(below, name)| (below.to_owned(), name)).into(),
        }
    }
}

/// Write a bootable container image of the OS to an OCI layout, which is created if it does not exist.
///
/// Returns the digest of the manifest, `sha256:…`.
pub fn write_image(os: &Os, layout: &Path, tag: Option<&str>) -> anyhow::Result<String> {
    let scratch = tempfile::tempdir().context("making a scratch directory")?;
    let tree = scratch.path().join("tree");
    os.write(&tree).context("writing the OS tree")?;
    write_tree_image(&tree, &Release::of(os), layout, tag)
}

/// Write a container image of an existing tree in the layout of OSTree: without `/etc`, with an empty `/var`.
///
/// Returns the digest of the manifest, `sha256:…`.
pub fn write_tree_image(
    tree: &Path,
    release: &Release,
    layout: &Path,
    tag: Option<&str>,
) -> anyhow::Result<String> {
    let scratch = tempfile::tempdir().context("making a scratch directory")?;
    let directory = File::open(scratch.path())?;
    let repo = ostree::Repo::create_at_dir(directory.as_fd(), "repo", RepoMode::BareUser, None)?;
    repo.set_disable_fsync(true);
    let commit = commit(release, &repo, tree).context("committing the OS tree")?;
    let layout = layout.to_str().with_context(|| format!("{} is not UTF-8", layout.display()))?;
    let destination = ImageReference {
        transport: Transport::OciDir,
        name: tag.map_or_else(|| layout.to_owned(), |tag| format!("{layout}:{tag}")),
    };
    let contents =
        assign_layers(&repo, &commit, &release.layers).context("dividing the OS tree into layers")?;
    let mut options = ExportOpts::default();
    options.contentmeta = Some(&contents);
    options.skip_compression = true;
    let config = Config::default();
    let export = ostree_ext::container::encapsulate(&repo, &commit, &config, Some(options), &destination);
    let digest = block_on(export)?.with_context(|| format!("writing the image {destination}"))?;
    canonicalize(Path::new(layout), digest.as_ref()).context("sorting the image's manifest")
}

/// Run an asynchronous call of `ostree_ext` to its end.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(future))
}

fn commit(release: &Release, repo: &ostree::Repo, tree: &Path) -> anyhow::Result<String> {
    let cancellable = Cancellable::NONE;
    let tree = gio::File::for_path(tree);
    let transaction = repo.auto_transaction(cancellable)?;
    let modifier = ostree::RepoCommitModifier::new(RepoCommitModifierFlags::SKIP_XATTRS, None);
    if release.selinux {
        modifier.set_sepolicy(Some(&ostree::SePolicy::new(&tree, cancellable)?));
    }
    let mutable = ostree::MutableTree::new();
    repo.write_directory_to_mtree(&tree, &mutable, Some(&modifier), cancellable)?;
    let root = repo.write_mtree(&mutable, cancellable)?;
    let root = root
        .downcast::<ostree::RepoFile>()
        .map_err(|_| anyhow!("a written tree is a file of the repository"))?;
    let time = FIRST_BUILD + DAY * u64::from(release.number);
    let metadata = metadata(release);
    let commit = repo.write_commit_with_time(None, None, None, Some(&metadata), &root, time, cancellable)?;
    transaction.commit(cancellable)?;
    Ok(commit.to_string())
}

/// Commit metadata from which `ostree_ext` makes the image's labels `version`, `ostree.bootable` and
/// `containers.bootc`.
fn metadata(release: &Release) -> Variant {
    let mut metadata = BTreeMap::from([("version", release.version.to_variant())]);
    if let Some(kernel) = &release.kernel {
        metadata.insert("ostree.bootable", true.to_variant());
        metadata.insert("ostree.linux", kernel.to_variant());
    }
    metadata.to_variant()
}

fn assign_layers(repo: &ostree::Repo, commit: &str, layers: &Layers) -> anyhow::Result<ObjectMetaSized> {
    let mut contents = ObjectMeta::default();
    for (_, name) in layers {
        let name: Rc<str> = Rc::from(*name);
        contents.set.insert(ObjectSourceMeta {
            identifier: Rc::clone(&name),
            name: Rc::clone(&name),
            srcid: name,
            change_time_offset: u32::MAX,
            change_frequency: u32::MAX,
        });
    }
    let (root, _commit) = repo.read_commit(commit, Cancellable::NONE)?;
    assign_directory(&root, "/", layers, &mut contents)?;
    ObjectMetaSized::compute_sizes(repo, contents)
}

fn assign_directory(
    directory: &gio::File,
    path: &str,
    layers: &Layers,
    contents: &mut ObjectMeta,
) -> anyhow::Result<()> {
    let attributes = "standard::name,standard::type";
    let flags = FileQueryInfoFlags::NOFOLLOW_SYMLINKS;
    for child in directory.enumerate_children(attributes, flags, Cancellable::NONE)? {
        let child = child?;
        let child_path = format!("{path}{}", child.name().display());
        let file = directory.child(child.name());
        if child.file_type() == FileType::Directory {
            assign_directory(&file, &format!("{child_path}/"), layers, contents)?;
            continue;
        }
        let file = file
            .downcast::<ostree::RepoFile>()
            .map_err(|_| anyhow!("a child of a commit is a file of the repository"))?;
        if let Some((_, layer)) = layers.iter().find(|(below, _)| child_path.starts_with(below.as_str())) {
            // An object that several files share belongs to the layer of the first of them.
            contents.map.entry(file.checksum().to_string()).or_insert_with(|| Rc::from(*layer));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_the_same_os_are_equal() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |name: &str, os: &Os| write_image(os, &scratch.path().join(name), None).unwrap();
        let os = Os::new(4);
        assert_eq!(write("a", &os), write("b", &os));
        assert_ne!(write("c", &os), write("d", &os.clone().with_selinux()));
        assert_ne!(write("e", &os), write("f", &Os::new(5)));
    }

    #[test]
    fn layout_holds_one_manifest_for_each_tag() {
        let scratch = tempfile::tempdir().unwrap();
        let layout = scratch.path().join("layout");
        let digests = [1, 2, 1]
            .map(|version| write_image(&Os::new(version), &layout, Some(&format!("v{version}"))).unwrap());
        let index = std::fs::read_to_string(layout.join("index.json")).unwrap();
        assert_eq!(digests[0], digests[2]);
        for expected in [&digests[0], &digests[1], "\"v1\"", "\"v2\""] {
            assert_eq!(index.matches(expected).count(), 1, "{expected} in {index}");
        }
    }
}

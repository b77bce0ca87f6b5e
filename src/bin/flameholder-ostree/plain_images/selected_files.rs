//! Few files of a container image that is not an OS image, such as the documents of a release image.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use anyhow::ensure;
use flameholder::core::config::artifact::ArtifactFile;
use flameholder::core::values::image::ImageRef;
use flameholder::core::values::limits;
use flameholder::os::OsError;
use ostree_ext::containers_image_proxy::ImageProxyConfig;

use crate::error_classes::pull_failure;
use crate::plain_images::unpack::{OPAQUE, WHITEOUT, opened_image, read_layer};
use crate::stall::ByteCount;

/// Read these files, by their paths below the image's root; one that the image does not have is left out. Layers are fetched from
/// the last down to the first that is needed.
pub(crate) async fn read(
    image: &ImageRef,
    config: ImageProxyConfig,
    paths: &[String],
) -> Result<Vec<ArtifactFile>, OsError> {
    read_from_layers(image, config, paths).await.map_err(|error| pull_failure(image, &error))
}

async fn read_from_layers(
    image: &ImageRef,
    config: ImageProxyConfig,
    paths: &[String],
) -> anyhow::Result<Vec<ArtifactFile>> {
    let (proxy, opened, manifest) = opened_image(image, config).await?;
    let received = ByteCount::default();
    let mut wanted: BTreeSet<_> = paths.iter().cloned().collect();
    let mut files = Vec::new();
    for layer in manifest.layers().iter().rev() {
        if wanted.is_empty() {
            break;
        }
        let of_layer = wanted.clone();
        let read = move |archive| LayerFiles::read(archive, &of_layer);
        let found = read_layer(&proxy, &opened, layer, &received, read).await?;
        wanted.retain(|path| !found.hides(path));
        files.extend(found.files);
    }
    proxy.close_image(&opened).await?;
    proxy.finalize().await?;
    Ok(files)
}

/// Entries of one layer for the wanted files.
#[derive(Default)]
struct LayerFiles {
    files: Vec<ArtifactFile>,
    /// Paths at and below which nothing of an earlier layer is left: of files that are here, and of removals.
    hidden: BTreeSet<String>,
}

impl LayerFiles {
    fn read(archive: impl Read, wanted: &BTreeSet<String>) -> anyhow::Result<Self> {
        let mut archive = tar::Archive::new(archive);
        let mut found = Self::default();
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = entry.path()?.into_owned();
            let path = path.strip_prefix("/").or_else(|_| path.strip_prefix("./")).unwrap_or(&path);
            let Some(path) = path.to_str().map(|path| path.trim_end_matches('/').to_owned()) else {
                continue;
            };
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", &path));
            if name == OPAQUE {
                found.hidden.insert(parent.to_owned());
            } else if let Some(gone) = name.strip_prefix(WHITEOUT) {
                found.hidden.insert(Path::new(parent).join(gone).display().to_string());
            } else if wanted.contains(&path) {
                found.hidden.insert(path.clone());
                if entry.header().entry_type().is_file() {
                    let most = limits::DOCUMENT_BYTES as u64;
                    ensure!(entry.size() <= most, "{path} in the image has more than {most} bytes");
                    let mut contents = Vec::new();
                    entry.read_to_end(&mut contents)?;
                    // The last of several entries wins.
                    found.files.retain(|file| file.path != path);
                    found.files.push(ArtifactFile { path, is_executable: false, contents });
                }
            }
        }
        // Read to the end: the proxy verifies the digest over the whole layer.
        std::io::copy(&mut archive.into_inner(), &mut std::io::sink())?;
        Ok(found)
    }

    /// Return true if no earlier layer says anything about the path.
    fn hides(&self, path: &str) -> bool {
        self.hidden.iter().any(|hidden| Path::new(path).starts_with(hidden))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain_images::layer;

    const WANTED: &str = "release-manifests/release-metadata";

    fn found(entries: &[(&str, &str)]) -> LayerFiles {
        LayerFiles::read(layer(entries).as_slice(), &BTreeSet::from([WANTED.to_owned()])).unwrap()
    }

    #[test]
    fn last_entry_of_a_path_is_its_file() {
        let read =
            found(&[("etc/passwd", "no"), (WANTED, "one"), ("./release-manifests/release-metadata", "two")]);
        assert!(read.hides(WANTED));
        let files: Vec<_> = read.files.iter().map(|file| file.contents.as_slice()).collect();
        assert_eq!(files, [b"two"]);
    }

    #[test]
    fn removed_file_is_not_looked_for_in_earlier_layers() {
        for (entries, is_hidden) in [
            (vec![("release-manifests/.wh.release-metadata", "")], true),
            (vec![("release-manifests/.wh..wh..opq", "")], true),
            (vec![(".wh.release-manifests", "")], true),
            (vec![("release-manifests/.wh.image-references", "")], false),
            (vec![(".wh.release", "")], false),
        ] {
            let read = found(&entries);
            assert!(read.files.is_empty());
            assert_eq!(read.hides(WANTED), is_hidden, "{entries:?}");
        }
    }
}

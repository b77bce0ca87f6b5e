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

/// What one layer says about the wanted files.
#[derive(Default)]
struct LayerFiles {
    files: Vec<ArtifactFile>,
    /// Paths that no earlier layer decides any more: those found, and those removed here.
    decided: BTreeSet<String>,
    /// Directories of which nothing of an earlier layer is left.
    emptied: BTreeSet<String>,
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
                found.emptied.insert(parent.to_owned());
            } else if let Some(gone) = name.strip_prefix(WHITEOUT) {
                let gone = Path::new(parent).join(gone).display().to_string();
                found.emptied.insert(gone.clone());
                found.decided.insert(gone);
            } else if wanted.contains(&path) {
                found.decided.insert(path.clone());
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
        let is_below = |directory: &String| Path::new(path).starts_with(directory);
        self.decided.contains(path) || self.emptied.iter().any(is_below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: &str = "release-manifests/release-metadata";

    fn found(entries: &[(&str, &str)]) -> LayerFiles {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, text) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
        let bytes = archive.into_inner().unwrap();
        LayerFiles::read(bytes.as_slice(), &BTreeSet::from([WANTED.to_owned()])).unwrap()
    }

    #[test]
    fn last_entry_of_a_path_is_its_file() {
        let layer =
            found(&[("etc/passwd", "no"), (WANTED, "one"), ("./release-manifests/release-metadata", "two")]);
        assert!(layer.hides(WANTED));
        let files: Vec<_> = layer.files.iter().map(|file| file.contents.as_slice()).collect();
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
            let layer = found(&entries);
            assert!(layer.files.is_empty());
            assert_eq!(layer.hides(WANTED), is_hidden, "{entries:?}");
        }
    }
}

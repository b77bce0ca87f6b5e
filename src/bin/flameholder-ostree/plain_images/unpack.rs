//! Extraction of files from a container image that is not an OS image, such as the extensions image.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use flameholder::core::config::artifact::LayerPacking;
use flameholder::core::values::image::ImageRef;
use flameholder::os::OsError;
use ostree_ext::container::{OstreeImageReference, SignatureSource};
use ostree_ext::containers_image_proxy::{ImageProxy, ImageProxyConfig, OpenedImage};
use ostree_ext::oci_spec::image::{Descriptor, ImageManifest};
use tokio_util::io::SyncIoBridge;

use crate::error_classes::pull_failure;
use crate::stall::{ByteCount, CountingReader, stalled, within_window};

/// Prefix of whiteout entries, which remove a file of an earlier layer (OCI image specification).
pub(crate) const WHITEOUT: &str = ".wh.";
/// Name of the opaque whiteout, which removes all earlier entries of its directory.
pub(crate) const OPAQUE: &str = ".wh..wh..opq";

/// Extract the regular files below the image path `within` into `directory`, which must exist and be empty.
pub(crate) async fn unpack(
    image: &ImageRef,
    config: ImageProxyConfig,
    within: &Path,
    directory: &Path,
) -> Result<(), OsError> {
    unpack_image(image, config, within, directory).await.map_err(|error| pull_failure(image, &error))
}

async fn unpack_image(
    image: &ImageRef,
    config: ImageProxyConfig,
    within: &Path,
    directory: &Path,
) -> anyhow::Result<()> {
    let (proxy, opened, manifest) = opened_image(image, config).await?;
    let received = ByteCount::default();
    for layer in manifest.layers() {
        let (to, from) = (directory.to_owned(), within.to_owned());
        read_layer(&proxy, &opened, layer, &received, move |archive| extract(archive, &from, &to)).await?;
    }
    proxy.close_image(&opened).await?;
    Ok(proxy.finalize().await?)
}

/// Open an image that is no OS image, and fetch its manifest.
pub(crate) async fn opened_image(
    image: &ImageRef,
    config: ImageProxyConfig,
) -> anyhow::Result<(ImageProxy, OpenedImage, ImageManifest)> {
    let reference = OstreeImageReference::try_from(image.to_string().as_str())?;
    ensure!(
        !matches!(reference.sigverify, SignatureSource::OstreeRemote(_)),
        "cannot currently verify an image that is no OS image by the keys of an OSTree remote"
    );
    let proxy = within_window(ImageProxy::new_with_config(config)).await??;
    let opened = within_window(proxy.open_image(&reference.imgref.to_string())).await??;
    let (_digest, manifest) = within_window(proxy.fetch_manifest(&opened)).await??;
    Ok((proxy, opened, manifest))
}

/// Fetch a layer, of which the proxy verifies the digest, and have its archive read. `read` reads it to its end.
pub(crate) async fn read_layer<T: Send + 'static>(
    proxy: &ImageProxy,
    opened: &OpenedImage,
    layer: &Descriptor,
    received: &ByteCount,
    read: impl FnOnce(Box<dyn Read>) -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let (blob, verified) = within_window(proxy.get_descriptor(opened, layer)).await??;
    let blob = SyncIoBridge::new(CountingReader::new(blob, received.clone()));
    let media_type = layer.media_type().to_string();
    let Some(packing) = LayerPacking::of(&media_type) else {
        bail!("layer {} has the unsupported media type {media_type}", layer.digest());
    };
    let reading = tokio::task::spawn_blocking(move || read(decompressed(blob, packing)?));
    // Concurrently: the proxy finishes when its pipe is read to the end.
    let both = async { tokio::join!(verified, reading) };
    tokio::select! {
        (verified, read) = both => {
            let read = read.context("unpacking a layer")??;
            verified?;
            Ok(read)
        }
        stall = stalled([received]) => Err(stall.into()),
    }
}

/// Return the reader of the archive in a layer.
pub(crate) fn decompressed<'a>(
    layer: impl Read + 'a,
    packing: LayerPacking,
) -> std::io::Result<Box<dyn Read + 'a>> {
    Ok(match packing {
        LayerPacking::Plain => Box::new(layer),
        LayerPacking::Gzip => Box::new(flate2::read::MultiGzDecoder::new(layer)),
        LayerPacking::Zstd => Box::new(zstd::stream::read::Decoder::new(layer)?),
    })
}

fn extract(layer: impl Read, within: &Path, directory: &Path) -> anyhow::Result<()> {
    let mut archive = tar::Archive::new(layer);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let Some(relative) = below(&path, within)? else { continue };
        let to = directory.join(&relative);
        let name = relative.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == OPAQUE {
            empty(to.parent().unwrap_or(directory))?;
        } else if let Some(gone) = name.strip_prefix(WHITEOUT) {
            // The rest of the name may be a path out of the directory, too.
            ensure!(!matches!(gone, "" | "." | ".."), "path {} leads out of the directory", path.display());
            remove(&to.with_file_name(gone))?;
        } else if entry.header().entry_type().is_dir() {
            std::fs::create_dir_all(&to)?;
        } else if entry.header().entry_type().is_file() {
            if let Some(parent) = to.parent() {
                std::fs::create_dir_all(parent)?;
            }
            remove(&to)?;
            let mut file = std::fs::File::create_new(&to).with_context(|| to.display().to_string())?;
            std::io::copy(&mut entry, &mut file).with_context(|| to.display().to_string())?;
        }
    }
    // Read to the end: the proxy verifies the digest over the whole layer.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink())?;
    Ok(())
}

/// Return the path relative to `within`; `None` if it is not below it. Paths with `..` are refused.
fn below(path: &Path, within: &Path) -> anyhow::Result<Option<PathBuf>> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                bail!("path {} leads out of the directory", path.display())
            }
        }
    }
    let relative = plain.strip_prefix(within.strip_prefix("/").unwrap_or(within)).ok();
    Ok(relative.filter(|relative| !relative.as_os_str().is_empty()).map(Path::to_owned))
}

fn remove(path: &Path) -> std::io::Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

fn empty(directory: &Path) -> std::io::Result<()> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Ok(()) };
    entries.flatten().try_for_each(|entry| remove(&entry.path()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain_images::layer;

    const WITHIN: &str = "/usr/share/rpm-ostree/extensions";

    #[test]
    fn later_layers_replace_and_remove_files() {
        let directory = tempfile::tempdir().unwrap();
        let put = |layer: Vec<u8>| extract(layer.as_slice(), Path::new(WITHIN), directory.path()).unwrap();
        let inside = |name: &str| format!("usr/share/rpm-ostree/extensions/{name}");
        let (a, b, repodata) = (inside("a.rpm"), inside("b.rpm"), inside("repodata/repomd.xml"));
        put(layer(&[(&a, "one"), (&b, "one"), (&repodata, "one"), ("etc/passwd", "no")]));
        put(layer(&[(&a, "two"), (&inside(".wh.b.rpm"), ""), (&inside("repodata/.wh..wh..opq"), "")]));
        put(layer(&[(&inside("repodata/new.xml"), "three")]));
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).ok();
        assert_eq!(read("a.rpm").as_deref(), Some("two"));
        assert_eq!((read("b.rpm"), read("repodata/repomd.xml")), (None, None));
        assert_eq!(read("repodata/new.xml").as_deref(), Some("three"));
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[test]
    fn whiteout_that_leads_out_of_the_directory_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(directory.path().join("beside"), "").unwrap();
        for name in [".wh.", ".wh..", ".wh..."] {
            let layer = layer(&[(&format!("usr/share/rpm-ostree/extensions/{name}"), "")]);
            let error = extract(layer.as_slice(), Path::new(WITHIN), &inside).unwrap_err();
            assert!(error.to_string().contains("leads out"), "{name}: {error}");
        }
        assert!(inside.exists() && directory.path().join("beside").exists());
    }

    #[test]
    fn path_with_parent_components_is_refused() {
        for path in ["../../etc/passwd", "usr/share/../../../etc/passwd"] {
            assert!(below(Path::new(path), Path::new(WITHIN)).is_err(), "{path}");
        }
        assert_eq!(below(Path::new("./usr/share/rpm-ostree/extensions"), Path::new(WITHIN)).unwrap(), None);
    }
}

//! Pull of an artifact of configs into memory, by the manifest that its reference had when it was opened.

use std::io::{ErrorKind, Read};

use anyhow::{Context as _, ensure};
use flameholder::core::config::artifact::{
    ArtifactError, ArtifactFile, ArtifactFiles, ArtifactLayer, ArtifactManifest, EntryKind, LayerContent,
    LayerPacking, PulledArtifact,
};
use flameholder::core::values::image::ImageRef;
use flameholder::core::values::limits;
use flameholder::os::{OsError, RedactedCause};
use ostree_ext::containers_image_proxy::{ImageProxy, ImageProxyConfig, OpenedImage};
use ostree_ext::oci_spec::image::Digest;
use tokio::io::AsyncRead;
use tokio_util::io::SyncIoBridge;

use crate::error_classes::pull_failure;
use crate::plain_images::unpack::decompressed;
use crate::signature_policy::SignaturePolicy;
use crate::stall::{ByteCount, CountingReader, stalled, within_window};

/// Mode bits of a program.
const EXECUTABLE: u32 = 0o111;

/// Pull the files of an artifact; `None` if its manifest has the digest `known`. Nothing but the manifest is read then, and where
/// the manifest is refused.
pub(crate) async fn pull(image: &ImageRef, known: Option<&str>) -> Result<Option<PulledArtifact>, OsError> {
    let artifact = format!("oci://{}", image.name());
    let mut digest = None;
    let pulled = match SignaturePolicy::from_environment()?.configure_for_files(image).await {
        Ok(config) => pull_files(image, config, known, &mut digest).await.map_err(|error| {
            match error
                .downcast_ref::<ArtifactError>()
                .map(|refused| RedactedCause::new(&refused.to_string()))
            {
                Some(source) => {
                    OsError::ArtifactRefused { artifact: artifact.clone(), digest: digest.clone(), source }
                }
                None => pull_failure(image, &error),
            }
        }),
        Err(error) => Err(error),
    };
    match pulled {
        Ok(files) => Ok(files.zip(digest).map(|(files, digest)| PulledArtifact { digest, files })),
        // By the name that the operator knows.
        Err(OsError::Pull { reason, source, .. }) => Err(OsError::Pull { image: artifact, reason, source }),
        Err(error) => Err(error),
    }
}

/// Pull the files, and note the digest of the manifest.
async fn pull_files(
    image: &ImageRef,
    config: ImageProxyConfig,
    known: Option<&str>,
    digest: &mut Option<String>,
) -> anyhow::Result<Option<ArtifactFiles>> {
    let proxy = within_window(ImageProxy::new_with_config(config)).await??;
    // The source of the image that it opens reads the manifest of a tag once: a tag that moves later changes nothing.
    let opened = within_window(proxy.open_image(&format!("docker://{}", image.name()))).await??;
    let (found, manifest) = within_window(proxy.fetch_manifest_raw_oci(&opened)).await??;
    let is_known = known == Some(found.as_str());
    *digest = Some(found);
    let mut files = ArtifactFiles::default();
    if !is_known {
        let received = ByteCount::default();
        for layer in ArtifactManifest::parse(&manifest)?.layers {
            files = tokio::select! {
                fetched = fetch(&proxy, &opened, &layer, files, &received) => fetched?,
                stall = stalled([&received]) => return Err(stall.into()),
            };
        }
    }
    proxy.close_image(&opened).await?;
    proxy.finalize().await?;
    Ok((!is_known).then_some(files))
}

/// Fetch a layer, of which the proxy verifies the digest, and add its files.
async fn fetch(
    proxy: &ImageProxy,
    opened: &OpenedImage,
    layer: &ArtifactLayer,
    files: ArtifactFiles,
    received: &ByteCount,
) -> anyhow::Result<ArtifactFiles> {
    let digest: Digest =
        layer.digest.parse().with_context(|| format!("reading the digest {}", layer.digest))?;
    let (blob, verified) = within_window(proxy.get_blob(opened, &digest, layer.size)).await??;
    let reading = read_layer(CountingReader::new(blob, received.clone()), layer.clone(), files);
    // Concurrently: the proxy finishes when its pipe is read to the end, or closed.
    let (read, verified) = tokio::join!(reading, verified);
    match read {
        Err(error) if !error.is::<ArtifactError>() => Err(error),
        // It is no fault of the artifact if the bytes are not those of the layer.
        read => verified.map_err(anyhow::Error::from).and(read),
    }
}

async fn read_layer(
    blob: impl AsyncRead + Send + Unpin + 'static,
    layer: ArtifactLayer,
    mut files: ArtifactFiles,
) -> anyhow::Result<ArtifactFiles> {
    let blob = SyncIoBridge::new(blob);
    let reading = tokio::task::spawn_blocking(move || {
        // One byte more than the manifest says tells that there are too many.
        let mut blob = blob.take(layer.size.saturating_add(1));
        let number = layer.number;
        let added = match layer.content {
            LayerContent::File(path) => {
                let mut contents = Vec::new();
                blob.read_to_end(&mut contents)?;
                files.add(ArtifactFile { path, is_executable: false, contents }).map_err(Into::into)
            }
            LayerContent::Archive(packing) => {
                let mut above = files.next_layer();
                let unpacked = unpack(&mut blob, packing, &mut above);
                unpacked.and_then(|()| Ok(files.overlay(above)?)).map_err(|error| at_layer(number, error))
            }
        };
        // To the end, also where it is refused: the digest is one of the whole layer.
        std::io::copy(&mut blob, &mut std::io::sink())?;
        ensure!(blob.limit() > 0, "size mismatch: layer {number} is longer than the manifest says");
        added.map(|()| files)
    });
    reading.await.context("reading a layer")?
}

/// Name the layer whose archive cannot be read.
fn at_layer(layer: usize, error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<std::io::Error>() {
        Ok(cause) => ArtifactError::Archive { layer, cause: cause.to_string() }.into(),
        Err(error) => error,
    }
}

/// Add the files of an archive.
fn unpack(blob: impl Read, packing: LayerPacking, files: &mut ArtifactFiles) -> anyhow::Result<()> {
    let most = limits::ARTIFACT_ARCHIVE_BYTES as u64;
    let mut archive = tar::Archive::new(decompressed(blob, packing)?.take(most));
    let read = read_entries(&mut archive, files);
    let mut rest = archive.into_inner();
    let is_too_large = rest.limit() == 0;
    match read {
        // The archive ends there for its reader.
        Err(error) if is_too_large && error.is::<std::io::Error>() => return Err(ArtifactError::Size.into()),
        read => read?,
    }
    std::io::copy(&mut rest, &mut std::io::sink())?;
    ensure!(rest.limit() > 0, ArtifactError::Size);
    Ok(())
}

fn read_entries(archive: &mut tar::Archive<impl Read>, files: &mut ArtifactFiles) -> anyhow::Result<()> {
    for entry in archive.entries()? {
        let mut entry = entry?;
        let bytes = entry.path_bytes();
        let path = std::str::from_utf8(&bytes);
        let path = path.map_err(|_| ArtifactError::Path(String::from_utf8_lossy(&bytes).into_owned()))?;
        let Some(path) = files.entry(path, kind(entry.header().entry_type()))? else { continue };
        let is_executable = entry.header().mode()? & EXECUTABLE != 0;
        let expected = entry.size();
        let mut contents = Vec::new();
        entry.by_ref().take(files.most_bytes()).read_to_end(&mut contents)?;
        let length = contents.len() as u64;
        files.add(ArtifactFile { path, is_executable, contents })?;
        if length < expected {
            return Err(std::io::Error::from(ErrorKind::UnexpectedEof).into());
        }
    }
    Ok(())
}

fn kind(kind: tar::EntryType) -> EntryKind {
    use tar::EntryType;
    match kind {
        EntryType::Regular | EntryType::Continuous => EntryKind::File,
        EntryType::Directory => EntryKind::Directory,
        EntryType::Symlink => EntryKind::Other("a symbolic link"),
        EntryType::Link => EntryKind::Other("a hard link"),
        EntryType::Char | EntryType::Block => EntryKind::Other("a device"),
        EntryType::Fifo => EntryKind::Other("a pipe"),
        _ => EntryKind::Other("an entry of an unknown kind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(entries: &[(&str, tar::EntryType, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, kind, contents) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_size(contents.len() as u64);
            header.set_mode(if *path == "files/b.sh" { 0o755 } else { 0o644 });
            if kind.is_symlink() || kind.is_hard_link() {
                header.set_link_name("/etc/passwd").unwrap();
            }
            // As an attacker writes it: the builder's own methods refuse some paths.
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            archive.append(&header, *contents).unwrap();
        }
        archive.into_inner().unwrap()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn unpacked(bytes: &[u8], packing: LayerPacking) -> Result<ArtifactFiles, String> {
        let mut files = ArtifactFiles::default();
        unpack(bytes, packing, &mut files).map_err(|error| at_layer(3, error).to_string())?;
        Ok(files)
    }

    #[test]
    fn files_of_an_archive_keep_path_contents_and_execute_bit() {
        use tar::EntryType::{Directory, Regular};
        let plain = archive(&[
            ("./files", Directory, b""),
            ("./10-a.bu", Regular, b"a"),
            ("files/b.sh", Regular, b"b"),
        ]);
        let zstd = zstd::encode_all(plain.as_slice(), 0).unwrap();
        for (bytes, packing) in
            [(&plain, LayerPacking::Plain), (&gzip(&plain), LayerPacking::Gzip), (&zstd, LayerPacking::Zstd)]
        {
            let files: Vec<_> = unpacked(bytes, packing).unwrap().into_files().collect();
            let found: Vec<_> = files
                .iter()
                .map(|file| (file.path.as_str(), file.is_executable, file.contents.as_slice()))
                .collect();
            assert_eq!(found, [("10-a.bu", false, &b"a"[..]), ("files/b.sh", true, &b"b"[..])]);
        }
    }

    #[test]
    fn hostile_archive_is_refused_by_its_fault() {
        use tar::EntryType::{Block, Fifo, Link, Regular, Symlink};
        for (entries, words) in [
            (vec![("../a.bu", Regular, &b"a"[..])], "\"../a.bu\" leads out"),
            (vec![("a/../../a.bu", Regular, b"a")], "leads out"),
            (vec![("a.bu", Symlink, b"")], "\"a.bu\" is a symbolic link"),
            (vec![("a.bu", Link, b"")], "\"a.bu\" is a hard link"),
            (vec![("a.bu", Block, b"")], "is a device"),
            (vec![("a.bu", Fifo, b"")], "is a pipe"),
            (vec![(".wh.a.bu", Regular, b"")], "removes files"),
            (vec![("a.bu", Regular, b"a"), ("./a.bu", Regular, b"b")], "\"a.bu\" is there twice"),
            (vec![("a", Regular, b"a"), ("a/b", Regular, b"b")], "is a file, and the directory"),
        ] {
            let refused = unpacked(&archive(&entries), LayerPacking::Plain).unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
    }

    #[test]
    fn truncated_and_endless_archives_are_refused() {
        let plain = archive(&[("a.bu", tar::EntryType::Regular, &[7; 5000])]);
        let packed = gzip(&plain);
        for (bytes, packing) in [
            (&packed[..packed.len() - 4], LayerPacking::Gzip),
            (&packed[..20], LayerPacking::Gzip),
            (&b"no gzip at all"[..], LayerPacking::Gzip),
            (&plain[..2000], LayerPacking::Plain),
        ] {
            let refused = unpacked(bytes, packing).unwrap_err();
            assert!(refused.contains("the archive in its layer 3 is damaged"), "{refused}");
        }
        // Zeros follow the end of the archive for ever.
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, &plain).unwrap();
        let mut zeros = std::io::repeat(0).take(limits::ARTIFACT_ARCHIVE_BYTES as u64);
        std::io::copy(&mut zeros, &mut encoder).unwrap();
        let refused = unpacked(&encoder.finish().unwrap(), LayerPacking::Gzip).unwrap_err();
        assert_eq!(refused, ArtifactError::Size.to_string());
    }
}

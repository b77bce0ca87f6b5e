//! Import of a container image as a commit into the sysroot's repository.

mod unverified_layers;

use std::process::Command;

use flameholder::core::plan::FetchSize;
use flameholder::core::values::image::{ImageRef, ImageTransport};
use flameholder::os::{ImportedCommit, OsError, PullPhase, PullProgress, pull_secret};
use ostree_ext::container::store::{
    self, ImageImporter, ImportProgress, LayerProgress, LayeredImageState, PrepareResult, PreparedImport,
};
use ostree_ext::container::{ImageReference, OstreeImageReference};
use ostree_ext::containers_image_proxy::ImageProxyConfig;
use ostree_ext::ostree;
use tokio::sync::{mpsc, watch};

use self::unverified_layers::UnverifiedLayers;
use crate::error_classes::{failure, pull_failure};
use crate::read_ahead::ReadAhead;
use crate::signature_policy::SignaturePolicy;
use crate::stall::{ByteCount, stalled, within_window};

/// Progress reports per import: one per hundredth of the bytes.
const STEPS: u64 = 100;

/// Import an image. A reference by a digest that the repository has needs no network, unless it demands a
/// signature: the repository does not tell if the image was verified.
pub(crate) async fn import(
    repo: &ostree::Repo,
    policy: &mut SignaturePolicy,
    image: &ImageRef,
    progress: impl FnMut(PullProgress),
) -> Result<ImportedCommit, OsError> {
    let failed = |error| pull_failure(image, &error);
    if let Some(state) = find_pinned(repo, policy, image).map_err(failed)? {
        return Ok(describe(&state, &Amount::default()));
    }
    let config = policy.configure(image).await?;
    let imported = import_image(repo, image, config, progress).await.map_err(failed)?;
    Ok(ImportedCommit { signature: policy.verdict(image).await, ..imported })
}

/// Ask for the layers that [`import`] would fetch.
pub(crate) async fn measure(
    repo: &ostree::Repo,
    policy: &mut SignaturePolicy,
    image: &ImageRef,
) -> Result<FetchSize, OsError> {
    let failed = |error| pull_failure(image, &error);
    if find_pinned(repo, policy, image).map_err(failed)?.is_some() {
        return Ok(FetchSize { layers: 0, bytes: 0 });
    }
    let config = policy.configure(image).await?;
    let (_, prepared) = prepare(repo, image, config).await.map_err(failed)?;
    let Amount { layers, bytes, .. } = match &prepared {
        PrepareResult::AlreadyPresent(_) => Amount::default(),
        PrepareResult::Ready(prepared) => Amount::of(prepared),
    };
    Ok(FetchSize { layers, bytes })
}

/// Read the manifest of an image, and compare it with the repository.
async fn prepare(
    repo: &ostree::Repo,
    image: &ImageRef,
    config: ImageProxyConfig,
) -> anyhow::Result<(ImageImporter, PrepareResult)> {
    let reference = OstreeImageReference::try_from(image.to_string().as_str())?;
    let mut importer = within_window(ImageImporter::new(repo, &reference, config)).await??;
    importer.require_bootable();
    let prepared = within_window(importer.prepare()).await??;
    Ok((importer, prepared))
}

/// Find an imported image by its manifest digest.
pub(crate) fn find(repo: &ostree::Repo, digest: &str) -> Result<Option<ImportedCommit>, OsError> {
    let found = find_digest(repo, digest)
        .map_err(|error| failure(format!("looking for the image {digest} in the repository"), &error))?;
    Ok(found.map(|state| describe(&state, &Amount::default())))
}

async fn import_image(
    repo: &ostree::Repo,
    image: &ImageRef,
    mut config: ImageProxyConfig,
    mut progress: impl FnMut(PullProgress),
) -> anyhow::Result<ImportedCommit> {
    progress(Amount::default().progress(PullPhase::Manifest));
    unverified_layers::discard(repo)?;
    let mut ahead = match image.transport() {
        ImageTransport::Registry => ReadAhead::insert(&mut config, repo)?,
        // Local: a disk reads one layer as fast as several.
        _ => None,
    };
    let (importer, prepared) = prepare(repo, image, config).await?;
    let prepared = match prepared {
        PrepareResult::AlreadyPresent(state) => return Ok(describe(&state, &Amount::default())),
        PrepareResult::Ready(prepared) => prepared,
    };
    let amount = Amount::of(&prepared);
    if let Some(ahead) = &mut ahead {
        ahead.begin(&prepared)?;
    }
    let mut unverified = UnverifiedLayers::record(repo, &prepared)?;
    match fetch(importer, prepared, ahead, &mut unverified, amount.clone(), &mut progress).await {
        Ok(state) => unverified.end().map(|()| describe(&state, &amount)),
        Err(error) => {
            // Other programs use the repository too. The next import does this again.
            let _ = unverified_layers::remove_layers(repo).inspect_err(|error| eprintln!("{error:#}"));
            Err(error)
        }
    }
}

/// Find an image that its reference pins by digest and that needs no signature.
fn find_pinned(
    repo: &ostree::Repo,
    policy: &SignaturePolicy,
    image: &ImageRef,
) -> anyhow::Result<Option<Box<LayeredImageState>>> {
    let digest = image.digest().filter(|_| !policy.governs(image));
    digest.map_or(Ok(None), |digest| find_digest(repo, digest))
}

/// Find an image with this manifest, under any reference.
fn find_digest(repo: &ostree::Repo, digest: &str) -> anyhow::Result<Option<Box<LayeredImageState>>> {
    for name in store::list_images(repo)? {
        let reference = ImageReference::try_from(name.as_str())?;
        match store::query_image(repo, &reference) {
            Ok(Some(state)) if state.manifest_digest.as_ref() == digest => return Ok(Some(state)),
            Ok(_) => {}
            // A damaged or partly removed image is fetched again.
            Err(error) => eprintln!("image {name} in the repository is unusable and ignored: {error:#}"),
        }
    }
    Ok(None)
}

/// Configure skopeo. ostree-ext drops its privileges by default; for images in files of this host, which only
/// root may be able to read, it runs as root and without credentials.
pub(crate) fn proxy_config(image: &ImageRef) -> ImageProxyConfig {
    match image.transport() {
        ImageTransport::Registry => {
            ImageProxyConfig { authfile: pull_secret::cluster_pull_secret(), ..ImageProxyConfig::default() }
        }
        ImageTransport::ContainersStorage => ImageProxyConfig::default(),
        ImageTransport::Oci
        | ImageTransport::OciArchive
        | ImageTransport::DockerArchive
        | ImageTransport::Directory => ImageProxyConfig {
            skopeo_cmd: Some(Command::new("skopeo")),
            auth_anonymous: true,
            ..ImageProxyConfig::default()
        },
    }
}

/// Run the import and report its progress.
async fn fetch(
    mut importer: ImageImporter,
    prepared: Box<PreparedImport>,
    mut ahead: Option<ReadAhead>,
    unverified: &mut UnverifiedLayers<'_>,
    mut amount: Amount,
    progress: &mut impl FnMut(PullProgress),
) -> anyhow::Result<Box<LayeredImageState>> {
    let mut layers = importer.request_progress();
    let mut bytes = importer.request_layer_progress();
    let import = importer.import(prepared);
    // A layer that is fetched ahead arrives before it is imported, and may be imported when nothing arrives any more.
    let (received, unpacked) = (ByteCount::default(), ByteCount::default());
    let stalled = stalled([&received, &unpacked]);
    let counted = async {
        match &mut ahead {
            Some(ahead) => ahead.count(&received).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(import, stalled, counted);
    loop {
        tokio::select! {
            // Progress first, so that every step is reported before the end.
            biased;
            Some(step) = next_step(&mut layers, &mut bytes) => {
                if let Step::LayerDone { digest, .. } = &step {
                    unverified.keep(digest)?;
                }
                if let Some(news) = amount.advance(&step) {
                    progress(news);
                }
                unpacked.raise_to(amount.received);
            }
            () = &mut counted => {}
            state = &mut import => return state,
            // Once all layers are complete, the commit is written, and nothing arrives any more.
            stall = &mut stalled, if amount.layers_done < amount.layers => return Err(stall.into()),
        }
    }
}

enum Step {
    LayerStarted,
    /// Stored and verified.
    LayerDone {
        digest: String,
        size: u64,
    },
    Bytes {
        fetched: u64,
        size: u64,
    },
}

/// Wait for the next step; `None` after the importer dropped its channels, shortly before it returns.
async fn next_step(
    layers: &mut mpsc::Receiver<ImportProgress>,
    bytes: &mut watch::Receiver<Option<LayerProgress>>,
) -> Option<Step> {
    tokio::select! {
        // Bytes first: a layer's last bytes precede its completion.
        biased;
        Ok(()) = bytes.changed() => {
            let seen = bytes.borrow_and_update();
            let (fetched, size) = seen.as_ref().map_or((0, 0), |layer| (layer.fetched, layer.total));
            Some(Step::Bytes { fetched, size })
        }
        Some(layer) = layers.recv() => Some(match layer {
            ImportProgress::OstreeChunkStarted(_) | ImportProgress::DerivedLayerStarted(_) => Step::LayerStarted,
            ImportProgress::OstreeChunkCompleted(layer) | ImportProgress::DerivedLayerCompleted(layer) => {
                Step::LayerDone { digest: layer.digest().to_string(), size: layer.size() }
            }
        }),
        else => None,
    }
}

/// Amount of data to fetch, and the part that is fetched.
#[derive(Default, Clone)]
struct Amount {
    layers_done: usize,
    layers: usize,
    /// Bytes of complete layers.
    complete: u64,
    bytes: u64,
    /// Bytes at the last reported step.
    told: u64,
    /// Bytes of complete layers and of the one that is fetched.
    received: u64,
}

impl Amount {
    fn of(prepared: &PreparedImport) -> Self {
        let missing = || prepared.all_layers().filter(|layer| layer.commit.is_none());
        Self {
            layers: missing().count(),
            bytes: missing().map(|layer| layer.layer().size()).sum(),
            ..Self::default()
        }
    }

    /// Count a step; returns the progress if it is worth a report.
    fn advance(&mut self, step: &Step) -> Option<PullProgress> {
        match *step {
            Step::LayerStarted => Some(self.progress(PullPhase::Layers)),
            Step::LayerDone { size, .. } => {
                self.layers_done += 1;
                self.complete += size;
                self.received = self.complete;
                self.told = self.complete;
                let all = self.layers_done >= self.layers;
                Some(self.progress(if all { PullPhase::Merge } else { PullPhase::Layers }))
            }
            Step::Bytes { fetched, size } => {
                // Capped: the importer counts bytes from one.
                let now = (self.complete + fetched.min(size)).min(self.bytes);
                self.received = self.complete + fetched;
                let worth = self.layers_done < self.layers && now >= self.told + (self.bytes / STEPS).max(1);
                worth.then(|| {
                    self.told = now;
                    self.progress(PullPhase::Layers)
                })
            }
        }
    }

    fn progress(&self, phase: PullPhase) -> PullProgress {
        PullProgress {
            phase,
            layers_done: self.layers_done,
            layers: self.layers,
            bytes_done: self.told,
            bytes: self.bytes,
        }
    }
}

fn describe(state: &LayeredImageState, amount: &Amount) -> ImportedCommit {
    ImportedCommit {
        commit: state.merge_commit.clone(),
        manifest_digest: Some(state.manifest_digest.to_string()),
        version: state.version().map(str::to_owned),
        signature: None,
        layers_fetched: amount.layers,
        bytes_fetched: amount.bytes,
        staged: None,
        transactions: 0,
    }
}

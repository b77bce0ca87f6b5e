//! Jobs for the pinned image sets of the node: pull the missing images, and have the container runtime keep all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream;
use rustix::fs::statvfs;
use tokio::runtime;

use crate::core::daemon::lifecycle::DaemonEvent;
use crate::core::pinned_images::credentials;
use crate::core::pinned_images::image_sets::PinnedImageSets;
use crate::core::pinned_images::pin_state::PinState;
use crate::core::pinned_images::pull_space::{ImageSpace, LayerSizes, unpacked_bytes};
use crate::core::values::causes::chain;
use crate::core::values::paths::KUBELET_PULL_SECRET;
use crate::core::values::refusal::RefusalList;
use crate::cri::{CriClient, CriError, SOCKET, image_layers};
use crate::host::{RunningHost, SystemdServices};
use crate::transaction::pinned_images::PinError;
use crate::transaction::{TransactionError, handover, pinned_images};

/// Attempts to pull an image in one job (MCO's value).
const ATTEMPTS: u32 = 5;
/// Pause before the second attempt; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest time of one attempt. CRI-O ends a pull without progress much earlier.
const LONGEST_PULL: Duration = Duration::from_secs(1800);
/// Time between two reports of progress.
const BETWEEN_REPORTS: Duration = Duration::from_secs(60);
/// Longest time for CRI-O to start, beside the daemon in a boot.
const LONGEST_START: Duration = Duration::from_secs(180);
const BETWEEN_CONNECTS: Duration = Duration::from_secs(2);
/// Longest time for the sizes of all images, and the number of images whose sizes are read at the same time.
const LONGEST_SIZES: Duration = Duration::from_secs(180);
const SIZES_AT_ONCE: usize = 5;
const MEBIBYTE: u64 = 1 << 20;

/// Pull the missing images, each until its last attempt. `report` gets the state at the beginning and each minute.
pub(super) fn pull(
    host: &RunningHost,
    document: &[u8],
    report: &mut dyn FnMut(DaemonEvent),
) -> Result<DaemonEvent, TransactionError> {
    handover::ensure_mcd_stopped()?;
    let (sets, images) = decode(document)?;
    let (missing, failures) = if images.is_empty() {
        // Nothing that the container runtime would have to be asked.
        (BTreeSet::new(), BTreeMap::new())
    } else {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let job = PullJob { sets: &sets, images: &images };
        runtime.map_err(PinError::Start)?.block_on(job.run(report))?
    };
    let state = PinState::of(&sets, images.len(), &missing, &failures);
    let is_pinned = missing.is_empty() && pinned_images::is_pinned(&host.root, &images)?;
    Ok(DaemonEvent::PinsChanged(if is_pinned { state.pinned() } else { state }))
}

/// Have the container runtime keep the images, all of which are on the node.
pub(super) fn pin(host: &RunningHost, document: &[u8]) -> Result<DaemonEvent, TransactionError> {
    handover::ensure_mcd_stopped()?;
    let (sets, images) = decode(document)?;
    let locked = host.lock()?;
    if pinned_images::pin(&locked, &SystemdServices::system(), &images)? {
        log::info!("CRI-O keeps {} pinned images", images.len());
    }
    let state = PinState::of(&sets, images.len(), &BTreeSet::new(), &BTreeMap::new());
    Ok(DaemonEvent::PinsChanged(state.pinned()))
}

fn decode(document: &[u8]) -> Result<(PinnedImageSets, BTreeSet<String>), PinError> {
    let sets: PinnedImageSets = serde_json::from_slice(document)
        .map_err(|_| PinError::Refused(RefusalList::one("", "the document is damaged")))?;
    let images = sets.images().map_err(PinError::Refused)?;
    Ok((sets, images))
}

struct PullJob<'a> {
    sets: &'a PinnedImageSets,
    images: &'a BTreeSet<String>,
}

/// Missing images, and the reasons of failed pulls by image.
type PullResults = (BTreeSet<String>, BTreeMap<String, String>);

impl PullJob<'_> {
    async fn run(&self, report: &mut dyn FnMut(DaemonEvent)) -> Result<PullResults, PinError> {
        let cri = connect().await?;
        let mut missing = missing_images(&cri, self.images).await?;
        let mut failures = BTreeMap::new();
        if missing.is_empty() {
            return Ok((missing, failures));
        }
        let mut report = |missing: &BTreeSet<String>, failures: &BTreeMap<String, String>| {
            let state = PinState::of(self.sets, self.images.len(), missing, failures);
            report(DaemonEvent::PinsChanged(state));
        };
        report(&missing, &failures);
        ensure_space(&cri, &missing).await?;
        let wanted = missing.clone();
        let pulls = stream::iter(&wanted).map(|image| {
            let pulled = pull_image(&cri, image);
            async move { (image, pulled.await) }
        });
        let mut pulls = pulls.buffer_unordered(self.sets.pulls_at_once());
        let mut next_report = Instant::now() + BETWEEN_REPORTS;
        while let Some((image, pulled)) = pulls.next().await {
            match pulled {
                Ok(()) => drop(missing.remove(image)),
                // Every further pull would fail in the same way, and make it worse for the workload.
                Err(error) if error.is_about_space() => return Err(error),
                Err(error) => {
                    let reason = format!("pulling {image}: {}", chain(&error));
                    log::warn!("{reason}");
                    failures.insert(image.clone(), reason);
                }
            }
            if Instant::now() >= next_report {
                report(&missing, &failures);
                next_report = Instant::now() + BETWEEN_REPORTS;
            }
        }
        drop(pulls);
        // The images of the runtime count, not the answer to a pull.
        let missing = missing_images(&cri, self.images).await?;
        failures.retain(|image, _| missing.contains(image));
        for image in &missing {
            let reason = || format!("{image} is pulled, but CRI-O does not have it");
            failures.entry(image.clone()).or_insert_with(reason);
        }
        Ok((missing, failures))
    }
}

/// Connect to the container runtime, which may still be starting.
async fn connect() -> Result<CriClient, CriError> {
    let ends = Instant::now() + LONGEST_START;
    loop {
        match CriClient::connect(Path::new(SOCKET)).await {
            Err(CriError::Unreachable { .. }) if Instant::now() < ends => {
                tokio::time::sleep(BETWEEN_CONNECTS).await;
            }
            connected => return connected,
        }
    }
}

/// Pull an image, in several attempts, as far as that takes nothing of the space that is kept free.
async fn pull_image(cri: &CriClient, image: &str) -> Result<(), PinError> {
    let mut pause = FIRST_PAUSE;
    for attempt in 1.. {
        // The runtime finds its credentials itself, those of mirrors too, unless it was not told where.
        let secret = (attempt > 1).then(|| std::fs::read(KUBELET_PULL_SECRET).ok()).flatten();
        let credentials = secret.and_then(|secret| credentials::for_image(&secret, image));
        let pulled = async {
            let directory = cri.image_directory().await?;
            match image_space(&directory) {
                Some(space) if !space.has_room_for(0) => Err(no_space(1, &directory, space, 0)),
                _ => Ok(cri.pull(image, credentials.as_ref(), LONGEST_PULL).await?),
            }
        };
        match pulled.await {
            Err(error) if error.may_pass() && attempt < ATTEMPTS => {
                log::debug!("attempt {attempt} to pull {image}: {}", chain(&error));
            }
            ended => return ended,
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    Ok(())
}

/// Fail unless the missing images fit. An image whose size its registry does not tell in time does not count: each pull
/// begins only while the reserve is free.
async fn ensure_space(cri: &CriClient, missing: &BTreeSet<String>) -> Result<(), PinError> {
    let directory = cri.image_directory().await?;
    let Some(space) = image_space(&directory) else { return Ok(()) };
    let sizes = stream::iter(missing)
        .map(|image| async move { (image, image_layers(image, Path::new(KUBELET_PULL_SECRET)).await) });
    let mut sizes = sizes.buffer_unordered(SIZES_AT_ONCE);
    let mut layers = LayerSizes::new();
    let ends = tokio::time::Instant::now() + LONGEST_SIZES;
    while let Ok(Some((image, found))) = tokio::time::timeout_at(ends, sizes.next()).await {
        match found {
            Ok(found) => layers.extend(found),
            Err(reason) => log::warn!("the size of {image} is unknown: {reason}"),
        }
    }
    let needed = unpacked_bytes(&layers);
    if space.has_room_for(needed) { Ok(()) } else { Err(no_space(missing.len(), &directory, space, needed)) }
}

fn no_space(images: usize, directory: &Path, space: ImageSpace, needed: u64) -> PinError {
    PinError::NoSpace {
        images,
        place: directory.display().to_string(),
        needed: needed.div_ceil(MEBIBYTE),
        free: space.free / MEBIBYTE,
        reserve: space.reserve() / MEBIBYTE,
    }
}

async fn missing_images(cri: &CriClient, images: &BTreeSet<String>) -> Result<BTreeSet<String>, CriError> {
    let mut missing = BTreeSet::new();
    for image in images {
        if !cri.has_image(image).await? {
            missing.insert(image.clone());
        }
    }
    Ok(missing)
}

/// Space of the file system that `directory` is on, or will be on once the runtime makes it; `None` if it cannot be told.
fn image_space(directory: &Path) -> Option<ImageSpace> {
    let existing = directory.ancestors().find(|path| path.exists())?;
    let stat = statvfs(existing).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Some(ImageSpace { free: bytes(stat.f_bavail), total: bytes(stat.f_blocks) })
}

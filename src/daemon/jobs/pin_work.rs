//! Jobs for the pinned image sets of the node: pull what is missing, and have the container runtime keep all of it.

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
use crate::core::values::refusal::RefusalList;
use crate::cri::{CriClient, CriError, SOCKET, image_layers};
use crate::host::{RunningHost, SystemdServices};
use crate::transaction::pinned_images::PinError;
use crate::transaction::{TransactionError, handover, pinned_images};

/// Pull secret of the kubelet, which CRI-O uses as well.
const PULL_SECRET: &str = "/var/lib/kubelet/config.json";
/// Attempts to pull an image in one job.
const ATTEMPTS: u32 = 5;
/// Pause before the second attempt; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest time of one attempt.
const LONGEST_PULL: Duration = Duration::from_secs(3600);
const MEBIBYTE: u64 = 1 << 20;

/// Look for missing images, and fail unless there is room for them. With `within`, pull them instead; no further pull
/// begins after that time.
pub(super) fn pull(
    host: &RunningHost,
    within: Option<Duration>,
    document: &[u8],
) -> Result<DaemonEvent, TransactionError> {
    handover::ensure_mcd_stopped()?;
    let (sets, images) = decode(document)?;
    let (missing, failures) = if images.is_empty() {
        // Nothing that the container runtime would have to be asked.
        (BTreeSet::new(), BTreeMap::new())
    } else {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let job = PullJob { sets: &sets, ends: within.map(|within| Instant::now() + within) };
        runtime.map_err(PinError::Start)?.block_on(job.run(&images))?
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
    /// Time after which no further pull begins; `None` for a job that pulls nothing.
    ends: Option<Instant>,
}

/// Missing images, and the reasons of failed pulls by image.
type PullResults = (BTreeSet<String>, BTreeMap<String, String>);

impl PullJob<'_> {
    async fn run(&self, images: &BTreeSet<String>) -> Result<PullResults, PinError> {
        let cri = CriClient::connect(Path::new(SOCKET)).await?;
        let missing = missing_images(&cri, images).await?;
        let Some(ends) = self.ends.filter(|_| !missing.is_empty()) else {
            self.ensure_space(&cri, &missing).await?;
            return Ok((missing, BTreeMap::new()));
        };
        let pulls = stream::iter(&missing).map(|image| {
            let pulled = pull_image(&cri, image, ends);
            async move { (image, pulled.await) }
        });
        let mut pulls = pulls.buffer_unordered(self.sets.pulls_at_once());
        let mut failures = BTreeMap::new();
        while let Some((image, pulled)) = pulls.next().await {
            match pulled {
                Ok(()) => {}
                // Every further pull would fail in the same way, and make it worse for the workload.
                Err(error) if error.ends_pulls() => return Err(error.into()),
                Err(error) => {
                    let reason = format!("pulling {image}: {}", chain(&error));
                    log::warn!("{reason}");
                    failures.insert(image.clone(), reason);
                }
            }
        }
        drop(pulls);
        // What a pull said does not count, but what the runtime has.
        let missing = missing_images(&cri, images).await?;
        failures.retain(|image, _| missing.contains(image));
        Ok((missing, failures))
    }

    /// Fail unless the missing images fit. An image whose size its registry does not tell does not count: each pull begins
    /// only while the reserve is free.
    async fn ensure_space(&self, cri: &CriClient, missing: &BTreeSet<String>) -> Result<(), PinError> {
        let directory = cri.image_directory().await?;
        let Some(space) = image_space(&directory).filter(|_| !missing.is_empty()) else { return Ok(()) };
        let sizes = stream::iter(missing)
            .map(|image| async move { (image, image_layers(image, Path::new(PULL_SECRET)).await) });
        let mut sizes = sizes.buffer_unordered(self.sets.pulls_at_once());
        let mut layers = LayerSizes::new();
        while let Some((image, found)) = sizes.next().await {
            match found {
                Ok(found) => layers.extend(found),
                Err(reason) => log::warn!("the size of {image} is unknown: {reason}"),
            }
        }
        let needed = unpacked_bytes(&layers);
        if space.has_room_for(needed) {
            return Ok(());
        }
        Err(PinError::NoSpace {
            images: missing.len(),
            place: directory.display().to_string(),
            needed: needed.div_ceil(MEBIBYTE),
            free: space.free / MEBIBYTE,
            reserve: space.reserve() / MEBIBYTE,
        })
    }
}

/// Pull an image, unless that would begin after `ends`, or take of the space that is kept free.
async fn pull_image(cri: &CriClient, image: &str, ends: Instant) -> Result<(), CriError> {
    let mut pause = FIRST_PAUSE;
    let mut attempt = 1;
    while Instant::now() < ends {
        let space = image_space(&cri.image_directory().await?);
        if space.is_some_and(|space| !space.has_room_for(0)) {
            return Err(CriError::NoSpace("the disk has less space left than is kept free".to_owned()));
        }
        // The runtime finds its credentials itself, those of mirrors too, unless it was not told where.
        let secret = (attempt > 1).then(|| std::fs::read(PULL_SECRET).ok()).flatten();
        let credentials = secret.and_then(|secret| credentials::for_image(&secret, image));
        match cri.pull(image, credentials.as_ref(), LONGEST_PULL).await {
            Ok(()) => break,
            Err(error) if error.ends_pulls() || attempt == ATTEMPTS => return Err(error),
            Err(error) => log::debug!("attempt {attempt} to pull {image}: {}", chain(&error)),
        }
        tokio::time::sleep(pause).await;
        (pause, attempt) = (pause * 2, attempt + 1);
    }
    Ok(())
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

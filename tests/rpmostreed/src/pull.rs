//! Pull of images with the library that the daemon uses.

use std::collections::HashMap;

use anyhow::Context as _;
use ostree_ext::container::OstreeImageReference;
use ostree_ext::container::store::{
    self, ImageImporter, ImageProxyConfig, ImportProgress, PrepareResult, PreparedImport,
};
use ostree_ext::ostree;
use ostree_ext::sysroot::SysrootLock;

use crate::active::Said;
use crate::faults::Faults;
use crate::work::Worker;

/// Pull an image, signal the daemon's progress messages, and return the commit.
pub(crate) fn pull(worker: &Worker, repo: &ostree::Repo, reference: &str) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    worker.message(format!("Pulling manifest: {reference}"));
    worker.pause()?;
    let pulled = runtime.block_on(async {
        tokio::select! {
            pulled = import(worker, repo, reference) => pulled,
            () = cancelled(worker) => anyhow::bail!("Operation was cancelled"),
        }
    });
    runtime.shutdown_background();
    if pulled.is_ok() {
        worker.say(Said::ProgressEnd);
    }
    pulled
}

async fn cancelled(worker: &Worker) {
    while worker.ensure_wanted().is_ok() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn import(worker: &Worker, repo: &ostree::Repo, reference: &str) -> anyhow::Result<String> {
    let image = OstreeImageReference::try_from(reference)?;
    let mut importer = match ImageImporter::new(repo, &image, ImageProxyConfig::default()).await {
        Ok(importer) => importer,
        // The library of the daemon opens the image when it prepares the import.
        Err(error) => {
            let text = error.root_cause().to_string();
            // Some versions of the library name the method twice.
            let (method, text) = ("failed to invoke method OpenImage: ", text.as_str());
            let text = text.trim_start_matches(method);
            anyhow::bail!("Preparing import: Fetching manifest: {method}{text}")
        }
    };
    importer.require_bootable();
    let prepared = match importer.prepare().await.context("Preparing import")? {
        PrepareResult::AlreadyPresent(state) => return Ok(state.merge_commit),
        PrepareResult::Ready(prepared) => prepared,
    };
    worker.message(format!("Importing: {reference} (digest: {})", prepared.manifest_digest));
    announce(worker, &prepared);
    let missing: Vec<_> = prepared.all_layers().filter(|layer| layer.commit.is_none()).collect();
    let count = missing.len();
    let sizes: HashMap<String, u64> =
        missing.iter().map(|layer| (layer.layer().digest().to_string(), layer.layer().size())).collect();
    let mut progress =
        LayerProgress { worker, sizes, count, number: 0, pause: Faults::load(&worker.faults).slow_layers };
    let mut layers = importer.request_progress();
    let import = importer.import(prepared);
    tokio::pin!(import);
    loop {
        tokio::select! {
            biased;
            Some(layer) = layers.recv() => progress.signal(&layer)?,
            state = &mut import => {
                let state = state?;
                // The import may end at the poll that tells of its last layer.
                while let Ok(layer) = layers.try_recv() {
                    progress.signal(&layer)?;
                }
                return Ok(state.merge_commit);
            }
        }
    }
}

/// Signals of the layers of one import.
struct LayerProgress<'w> {
    worker: &'w Worker,
    /// Bytes of each missing layer, by its digest.
    sizes: HashMap<String, u64>,
    /// Missing layers.
    count: usize,
    /// Layers that began so far.
    number: usize,
    /// Milliseconds that each layer takes longer.
    pause: u64,
}

impl LayerProgress<'_> {
    /// Signal the begin or the end of a layer's task.
    fn signal(&mut self, progress: &ImportProgress) -> anyhow::Result<()> {
        let end = || self.worker.say(Said::TaskEnd("done".to_owned()));
        let (kind, layer) = match progress {
            ImportProgress::OstreeChunkStarted(layer) => ("ostree chunk", layer),
            ImportProgress::DerivedLayerStarted(layer) => ("layer", layer),
            ImportProgress::OstreeChunkCompleted(_) | ImportProgress::DerivedLayerCompleted(_) => {
                end();
                return Ok(());
            }
        };
        self.number += 1;
        let (number, count) = (self.number, self.count);
        let digest = layer.digest().to_string();
        let size = shown(self.sizes.get(&digest).copied().unwrap_or_default());
        let short = digest.split(':').next_back().unwrap_or_default();
        let short = short.get(..19).unwrap_or(short);
        self.worker.say(Said::TaskBegin(format!("[{number}/{count}] Fetching {kind} {short} ({size})")));
        // A task ends in any case.
        self.worker.pause_for(self.pause).inspect_err(|_| end())
    }
}

/// Announce the layers that are there and those that are needed, by kind.
fn announce(worker: &Worker, prepared: &PreparedImport) {
    let chunks: Vec<_> = prepared.ostree_layers.iter().chain([&prepared.ostree_commit_layer]).collect();
    let derived: Vec<_> = prepared.layers.iter().collect();
    for (kind, layers) in [("ostree chunk", chunks), ("custom", derived)] {
        let missing = || layers.iter().filter(|layer| layer.commit.is_none());
        let (present, needed) = (layers.len() - missing().count(), missing().count());
        if present > 0 {
            worker.message(format!("{kind} layers already present: {present}"));
        }
        if needed > 0 {
            let size = shown(missing().map(|layer| layer.layer().size()).sum());
            worker.message(format!("{kind} layers needed: {needed} ({size})"));
        }
    }
}

/// Format a size as `GLib` does, with a no-break space before the unit.
fn shown(bytes: u64) -> String {
    ostree_ext::glib::format_size(bytes).to_string()
}

/// Remove images that no deployment has, and tell their number.
pub(crate) fn prune(worker: &Worker, sysroot: &ostree::Sysroot) -> anyhow::Result<()> {
    let pruned = ostree_ext::container::deploy::prune(&SysrootLock::from_assumed_locked(sysroot))?;
    if pruned.n_images > 0 {
        worker.message(format!("Pruned images: {} (layers: {})", pruned.n_images, pruned.n_layers));
    }
    if pruned.n_objects_pruned > 0 {
        worker.message(format!("Freed: {} (pkgcache branches: 0)", shown(pruned.objsize)));
    }
    Ok(())
}

/// Refuse a commit older than the current one, as the daemon does unless a downgrade is allowed.
pub(crate) fn ensure_newer(repo: &ostree::Repo, new: &str, old: &str) -> anyhow::Result<()> {
    let time = |checksum: &str| anyhow::Ok(ostree::commit_get_timestamp(&repo.load_commit(checksum)?.0));
    let (now, before) = (time(new)?, time(old)?);
    anyhow::ensure!(
        now >= before,
        "Upgrade target revision '{new}' with timestamp '{now}' is chronologically older than current revision '{old}' with timestamp '{before}'"
    );
    // An image must be stored completely.
    store::query_image_commit(repo, new).map(|_| ())
}

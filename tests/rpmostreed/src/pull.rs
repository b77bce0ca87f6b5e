//! Pull of images with the library that the daemon uses.

use ostree_ext::container::OstreeImageReference;
use ostree_ext::container::store::{
    self, ImageImporter, ImageProxyConfig, ImportProgress, PrepareResult, PreparedImport,
};
use ostree_ext::ostree;

use crate::active::Said;
use crate::work::Worker;

/// Pull an image, signal the daemon's progress messages, and return the commit.
pub(crate) fn pull(worker: &Worker, repo: &ostree::Repo, reference: &str) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    worker.message(format!("Pulling manifest: {reference}"));
    let pulled = runtime.block_on(async {
        tokio::select! {
            pulled = import(worker, repo, reference) => pulled,
            () = cancelled(worker) => anyhow::bail!("Operation was cancelled"),
        }
    });
    runtime.shutdown_background();
    worker.say(Said::ProgressEnd);
    pulled
}

async fn cancelled(worker: &Worker) {
    while worker.ensure_wanted().is_ok() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn import(worker: &Worker, repo: &ostree::Repo, reference: &str) -> anyhow::Result<String> {
    let image = OstreeImageReference::try_from(reference)?;
    let mut importer = ImageImporter::new(repo, &image, ImageProxyConfig::default()).await?;
    importer.require_bootable();
    let prepared = match importer.prepare().await? {
        PrepareResult::AlreadyPresent(state) => return Ok(state.merge_commit),
        PrepareResult::Ready(prepared) => prepared,
    };
    worker.message(format!("Importing: {reference} (digest: {})", prepared.manifest_digest));
    worker.message(needed(&prepared));
    let mut layers = importer.request_progress();
    let import = importer.import(prepared);
    tokio::pin!(import);
    loop {
        tokio::select! {
            biased;
            Some(layer) = layers.recv() => {
                let text = |layer: &dyn std::fmt::Display| format!("Fetching ostree chunk {layer}");
                worker.say(match layer {
                    ImportProgress::OstreeChunkStarted(layer) | ImportProgress::DerivedLayerStarted(layer) => {
                        Said::TaskBegin(text(layer.digest()))
                    }
                    ImportProgress::OstreeChunkCompleted(layer)
                    | ImportProgress::DerivedLayerCompleted(layer) => {
                        Said::TaskEnd(text(layer.digest()))
                    }
                });
            }
            state = &mut import => return Ok(state?.merge_commit),
        }
    }
}

fn needed(prepared: &PreparedImport) -> String {
    let missing = || prepared.all_layers().filter(|layer| layer.commit.is_none());
    let bytes: u64 = missing().map(|layer| layer.layer().size()).sum();
    format!("ostree chunk layers needed: {} ({} bytes)", missing().count(), bytes)
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

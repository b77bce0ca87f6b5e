//! Fetch of several layers at a time. ostree-ext asks skopeo's image proxy for one layer after the other, each after
//! the import of the one before.
//!
//! Between both runs a process of this executable, the relay. It passes messages on unchanged, so that skopeo decides
//! about mirrors, certificates, credentials and signatures as it does without it. When the importer asks for the
//! first layer, the relay lets skopeo fetch this one and the next ones at the same time, and answers with what has
//! been fetched; skopeo verifies each digest. The importer sees the same bytes in the same order.
//!
//! Blobs are kept in files without a name on the file system of the repository: no kill leaves any behind. Where
//! there is no room for them beside the unpacked image, or the file system has no such files, layers are fetched one
//! after the other.

mod blob_file;
mod blob_queue;
mod message;
pub(crate) mod relay;
mod skopeo_proxy;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{PipeReader, PipeWriter, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::Context as _;
use flameholder::os::worker::PARALLEL_FETCHES;
use ostree_ext::container::merge_default_container_proxy_opts;
use ostree_ext::container::store::PreparedImport;
use ostree_ext::containers_image_proxy::ImageProxyConfig;
use ostree_ext::ostree;
use rustix::fs::{Mode, OFlags, fstatvfs, openat};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use crate::stall::ByteCount;

/// First argument of the relay's process.
pub(crate) const RELAY: &str = "relay-image-proxy";
/// Layers fetched at a time, unless [`PARALLEL_FETCHES`] sets another number; as many as `skopeo copy` fetches.
const AT_A_TIME: usize = 6;
/// Space for an unpacked layer, as a multiple of the compressed one.
const UNPACKED: u64 = 4;

/// Blobs to fetch, in the order in which the importer asks for them.
#[derive(Debug, Default, Serialize, Deserialize)]
struct FetchPlan {
    blobs: Vec<PlannedBlob>,
    at_a_time: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct PlannedBlob {
    digest: String,
    /// In bytes.
    size: u64,
}

/// Importer's side of the relay.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    plan: Option<PipeWriter>,
    counts: pipe::Receiver,
    directory: OwnedFd,
    /// The relay opens its ends by the importer's process.
    _lent: (PipeReader, PipeWriter),
}

impl ReadAhead {
    /// Start the relay in place of skopeo, and skopeo by the relay.
    pub(crate) fn insert(config: &mut ImageProxyConfig, repo: &ostree::Repo) -> anyhow::Result<Option<Self>> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let directory = openat(repo.dfd_borrow(), "tmp", flags, Mode::empty());
        let Some(directory) = directory.ok().filter(|it| blob_file::open_unnamed(it).is_ok()) else {
            return Ok(None);
        };
        // The importer does the same to a configuration without a command.
        merge_default_container_proxy_opts(config)?;
        let (plan, ours) = std::io::pipe().context("creating a pipe")?;
        let (counts, theirs) = std::io::pipe().context("creating a pipe")?;
        let lent = [plan.as_raw_fd(), theirs.as_raw_fd(), directory.as_raw_fd()];
        let skopeo = config.skopeo_cmd.take().unwrap_or_else(|| Command::new("skopeo"));
        let mut relay = Command::new("/proc/self/exe");
        relay.arg0(env!("CARGO_BIN_NAME")).arg(RELAY).args(LentFiles::arguments(lent));
        relay.arg(skopeo.get_program()).args(skopeo.get_args());
        for (name, value) in skopeo.get_envs() {
            match value {
                Some(value) => relay.env(name, value),
                None => relay.env_remove(name),
            };
        }
        config.skopeo_cmd = Some(relay);
        let counts = pipe::Receiver::from_owned_fd(counts.into())?;
        Ok(Some(Self { plan: Some(ours), counts, directory, _lent: (plan, theirs) }))
    }

    /// Tell the relay which layers will be imported.
    pub(crate) fn begin(&mut self, import: &PreparedImport) -> anyhow::Result<()> {
        let mut plan = FetchPlan { blobs: missing_blobs(import), at_a_time: at_a_time() };
        if plan.at_a_time < 2 || plan.blobs.len() < 2 || !self.has_room(&plan) {
            plan = FetchPlan::default();
        }
        let mut line = serde_json::to_vec(&plan)?;
        line.push(b'\n');
        if let Some(mut pipe) = self.plan.take() {
            // In a thread: a long list does not fit into the pipe, and the relay reads it at the first request.
            std::thread::spawn(move || pipe.write_all(&line));
        }
        Ok(())
    }

    /// Count the bytes that the relay receives. Does not end.
    pub(crate) async fn count(&mut self, received: &ByteCount) {
        let mut bytes = [0; 8];
        while self.counts.read_exact(&mut bytes).await.is_ok() {
            received.add(u64::from_le_bytes(bytes));
        }
        std::future::pending::<()>().await;
    }

    /// Return true if the compressed layers fit on the file system beside the unpacked ones, and leave the
    /// repository the reserve of 3 % without which libostree refuses to write.
    fn has_room(&self, plan: &FetchPlan) -> bool {
        let Ok(stat) = fstatvfs(&self.directory) else { return false };
        let size: u64 = plan.blobs.iter().map(|blob| blob.size).sum();
        let reserve = stat.f_blocks / 32;
        let free = stat.f_bavail.saturating_sub(reserve).saturating_mul(stat.f_frsize);
        free >= size.saturating_mul(1 + UNPACKED)
    }
}

/// List the layers that the repository lacks, in the importer's order.
fn missing_blobs(import: &PreparedImport) -> Vec<PlannedBlob> {
    let base = std::iter::once(&import.ostree_commit_layer);
    let layers = import.ostree_layers.iter().chain(base).chain(&import.layers);
    let mut seen = HashSet::new();
    layers
        .filter(|layer| layer.commit.is_none())
        .map(|layer| PlannedBlob { digest: layer.layer().digest().to_string(), size: layer.layer().size() })
        .filter(|blob| seen.insert(blob.digest.clone()))
        .collect()
}

fn at_a_time() -> usize {
    let number = std::env::var(PARALLEL_FETCHES).ok().and_then(|text| text.parse().ok());
    number.unwrap_or(AT_A_TIME)
}

/// Files of the importer that the relay opens again.
#[derive(Debug)]
struct LentFiles {
    plan: File,
    counts: File,
    directory: File,
}

impl LentFiles {
    /// Arguments that name files of this process by their numbers: plan, counts, directory.
    fn arguments(files: [i32; 3]) -> impl Iterator<Item = String> {
        std::iter::once(std::process::id().to_string()).chain(files.map(|file| file.to_string()))
    }

    /// Open the files that the arguments of the lender name.
    fn open(lender: i32, [plan, counts, directory]: [&OsString; 3]) -> anyhow::Result<Self> {
        let open = |file: &OsString, access: &mut OpenOptions| {
            let path = format!("/proc/{lender}/fd/{}", file.display());
            access.open(&path).with_context(|| format!("opening {path}"))
        };
        Ok(Self {
            plan: open(plan, File::options().read(true))?,
            counts: open(counts, File::options().write(true))?,
            directory: open(directory, File::options().read(true))?,
        })
    }
}

//! Container runtime that serves the image service of the CRI on a host's socket, with messages generated from
//! Kubernetes' own definitions.
//!
//! Like CRI-O it takes names with a digest only, answers errors as `Unknown`, ends a pull whose client is gone, and takes
//! credentials from a request only where it has none of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use k8s_cri::v1::image_service_server::{ImageService, ImageServiceServer};
use k8s_cri::v1::{
    FilesystemIdentifier, FilesystemUsage, Image, ImageFsInfoRequest, ImageFsInfoResponse, ImageSpec,
    ImageStatusRequest, ImageStatusResponse, ListImagesRequest, ListImagesResponse, PullImageRequest,
    PullImageResponse, RemoveImageRequest, RemoveImageResponse,
};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::booted::host::Host;
use crate::output_lines::LONGEST_WAIT;

/// Directory of images, which the runtime names.
const STORAGE: &str = "/var/lib/containers/storage";

/// Pull that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedPull {
    pub image: String,
    /// User name of the credentials in the request; `None` without any.
    pub username: Option<String>,
}

/// A container runtime that ends when this is dropped.
pub struct CriServer {
    runtime: Runtime,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<RuntimeState>,
    changed: Condvar,
    /// True while pulls wait.
    holds: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct RuntimeState {
    images: BTreeSet<String>,
    failures: BTreeMap<String, String>,
    /// User that the registry of each image asks for.
    users: BTreeMap<String, String>,
    pulls: Vec<AskedPull>,
    /// Images whose pulls wait.
    waiting: BTreeSet<String>,
    /// Largest number of pulls at the same time.
    most: usize,
}

impl CriServer {
    /// Serve on the host's socket, with a disk for images of `bytes` bytes.
    pub fn start(host: &Host, bytes: u64) -> Self {
        fs::write(host.path("kernel/image-disk"), bytes.to_string()).unwrap();
        fs::create_dir_all(host.var("lib/containers")).unwrap();
        drop(symlink("../run", host.var("run")));
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            holds: watch::Sender::new(false),
        });
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = Self { runtime, shared };
        server.serve(host);
        server
    }

    /// Serve on the socket; again after a reboot, which clears `/run`.
    pub fn serve(&self, host: &Host) {
        let directory = host.path("run/crio");
        fs::create_dir_all(&directory).unwrap();
        let _guard = self.runtime.enter();
        let connections = UnixListenerStream::new(UnixListener::bind(directory.join("crio.sock")).unwrap());
        let service = ImageServiceServer::new(ImageRuntime(self.shared.clone()));
        self.runtime.spawn(Server::builder().add_service(service).serve_with_incoming(connections));
    }

    /// Let each pull of this image fail with this error; without one it succeeds again.
    pub fn fail(&self, image: &str, error: Option<&str>) {
        let mut state = self.shared.state.lock().unwrap();
        match error {
            Some(error) => drop(state.failures.insert(image.to_owned(), error.to_owned())),
            None => drop(state.failures.remove(image)),
        }
    }

    /// Let the registry of this image ask for this user.
    pub fn require_user(&self, image: &str, user: &str) {
        self.shared.state.lock().unwrap().users.insert(image.to_owned(), user.to_owned());
    }

    /// Let pulls wait, or go on.
    pub fn hold(&self, holds: bool) {
        self.shared.holds.send_replace(holds);
    }

    /// Images that it has.
    pub fn images(&self) -> BTreeSet<String> {
        self.shared.state.lock().unwrap().images.clone()
    }

    /// Remove an image.
    pub fn remove(&self, image: &str) {
        self.shared.state.lock().unwrap().images.remove(image);
    }

    /// Pulls that were asked for, in their order.
    pub fn pulls(&self) -> Vec<AskedPull> {
        self.shared.state.lock().unwrap().pulls.clone()
    }

    /// Largest number of pulls at the same time.
    pub fn most_pulls_at_once(&self) -> usize {
        self.shared.state.lock().unwrap().most
    }

    /// Wait until the pulls of so many images wait.
    pub fn wait_for_held(&self, number: usize) {
        self.wait_until(|waiting| waiting.len() == number);
    }

    /// Wait until the pull of this image waits, and no other.
    pub fn wait_for_held_alone(&self, image: &str) {
        self.wait_until(|waiting| waiting.len() == 1 && waiting.contains(image));
    }

    fn wait_until(&self, is_so: impl Fn(&BTreeSet<String>) -> bool) {
        let began = Instant::now();
        let mut state = self.shared.state.lock().unwrap();
        while !is_so(&state.waiting) {
            let left = LONGEST_WAIT.saturating_sub(began.elapsed());
            assert!(!left.is_zero(), "{:?} wait of {:?}", state.waiting, state.pulls);
            state = self.shared.changed.wait_timeout(state, left).unwrap().0;
        }
    }
}

struct ImageRuntime(Arc<Shared>);

impl ImageRuntime {
    /// Count a pull as one that waits, until the result is dropped.
    fn waiting(&self, image: &str) -> WaitingPull {
        let mut state = self.0.state.lock().unwrap();
        state.waiting.insert(image.to_owned());
        state.most = state.most.max(state.waiting.len());
        self.0.changed.notify_all();
        WaitingPull(self.0.clone(), image.to_owned())
    }
}

struct WaitingPull(Arc<Shared>, String);

impl Drop for WaitingPull {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().waiting.remove(&self.1);
        self.0.changed.notify_all();
    }
}

fn name_of(spec: Option<ImageSpec>) -> Result<String, Status> {
    let name = spec.map(|spec| spec.image).unwrap_or_default();
    match name.split_once("@sha256:") {
        Some((repository, digest)) if repository.contains('/') && digest.len() == 64 => Ok(name),
        _ => Err(Status::unknown(format!("reference {name:?} is no image with a digest"))),
    }
}

#[tonic::async_trait]
impl ImageService for ImageRuntime {
    async fn image_status(
        &self,
        request: Request<ImageStatusRequest>,
    ) -> Result<Response<ImageStatusResponse>, Status> {
        let name = name_of(request.into_inner().image)?;
        let is_there = self.0.state.lock().unwrap().images.contains(&name);
        let digest = name.rsplit(':').next().unwrap_or_default().to_owned();
        let image = Image { id: digest, repo_digests: vec![name], size: 4096, ..Image::default() };
        let image = is_there.then_some(image);
        Ok(Response::new(ImageStatusResponse { image, ..ImageStatusResponse::default() }))
    }

    async fn pull_image(
        &self,
        request: Request<PullImageRequest>,
    ) -> Result<Response<PullImageResponse>, Status> {
        let request = request.into_inner();
        let image = name_of(request.image)?;
        let username = request.auth.map(|auth| auth.username);
        let pull = AskedPull { image: image.clone(), username: username.clone() };
        self.0.state.lock().unwrap().pulls.push(pull);
        let waiting = self.waiting(&image);
        self.0.holds.subscribe().wait_for(|holds| !holds).await.unwrap();
        drop(waiting);
        let mut state = self.0.state.lock().unwrap();
        if let Some(error) = state.failures.get(&image) {
            return Err(Status::unknown(error.clone()));
        }
        if state.users.get(&image).is_some_and(|user| username.as_ref() != Some(user)) {
            return Err(Status::unknown(format!("reading manifest of {image}: unauthorized")));
        }
        state.images.insert(image.clone());
        Ok(Response::new(PullImageResponse { image_ref: image }))
    }

    async fn image_fs_info(
        &self,
        _: Request<ImageFsInfoRequest>,
    ) -> Result<Response<ImageFsInfoResponse>, Status> {
        let fs_id = Some(FilesystemIdentifier { mountpoint: STORAGE.to_owned() });
        let usage = FilesystemUsage { fs_id, ..FilesystemUsage::default() };
        Ok(Response::new(ImageFsInfoResponse { image_filesystems: vec![usage], ..Default::default() }))
    }

    async fn list_images(
        &self,
        _: Request<ListImagesRequest>,
    ) -> Result<Response<ListImagesResponse>, Status> {
        Err(Status::unimplemented("ListImages"))
    }

    async fn remove_image(
        &self,
        _: Request<RemoveImageRequest>,
    ) -> Result<Response<RemoveImageResponse>, Status> {
        Err(Status::unimplemented("RemoveImage"))
    }
}

//! Client of the container runtime: the status of images, their pull and the file system that holds them, by the image
//! service of the Kubernetes CRI (gRPC on a Unix socket).
//!
//! Work processes alone use it: the daemon keeps no connection to the runtime.

mod error;
mod image_layers;
mod messages;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::CriError;
use http::uri::PathAndQuery;
pub use image_layers::image_layers;
use messages::{
    AuthConfig, ImageFsInfoRequest, ImageFsInfoResponse, ImageSpec, ImageStatusRequest, ImageStatusResponse,
    PullImageRequest, PullImageResponse,
};
use prost::Message;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::core::pinned_images::credentials::RegistryCredentials;

/// CRI-O's socket.
pub const SOCKET: &str = "/var/run/crio/crio.sock";
/// Directory of images, where the runtime does not name it.
const STORAGE: &str = "/var/lib/containers";
/// Longest answer, in bytes (the kubelet's limit).
const LONGEST_ANSWER: usize = 16 << 20;
/// Longest time for an answer, except that to a pull.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Connection to the container runtime.
#[derive(Debug, Clone)]
pub struct CriClient {
    grpc: Grpc<Channel>,
    socket: PathBuf,
}

impl CriClient {
    /// Connect to the runtime's socket. Requests on a connection that was lost connect anew.
    pub async fn connect(socket: &Path) -> Result<Self, CriError> {
        let unreachable = |error: tonic::transport::Error| CriError::unreachable(socket, &error);
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).map_err(unreachable)?;
        let channel = endpoint.connect_timeout(TIMEOUT).connect().await.map_err(unreachable)?;
        let grpc = Grpc::new(channel).max_decoding_message_size(LONGEST_ANSWER);
        Ok(Self { grpc, socket: socket.to_owned() })
    }

    /// Return true if the runtime has the image.
    pub async fn has_image(&self, image: &str) -> Result<bool, CriError> {
        let request = ImageStatusRequest { image: Some(ImageSpec::of(image)) };
        let status: ImageStatusResponse = self.call("ImageStatus", request, TIMEOUT).await?;
        Ok(status.image.is_some())
    }

    /// Pull an image. Without credentials the runtime looks for its own, for the registry and for each of its mirrors.
    pub async fn pull(
        &self,
        image: &str,
        credentials: Option<&RegistryCredentials>,
        longest: Duration,
    ) -> Result<(), CriError> {
        let auth = credentials.map(|credentials| AuthConfig {
            username: credentials.username.clone(),
            password: credentials.password.clone(),
        });
        let request = PullImageRequest { image: Some(ImageSpec::of(image)), auth };
        let pulled: PullImageResponse = self.call("PullImage", request, longest).await?;
        if pulled.image_ref.is_empty() {
            return Err(CriError::Unanswered("the pull ended without the name of an image".to_owned()));
        }
        Ok(())
    }

    /// Return the directory of images.
    pub async fn image_directory(&self) -> Result<PathBuf, CriError> {
        let info: Result<ImageFsInfoResponse, _> =
            self.call("ImageFsInfo", ImageFsInfoRequest {}, TIMEOUT).await;
        let named = match info {
            Ok(info) => info.image_filesystems.into_iter().find_map(|usage| usage.fs_id),
            // A runtime that does not know the call.
            Err(CriError::Unsupported(_)) => None,
            Err(error) => return Err(error),
        };
        let named = named.map(|found| PathBuf::from(found.mountpoint)).filter(|path| path.is_absolute());
        Ok(named.unwrap_or_else(|| STORAGE.into()))
    }

    async fn call<M, N>(&self, method: &str, message: M, longest: Duration) -> Result<N, CriError>
    where
        M: Message + Send + Sync + 'static,
        N: Message + Default + Send + Sync + 'static,
    {
        let path = PathAndQuery::try_from(format!("/runtime.v1.ImageService/{method}"))
            .map_err(|error| CriError::Unanswered(error.to_string()))?;
        let mut grpc = self.grpc.clone();
        let answer = tokio::time::timeout(longest, async {
            grpc.ready().await.map_err(|error| CriError::unreachable(&self.socket, &error))?;
            let codec = ProstCodec::<M, N>::default();
            grpc.unary(Request::new(message), path, codec)
                .await
                .map_err(|status| CriError::of(&self.socket, &status))
        });
        match answer.await {
            Ok(answer) => answer.map(tonic::Response::into_inner),
            Err(_) => Err(CriError::TimedOut(longest)),
        }
    }
}

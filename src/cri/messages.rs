//! Messages of the CRI's image service, with the members that the agent uses (`runtime.v1` in
//! kubernetes/cri-api, `pkg/apis/runtime/v1/api.proto`). Protocol buffers let a reader ignore all others.

#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub(super) struct ImageSpec {
    #[prost(string, tag = "1")]
    pub(super) image: String,
}

impl ImageSpec {
    pub(super) fn of(image: &str) -> Self {
        Self { image: image.to_owned() }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub(super) struct ImageStatusRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) image: Option<ImageSpec>,
}

#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub(super) struct ImageStatusResponse {
    /// Missing where the runtime does not have the image.
    #[prost(message, optional, tag = "1")]
    pub(super) image: Option<FoundImage>,
}

#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub(super) struct FoundImage {
    #[prost(string, tag = "1")]
    pub(super) id: String,
}

/// Its derived `Debug` would show the password.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
#[prost(skip_debug)]
pub(super) struct AuthConfig {
    #[prost(string, tag = "1")]
    pub(super) username: String,
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

impl std::fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthConfig").finish_non_exhaustive()
    }
}

#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub(super) struct PullImageRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) image: Option<ImageSpec>,
    #[prost(message, optional, tag = "2")]
    pub(super) auth: Option<AuthConfig>,
}

#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub(super) struct PullImageResponse {
    #[prost(string, tag = "1")]
    pub(super) image_ref: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub(super) struct ImageFsInfoRequest {}

#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub(super) struct ImageFsInfoResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) image_filesystems: Vec<FilesystemUsage>,
}

#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub(super) struct FilesystemUsage {
    #[prost(message, optional, tag = "2")]
    pub(super) fs_id: Option<FilesystemIdentifier>,
}

#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub(super) struct FilesystemIdentifier {
    #[prost(string, tag = "1")]
    pub(super) mountpoint: String,
}

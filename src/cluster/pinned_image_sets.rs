//! Watch of the cluster's pinned image sets.

use futures::Stream;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, GroupVersionKind, NotUsed, Object};
use serde::Deserialize;

use crate::cluster::watch::watch_all;
use crate::cluster::{ClusterClient, ClusterError, GROUP};
use crate::core::pinned_images::image_sets::PinnedImageSet;

/// The parts of a `PinnedImageSet` that the agent reads.
type SetObject = Object<SetSpec, NotUsed>;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetSpec {
    #[serde(default)]
    pinned_images: Vec<PinnedImage>,
}

#[derive(Debug, Clone, Deserialize)]
struct PinnedImage {
    name: String,
}

fn set_of(object: SetObject) -> PinnedImageSet {
    PinnedImageSet {
        name: object.name_any(),
        generation: object.metadata.generation.unwrap_or(1),
        images: object.spec.pinned_images.into_iter().map(|image| image.name).collect(),
    }
}

impl ClusterClient {
    /// Watch the pinned image sets: yields all of them at each change, in the order of their names. The stream goes on
    /// after an error.
    pub fn watch_pinned_image_sets(
        &self,
    ) -> Result<impl Stream<Item = Result<Vec<PinnedImageSet>, ClusterError>> + Send + use<>, ClusterError>
    {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", "PinnedImageSet"));
        let sets: Api<SetObject> = Api::all_with(self.reader.client()?, &resource);
        Ok(watch_all(sets, set_of))
    }
}

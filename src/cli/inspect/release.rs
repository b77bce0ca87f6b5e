//! Images of a release: from its release image, or from the release that follows in an update graph.

use std::path::Path;

use clap::Args;

use crate::cli::input::load_document;
use crate::cli::output::terminal::note;
use crate::cli::server_access::block_on;
use crate::cli::{CliError, artifact};
use crate::core::config::render::ReleaseImages;
use crate::core::config::render::release_payload::{
    IMAGE_REFERENCES, METADATA, ReleasePayload, ReleasePayloadError,
};
use crate::core::config::settings::server_url::{ServerUrl, is_url};
use crate::core::fleet::update_graph::{GraphRelease, ReleaseImage, UpdateGraph, UpdateStep};
use crate::core::values::foreign_text::harmless_line;
use crate::core::values::image::ImageRef;
use crate::core::values::limits;
use crate::core::values::refusal::RefusalList;
use crate::https::{DocumentRequest, fetch_graph};
use crate::os::worker::WorkerSession;

/// Release whose images the rendered config gets.
#[derive(Debug, Args)]
pub(super) struct ReleaseImageArgs {
    /// Release image of a cluster: the config gets the OS image and the extensions image that it names
    #[arg(long, value_name = "REF", conflicts_with_all = ["os_image", "extensions_image", "from_graph"])]
    release: Option<ImageRef>,
    /// Update graph (Cincinnati), an `https:` URL or a file: the config gets the image of the release that follows --os-version
    #[arg(long, value_name = "URL", conflicts_with_all = ["os_image", "extensions_image"], requires = "os_version")]
    from_graph: Option<String>,
    /// Version that the hosts have, as the graph names it
    #[arg(long, value_name = "VERSION", requires = "from_graph")]
    os_version: Option<String>,
}

impl ReleaseImageArgs {
    /// Return the images of the release; `None` if none is asked for.
    pub(super) fn images(&self) -> Result<Option<ReleaseImages>, CliError> {
        if let Some(image) = &self.release {
            return release_images(image).map(Some);
        }
        let (Some(place), Some(version)) = (&self.from_graph, &self.os_version) else { return Ok(None) };
        let graph = load_graph(place)?;
        let refused =
            |reason: String| CliError::Refused { file: shown(place), source: RefusalList::one("", reason) };
        let next = next_release(&graph, version).map_err(refused)?;
        let barrier = next.barrier.as_ref().map(|reason| format!(", a barrier: {}", harmless_line(reason)));
        note(&format!("{} follows {version}{}", harmless_line(&next.version), barrier.unwrap_or_default()));
        let parsed = |image: &str| {
            let image = image.parse::<ImageRef>();
            image.map_err(|error| refused(format!("the release {}: {error}", next.version)))
        };
        match &next.payload {
            ReleaseImage::Os(image) => {
                parsed(image).map(|_| Some(ReleaseImages { os: Some(image.clone()), extensions: None }))
            }
            ReleaseImage::Release(image) => release_images(&parsed(image)?).map(Some),
            ReleaseImage::Commit => Err(refused(format!(
                "it names {} by a commit, and not by an image; ask the server for images (Fedora CoreOS: `oci=true` in the query)",
                next.version
            ))),
        }
    }
}

/// Return the release that follows, or the reason why none does.
fn next_release<'a>(graph: &'a UpdateGraph, version: &str) -> Result<&'a GraphRelease, String> {
    match graph.step_from(version) {
        UpdateStep::Next(next) => Ok(next),
        UpdateStep::DeadEnd(reason) => Err(format!("{version} is a dead end: {reason}")),
        UpdateStep::Conditional { release, risk } => Err(format!(
            "{} follows {version} for some clusters only; read about the risk {risk}, and name the release with --release",
            release.version
        )),
        UpdateStep::Newest => Err(format!("no release follows {version}")),
        UpdateStep::Unknown => Err(format!("it does not have the version {version}")),
    }
}

/// Read an update graph from a server or a file.
pub(super) fn load_graph(place: &str) -> Result<UpdateGraph, CliError> {
    let bytes = if is_url(place) {
        let url = ServerUrl::of_graph(place)
            .map_err(|error| CliError::Usage(format!("{}: {error}", shown(place))))?;
        block_on(fetch_graph(&url, limits::DOCUMENT_BYTES, DocumentRequest::LIMIT), || shown(place))??
    } else {
        load_document(Path::new(place))?
    };
    UpdateGraph::parse(&bytes).map_err(|error| CliError::Refused {
        file: shown(place),
        source: RefusalList::one("", error.to_string()),
    })
}

/// Name of a place without the query, in which a token may be.
fn shown(place: &str) -> String {
    place.split_once('?').map_or(place, |(address, _)| address).to_owned()
}

/// Read the images that a release image names, through the image worker.
fn release_images(image: &ImageRef) -> Result<ReleaseImages, CliError> {
    let files = WorkerSession::image_files(&artifact::worker()?, image, &[METADATA, IMAGE_REFERENCES])?;
    let content = |path: &'static str| files.content(path).ok_or(ReleasePayloadError::Missing(path));
    let payload = content(METADATA)
        .and_then(|metadata| ReleasePayload::parse(metadata, content(IMAGE_REFERENCES)?))
        .map_err(|error| CliError::Refused {
            file: image.to_string(),
            source: RefusalList::one("", error.to_string()),
        })?;
    note(&format!("{image} is the release {}", payload.version));
    Ok(payload.images)
}

//! Transports and scopes of images, by the rules of each transport in containers-policy.json(5).

use crate::core::values::image::{ImageRef, ImageTransport};

/// Host that a registry name without one is on, and the directory of its official images.
const DEFAULT_HOST: &str = "docker.io";
const DEFAULT_DIRECTORY: &str = "library";

/// Name of the transport in a policy.
pub(super) fn transport(image: &ImageRef) -> &'static str {
    match image.transport() {
        ImageTransport::Registry => "docker",
        ImageTransport::Oci => "oci",
        ImageTransport::OciArchive => "oci-archive",
        ImageTransport::DockerArchive => "docker-archive",
        ImageTransport::ContainersStorage => "containers-storage",
        ImageTransport::Directory => "dir",
    }
}

/// List the scopes of an image, the closest first. Paths are taken as they are: links in them are not followed.
pub(super) fn scopes(image: &ImageRef) -> Vec<String> {
    match image.transport() {
        ImageTransport::Registry => of_registry(image.name()),
        ImageTransport::Oci | ImageTransport::OciArchive => of_path(without_tag(image.name())),
        ImageTransport::Directory => of_path(image.name()),
        // An archive of docker has no scopes, and those of a storage name its directory and driver.
        ImageTransport::DockerArchive | ImageTransport::ContainersStorage => Vec::new(),
    }
}

/// The image itself, its repository, the directories above it, its host, and domains above that.
fn of_registry(name: &str) -> Vec<String> {
    let (unpinned, digest) = match name.split_once('@') {
        Some((unpinned, digest)) => (unpinned, Some(digest)),
        None => (name, None),
    };
    // A colon before a slash belongs to the port.
    let (repository, tag) = match unpinned.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (unpinned, None),
    };
    let repository = expanded(repository);
    let image = match (digest, tag) {
        (Some(digest), _) => format!("{repository}@{digest}"),
        (None, tag) => format!("{repository}:{}", tag.unwrap_or("latest")),
    };
    let mut scopes = vec![image, repository.clone()];
    let mut above = repository.as_str();
    while let Some((directory, _)) = above.rsplit_once('/') {
        scopes.push(directory.to_owned());
        above = directory;
    }
    // Domains have no port.
    let mut host = above.split_once(':').map_or(above, |(host, _)| host);
    while let Some((_, domain)) = host.split_once('.') {
        scopes.push(format!("*.{domain}"));
        host = domain;
    }
    scopes
}

/// Add the host, and the directory of official images, to a name without a host.
fn expanded(repository: &str) -> String {
    let host = repository.split_once('/').map(|(host, _)| host);
    match host {
        Some(host) if host.contains(['.', ':']) || host == "localhost" => repository.to_owned(),
        Some(_) => format!("{DEFAULT_HOST}/{repository}"),
        None => format!("{DEFAULT_HOST}/{DEFAULT_DIRECTORY}/{repository}"),
    }
}

/// The path and the directories above it, but for `/`.
fn of_path(path: &str) -> Vec<String> {
    let mut scopes = Vec::new();
    let mut path = path;
    while let Some((above, _)) = path.rsplit_once('/') {
        scopes.push(path.to_owned());
        path = above;
    }
    scopes
}

/// The tag is no part of the identity: `DIR:TAG` and `DIR` can be the same image.
fn without_tag(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => path,
        _ => name,
    }
}

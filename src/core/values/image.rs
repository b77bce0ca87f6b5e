//! References to OS images, in the notation that rpm-ostree, bootc and ostree-ext share.
//!
//! A reference consists of the signature verification, the transport and the image's name:
//! `ostree-unverified-image:oci:/run/os:v2`. The notation is specified by `ostree-container`
//! (`ostree_ext::container::OstreeImageReference`); a bare registry name is the form that a MachineConfig's
//! `osImageURL` has.

pub mod boot_image;
mod redact;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use redact::redact_credentials;
use serde::{Deserialize, Serialize};

/// The policy by which an image's signature is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageVerification {
    /// No verification beyond the default of the host's `policy.json`.
    Unverified,
    /// The host's `policy.json`, which must not accept every image by default.
    ContainerPolicy,
    /// The GPG keys of the named OSTree remote.
    OstreeRemote(String),
}

/// The transport of an image, in the sense of containers-transports(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageTransport {
    Registry,
    /// An OCI layout in a directory.
    Oci,
    /// An OCI layout in a tar archive.
    OciArchive,
    /// The archive that `docker save` writes.
    DockerArchive,
    /// The image store of podman and CRI-O on this host.
    ContainersStorage,
    /// The plain directory that `skopeo copy` writes.
    Directory,
}

impl ImageTransport {
    /// The transports with a prefix of their own. A registry's is `docker://`, or none.
    const LOCAL: [(&'static str, Self); 5] = [
        ("oci:", Self::Oci),
        ("oci-archive:", Self::OciArchive),
        ("docker-archive:", Self::DockerArchive),
        ("containers-storage:", Self::ContainersStorage),
        ("dir:", Self::Directory),
    ];

    /// The prefix in skopeo's notation.
    fn prefix(self) -> &'static str {
        Self::LOCAL.iter().find(|(_, transport)| *transport == self).map_or("docker://", |(prefix, _)| prefix)
    }

    /// Split `oci:NAME`, `docker://NAME` or `registry:NAME`.
    fn split(text: &str) -> Option<(Self, &str)> {
        for prefix in ["docker://", "registry:"] {
            if let Some(name) = text.strip_prefix(prefix) {
                return Some((Self::Registry, name));
            }
        }
        Self::LOCAL.iter().find_map(|(prefix, transport)| Some((*transport, text.strip_prefix(prefix)?)))
    }

    /// True if the image is read from this host's file system.
    #[must_use]
    pub fn is_local(self) -> bool {
        self != Self::Registry
    }
}

/// A well-formed reference to an OS image.
///
/// ```
/// # use flameholder::core::values::image::ImageRef;
/// let image: ImageRef = "quay.io/example/os:4".parse()?;
/// assert_eq!(image.to_string(), "ostree-unverified-registry:quay.io/example/os:4");
/// # Ok::<(), flameholder::core::values::image::ImageRefError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageRef {
    verification: ImageVerification,
    transport: ImageTransport,
    name: String,
}

impl ImageRef {
    #[must_use]
    pub fn verification(&self) -> &ImageVerification {
        &self.verification
    }

    #[must_use]
    pub fn transport(&self) -> ImageTransport {
        self.transport
    }

    /// The image's name in its transport: `quay.io/example/os:4`, `/run/os:v2`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The digest that the reference pins, `sha256:` and 64 hexadecimal digits; `None` for a tag, which may
    /// move to another image.
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        match self.transport {
            ImageTransport::Registry | ImageTransport::ContainersStorage => {
                let (_, digest) = self.name.rsplit_once('@')?;
                is_digest(digest).then_some(digest)
            }
            _ => None,
        }
    }

    /// True if both references name the same image.
    ///
    /// Two digest-pinned references are compared by digest alone, because a mirror serves the same image
    /// under another name; MCD's validation of the booted image is stricter and compares the text. Otherwise
    /// transport and name must be equal. The verification does not matter.
    #[must_use]
    pub fn is_same_image(&self, other: &Self) -> bool {
        match (self.digest(), other.digest()) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => self.transport == other.transport && self.name == other.name,
        }
    }

    /// The image in skopeo's notation, without the verification: `docker://NAME`, `oci:NAME`.
    fn location(&self) -> String {
        format!("{}{}", self.transport.prefix(), self.name)
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.verification, self.transport) {
            (ImageVerification::Unverified, ImageTransport::Registry) => {
                write!(f, "ostree-unverified-registry:{}", self.name)
            }
            (ImageVerification::Unverified, _) => {
                write!(f, "ostree-unverified-image:{}", self.location())
            }
            (ImageVerification::ContainerPolicy, _) => {
                write!(f, "ostree-image-signed:{}", self.location())
            }
            (ImageVerification::OstreeRemote(remote), ImageTransport::Registry) => {
                write!(f, "ostree-remote-registry:{remote}:{}", self.name)
            }
            (ImageVerification::OstreeRemote(remote), _) => {
                write!(f, "ostree-remote-image:{remote}:{}", self.location())
            }
        }
    }
}

impl From<ImageRef> for String {
    fn from(image: ImageRef) -> Self {
        image.to_string()
    }
}

impl TryFrom<String> for ImageRef {
    type Error = ImageRefError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// An image reference that does not parse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("image reference {reference:?}: {problem}")]
pub struct ImageRefError {
    /// The reference, without credentials.
    reference: String,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("no image named; expected REGISTRY/NAME@sha256:DIGEST, or a TRANSPORT:NAME")]
    NoName,
    #[error(
        "expected a transport: docker://, oci:, oci-archive:, docker-archive:, containers-storage: or dir:"
    )]
    NoTransport,
    #[error(
        "an image on the local file system needs the full notation; expected ostree-unverified-image:{0}"
    )]
    NoScheme(String),
    #[error("expected the name of an OSTree remote and a colon after {0}")]
    NoRemote(&'static str),
    #[error(
        "the name has white space, a control character or ://; expected REGISTRY/NAME[:TAG][@sha256:DIGEST]"
    )]
    Characters,
    #[error("expected sha256: and 64 lower-case hexadecimal digits after the @")]
    Digest,
    #[error("the reference has credentials; put them into the host's ostree/auth.json")]
    Credentials,
}

impl FromStr for ImageRef {
    type Err = ImageRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|problem| ImageRefError { reference: redact_reference(text), problem })
    }
}

fn parse(text: &str) -> Result<ImageRef, Problem> {
    let (verification, transport, name) = split_scheme(text)?;
    if name.is_empty() {
        return Err(Problem::NoName);
    }
    if name.chars().any(char::is_control) {
        return Err(Problem::Characters);
    }
    if transport == ImageTransport::Registry {
        ensure_registry_name(name)?;
    }
    Ok(ImageRef { verification, transport, name: name.to_owned() })
}

fn split_scheme(text: &str) -> Result<(ImageVerification, ImageTransport, &str), Problem> {
    let transport_of = |rest| ImageTransport::split(rest).ok_or(Problem::NoTransport);
    if let Some(name) = text.strip_prefix("ostree-unverified-registry:") {
        return Ok((ImageVerification::Unverified, ImageTransport::Registry, name));
    }
    if let Some(rest) = text.strip_prefix("ostree-unverified-image:") {
        let (transport, name) = transport_of(rest)?;
        return Ok((ImageVerification::Unverified, transport, name));
    }
    if let Some(rest) = text.strip_prefix("ostree-image-signed:") {
        let (transport, name) = transport_of(rest)?;
        return Ok((ImageVerification::ContainerPolicy, transport, name));
    }
    if let Some(rest) = text.strip_prefix("ostree-remote-registry:") {
        let (remote, name) = split_remote(rest, "ostree-remote-registry:")?;
        return Ok((remote, ImageTransport::Registry, name));
    }
    if let Some(rest) = text.strip_prefix("ostree-remote-image:") {
        let (remote, rest) = split_remote(rest, "ostree-remote-image:")?;
        let (transport, name) = transport_of(rest)?;
        return Ok((remote, transport, name));
    }
    match ImageTransport::split(text) {
        Some((transport, _)) if transport.is_local() => Err(Problem::NoScheme(text.to_owned())),
        Some((transport, name)) => Ok((ImageVerification::Unverified, transport, name)),
        None => Ok((ImageVerification::Unverified, ImageTransport::Registry, text)),
    }
}

fn split_remote<'a>(rest: &'a str, scheme: &'static str) -> Result<(ImageVerification, &'a str), Problem> {
    match rest.split_once(':') {
        Some((remote, rest)) if !remote.is_empty() && !remote.contains('/') => {
            Ok((ImageVerification::OstreeRemote(remote.to_owned()), rest))
        }
        _ => Err(Problem::NoRemote(scheme)),
    }
}

fn ensure_registry_name(name: &str) -> Result<(), Problem> {
    if holds_credentials(name) {
        return Err(Problem::Credentials);
    }
    if name.contains("://") || name.chars().any(char::is_whitespace) || name.starts_with(['/', ':', '@']) {
        return Err(Problem::Characters);
    }
    match name.split_once('@') {
        Some((_, digest)) if !is_digest(digest) => Err(Problem::Digest),
        _ => Ok(()),
    }
}

/// True for `user:password@registry/name`: an `@` before the first `/` does not start a digest.
fn holds_credentials(name: &str) -> bool {
    name.split_once('/').is_some_and(|(host, _)| host.contains('@'))
}

fn is_digest(text: &str) -> bool {
    let hexadecimal = |digits: &str, length| {
        digits.len() == length && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    match text.split_once(':') {
        Some(("sha256", digits)) => hexadecimal(digits, 64),
        Some(("sha512", digits)) => hexadecimal(digits, 128),
        _ => false,
    }
}

fn redact_reference(text: &str) -> String {
    match text.split_once('@') {
        Some((_, rest)) if !is_digest(rest) => format!("[redacted]@{rest}"),
        _ => text.to_owned(),
    }
}

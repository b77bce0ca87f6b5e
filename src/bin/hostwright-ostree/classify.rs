//! Tells failures of libostree, skopeo and ostree-ext apart.
//!
//! Their errors are texts by the time they arrive; the phrases here are those of libostree 2022.7 to 2025.2,
//! skopeo 1.9 to 1.18 with containers/image, and the containers-image-proxy crate.

use std::fmt::Write as _;

use hostwright::core::image::ImageRef;
use hostwright::os::{Cause, OsError, PullFailure};
use ostree_ext::containers_image_proxy as proxy;
use ostree_ext::{gio, glib};

/// What the host's own file systems and libraries failed at.
pub(crate) fn failure(doing: String, error: &anyhow::Error) -> OsError {
    let text = text_of(error);
    let source = Cause::new(&text);
    if is_full(error, &text) {
        OsError::NoSpace { doing, source }
    } else if is_read_only(error, &text) {
        OsError::ReadOnly { doing, source }
    } else {
        OsError::Other { doing, source }
    }
}

/// What went wrong between a reference and a commit in the repository.
pub(crate) fn pull_failure(image: &ImageRef, error: &anyhow::Error) -> OsError {
    let text = text_of(error);
    if is_full(error, &text) || is_read_only(error, &text) {
        return failure(format!("storing {image}"), error);
    }
    let reason = match error.downcast_ref::<proxy::Error>() {
        Some(proxy::Error::SkopeoSpawnError(source))
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            PullFailure::SkopeoMissing
        }
        _ => reason_of(&text),
    };
    OsError::Pull {
        image: image.to_string(),
        reason,
        source: Cause::new(&text),
    }
}

/// The whole chain in one line, with what the proxy's errors keep out of their message.
fn text_of(error: &anyhow::Error) -> String {
    let mut text = format!("{error:#}");
    for cause in error.chain() {
        if let Some(
            proxy::Error::Other(hidden)
            | proxy::Error::RequestReturned(hidden)
            | proxy::Error::Configuration(hidden),
        ) = cause.downcast_ref()
        {
            // Writing to a string cannot fail.
            let _ = write!(text, ": {hidden}");
        }
    }
    text
}

fn is_full(error: &anyhow::Error, text: &str) -> bool {
    is_io(error, gio::IOErrorEnum::NoSpace)
        || contains_any(
            text,
            &[
                "no space left on device",
                "min-free-space",
                "disk quota exceeded",
            ],
        )
}

fn is_read_only(error: &anyhow::Error, text: &str) -> bool {
    is_io(error, gio::IOErrorEnum::ReadOnly) || contains_any(text, &["read-only file system"])
}

fn is_io(error: &anyhow::Error, kind: gio::IOErrorEnum) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<glib::Error>()
            .is_some_and(|error| error.matches(kind))
    })
}

/// Phrases and what they mean. The first that occurs decides: an expired certificate is met while dialling,
/// and many failures mention that something was not found.
const PHRASES: [(PullFailure, &[&str]); 9] = [
    (PullFailure::SkopeoMissing, &["failed to execute skopeo"]),
    (
        PullFailure::Corrupt,
        &[
            "did not match",
            "does not match",
            "digest mismatch",
            "corrupt",
            "size mismatch",
            "invalid gzip header",
            "unexpected eof",
            "invalid checksum",
            "deflate",
        ],
    ),
    (
        PullFailure::SignatureRejected,
        &[
            "source image rejected",
            "signature",
            "refusing usage",
            "cannot currently verify",
            "running image",
            "invalid policy",
            "policy.json",
        ],
    ),
    (
        PullFailure::NotBootable,
        &[
            "not an ostree encapsulated container",
            "does not have ostree.bootable label",
            "has architecture",
            "failed to find kernel",
        ],
    ),
    (
        PullFailure::Tls,
        &[
            "x509:",
            "tls:",
            "http response to https client",
            "certificate",
        ],
    ),
    (
        PullFailure::Dns,
        &[
            "no such host",
            "temporary failure in name resolution",
            "server misbehaving",
        ],
    ),
    (
        PullFailure::Unreachable,
        &[
            "connection refused",
            "connection reset",
            "i/o timeout",
            "network is unreachable",
            "no route to host",
            "deadline exceeded",
            "client.timeout",
            "bad gateway",
            "service unavailable",
            "gateway timeout",
            "dial tcp",
            "toomanyrequests",
        ],
    ),
    (
        PullFailure::Denied,
        &[
            "unauthorized",
            "authentication required",
            "denied",
            "forbidden",
            "invalid username",
        ],
    ),
    (
        PullFailure::NotFound,
        &[
            "manifest unknown",
            "name unknown",
            "no such file or directory",
            "no descriptor found for reference",
            "no image found in oci index",
            "not known",
            "not found",
            "more than one image in oci",
        ],
    ),
];

fn reason_of(text: &str) -> PullFailure {
    PHRASES
        .iter()
        .find(|(_, phrases)| contains_any(text, phrases))
        .map_or(PullFailure::Other, |(reason, _)| *reason)
}

fn contains_any(text: &str, phrases: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    phrases.iter().any(|phrase| text.contains(phrase))
}

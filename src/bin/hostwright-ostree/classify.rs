//! Tells failures of libostree, skopeo and ostree-ext apart.
//!
//! Their errors are texts by the time they arrive. What can be provoked without a network is tested against libostree 2022.7 and
//! skopeo 1.9; a phrase that another version words differently ends as [`PullFailure::Other`], with its text.

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
    } else if text.contains("Failed to execute child process") && text.contains("bwrap") {
        // The image's own semodule refreshes its policy in a sandbox, where the merged `/etc` has one.
        OsError::ToolMissing { doing, tool: "bubblewrap".into(), source }
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
        Some(proxy::Error::SkopeoSpawnError(source)) if source.kind() == std::io::ErrorKind::NotFound => {
            PullFailure::SkopeoMissing
        }
        // A name may hold any of the phrases.
        _ => reason_of(&text.replace(image.name(), "")),
    };
    OsError::Pull { image: image.to_string(), reason, source: Cause::new(&text) }
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
        || contains_any(text, &["no space left on device", "min-free-space", "disk quota exceeded"])
}

fn is_read_only(error: &anyhow::Error, text: &str) -> bool {
    is_io(error, gio::IOErrorEnum::ReadOnly) || contains_any(text, &["read-only file system"])
}

fn is_io(error: &anyhow::Error, kind: gio::IOErrorEnum) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<glib::Error>().is_some_and(|error| error.matches(kind)))
}

/// Phrases and what they mean. The first that occurs decides: an expired certificate is met while dialling,
/// and many failures mention that something was not found.
const PHRASES: [(PullFailure, &[&str]); 10] = [
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
    (PullFailure::Tls, &["x509:", "tls:", "http response to https client", "certificate"]),
    (PullFailure::Dns, &["no such host", "temporary failure in name resolution", "server misbehaving"]),
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
        &["unauthorized", "authentication required", "denied", "forbidden", "invalid username"],
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
            "statuscode: 404",
        ],
    ),
    (PullFailure::Unreachable, &["pinging container registry", "statuscode: 5"]),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> PullFailure {
        let image = "docker://denied.example.com/corrupt:x".parse().unwrap();
        let error = anyhow::anyhow!("{text}").context("Creating importer");
        match pull_failure(&image, &error) {
            OsError::Pull { reason, .. } => reason,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn what_registries_and_networks_say_is_told_apart() {
        for (text, expected) in [
            (
                "pinging container registry h: Get \"https://h/v2/\": dial tcp: lookup h: no such host",
                PullFailure::Dns,
            ),
            ("lookup h on [::1]:53: read udp: connection refused", PullFailure::Unreachable),
            ("Get \"https://h/v2/\": dial tcp 192.0.2.1:443: i/o timeout", PullFailure::Unreachable),
            ("pinging container registry h: Get \"https://h/v2/\": EOF", PullFailure::Unreachable),
            ("fetching blob: StatusCode: 503, busy", PullFailure::Unreachable),
            ("tls: failed to verify certificate: x509: certificate has expired", PullFailure::Tls),
            ("dial tcp 192.0.2.1:443: x509: certificate signed by unknown authority", PullFailure::Tls),
            (
                "reading manifest 1 in h/x: unauthorized: access to the requested resource",
                PullFailure::Denied,
            ),
            ("requested access to the resource is denied", PullFailure::Denied),
            ("reading manifest 1 in h/x: manifest unknown: not here", PullFailure::NotFound),
            ("reading manifest 1 in h/x: name unknown: repository", PullFailure::NotFound),
            (
                "Source image rejected: Running image docker://h/x is rejected by policy.",
                PullFailure::SignatureRejected,
            ),
            ("Digest did not match, expected sha256:1, got sha256:2", PullFailure::Corrupt),
            ("Image has architecture arm64; expected amd64", PullFailure::NotBootable),
            ("something new about denied.example.com/corrupt:x", PullFailure::Other),
        ] {
            assert_eq!(reason(text), expected, "{text}");
        }
    }

    #[test]
    fn what_the_proxy_hides_is_looked_at_and_quoted() {
        let image = "h/x".parse().unwrap();
        let error = anyhow::Error::new(proxy::Error::Other("setpriv: failed to execute skopeo".into()));
        let OsError::Pull { reason, source, .. } = pull_failure(&image, &error) else {
            panic!("{error}");
        };
        assert_eq!(reason, PullFailure::SkopeoMissing);
        assert!(source.to_string().contains("setpriv"), "{source}");
    }
}

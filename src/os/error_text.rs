//! Classification of error texts of libostree, skopeo and ostree-ext.
//!
//! Both the worker and rpm-ostreed deliver these errors as text. Failures that need no network are tested
//! against libostree 2022.7 and skopeo 1.9. A text with a wording unknown here becomes [`PullFailure::Other`]
//! and is shown unchanged.

use crate::core::values::image::ImageRef;
use crate::os::PullFailure;

/// End of data in the middle of a layer: a damaged file, but a lost connection to a registry.
const CUT_OFF: &str = "unexpected eof";

/// Phrases of each failure. The first phrase that occurs decides. The order matters: a "dial tcp" message may
/// report an expired certificate, and many failures mention that something was not found.
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
            CUT_OFF,
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

/// Classify the error text of a pull of `image`.
#[must_use]
pub fn pull_failure(text: &str, image: &ImageRef) -> PullFailure {
    // The image's name may contain any of the phrases.
    let text = text.replace(image.name(), "");
    // Such a text goes on with the consequence.
    if !image.transport().is_local() && contains_any(&text, &[CUT_OFF]) {
        return PullFailure::Unreachable;
    }
    let found = PHRASES.iter().find(|(_, phrases)| contains_any(&text, phrases));
    found.map_or(PullFailure::Other, |(reason, _)| *reason)
}

/// Return true if the text reports a full file system.
#[must_use]
pub fn is_full(text: &str) -> bool {
    contains_any(text, &["no space left on device", "min-free-space", "disk quota exceeded"])
}

/// Return true if the text reports a read-only file system.
#[must_use]
pub fn is_read_only(text: &str) -> bool {
    contains_any(text, &["read-only file system"])
}

/// Search for the phrases, which must be in lower case.
pub(super) fn contains_any(text: &str, phrases: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    phrases.iter().any(|phrase| text.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_failures_are_classified_by_wording() {
        let image = "docker://denied.example.com/corrupt:x".parse().unwrap();
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
            assert_eq!(pull_failure(text, &image), expected, "{text}");
        }
    }
}

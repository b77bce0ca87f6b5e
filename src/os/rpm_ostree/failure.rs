//! Classification of failed transactions by their error text: rpm-ostreed returns no error code.

use crate::core::values::image::ImageRef;
use crate::os::{OsError, PullFailure, RedactedCause, error_text};

/// Cause of a failed transaction, split by remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpmOstreeFailure {
    /// The booted or pending deployment follows the image of that name already.
    RefsEqual,
    /// The image is older than the booted one and a downgrade was not allowed.
    Downgrade,
    NoSpace,
    ReadOnly,
    /// The image could not be pulled or deployed.
    Pull(PullFailure),
    /// The requested packages are not available or conflict.
    Packages,
    /// An inhibitor lock blocks the reboot that the transaction includes.
    Inhibited,
    /// The host is shutting down.
    ShuttingDown,
    /// Unrecognized text.
    Unknown,
}

/// Package phrases come last but before those of a pull: such texts quote network errors.
const PHRASES: [(RpmOstreeFailure, &[&str]); 5] = [
    (RpmOstreeFailure::RefsEqual, &["old and new refs are equal"]),
    (RpmOstreeFailure::Downgrade, &["chronologically older than"]),
    (RpmOstreeFailure::Inhibited, &["systemd inhibitor lock"]),
    (RpmOstreeFailure::ShuttingDown, &["reboot initiated, cannot start"]),
    (
        RpmOstreeFailure::Packages,
        &[
            "packages not found",
            "no package matches",
            "could not depsolve",
            "conflicting requests",
            "nothing provides",
            "is already provided by",
            "is already requested",
            "is not currently requested",
            "not found in base",
            "no overrides for package",
            "override already exists",
            "multiple packages match",
            "package \"",
            "cannot update repo",
            "cannot download repodata",
            "failed to download metadata",
            "no enabled repositories",
        ],
    ),
];

impl RpmOstreeFailure {
    /// Classify a text. The name of `image`, the image to pull, is removed from it first: a name may contain
    /// any phrase.
    #[must_use]
    pub fn of(text: &str, image: Option<&ImageRef>) -> Self {
        let message = image.map_or_else(|| text.to_owned(), |image| text.replace(image.name(), ""));
        let known = PHRASES.iter().find(|(_, phrases)| error_text::contains_any(&message, phrases));
        match (known, image) {
            (Some((failure, _)), _) => *failure,
            _ if error_text::is_full(text) => Self::NoSpace,
            _ if error_text::is_read_only(text) => Self::ReadOnly,
            (None, Some(image)) => match error_text::pull_failure(text, image) {
                PullFailure::Other => Self::Unknown,
                reason => Self::Pull(reason),
            },
            (None, None) => Self::Unknown,
        }
    }

    /// Return true if the same transaction may succeed later without a change on this host.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Pull(reason) if reason.is_transient())
    }

    /// Convert into an error of the [`Sysroot`](crate::os::Sysroot) port.
    #[must_use]
    pub fn into_error(self, text: &str, image: Option<&ImageRef>) -> OsError {
        let source = RedactedCause::new(text);
        let doing = || match image {
            Some(image) => format!("deploying {image} with rpm-ostreed"),
            None => "changing packages with rpm-ostreed".to_owned(),
        };
        match (self, image) {
            (Self::Pull(reason), Some(image)) => OsError::Pull { image: image.to_string(), reason, source },
            (Self::NoSpace, _) => OsError::NoSpace { doing: doing(), source },
            (Self::ReadOnly, _) => OsError::ReadOnly { doing: doing(), source },
            (Self::Packages, _) => OsError::Packages { source },
            _ => {
                let doing = format!("{} (see `journalctl -u rpm-ostreed.service`)", doing());
                OsError::Other { doing, source }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_classified_by_text() {
        let image: ImageRef = "registry.example.com/denied/os:refs".parse().unwrap();
        for (text, expected) in [
            ("Old and new refs are equal: ostree-unverified-registry:h/x", RpmOstreeFailure::RefsEqual),
            (
                "Upgrade target revision 'a' with timestamp 'x' is chronologically older than current revision 'b'",
                RpmOstreeFailure::Downgrade,
            ),
            (
                "Creating importer: failed to invoke method OpenImage: pinging container registry h: Get \
                 \"https://h/v2/\": dial tcp: lookup h: no such host",
                RpmOstreeFailure::Pull(PullFailure::Dns),
            ),
            (
                "reading manifest 1 in registry.example.com/denied/os:refs: manifest unknown",
                RpmOstreeFailure::Pull(PullFailure::NotFound),
            ),
            (
                "unauthorized: access to the requested resource is not authorized",
                RpmOstreeFailure::Pull(PullFailure::Denied),
            ),
            ("x509: certificate has expired or is not yet valid", RpmOstreeFailure::Pull(PullFailure::Tls)),
            (
                "Source image rejected: A signature was required, but no signature exists",
                RpmOstreeFailure::Pull(PullFailure::SignatureRejected),
            ),
            ("Writing object: fallocate: No space left on device", RpmOstreeFailure::NoSpace),
            (
                "min-free-space-percent '3%' would be exceeded, at least 1 kB requested",
                RpmOstreeFailure::NoSpace,
            ),
            ("openat(x): Read-only file system", RpmOstreeFailure::ReadOnly),
            ("Packages not found: usbguard", RpmOstreeFailure::Packages),
            ("Package \"kernel-rt\" not found", RpmOstreeFailure::Packages),
            (
                "Could not depsolve transaction; 1 problem detected: conflicting requests",
                RpmOstreeFailure::Packages,
            ),
            (
                "Cannot update repo 'coreos-extensions': Curl error (6): Could not resolve host",
                RpmOstreeFailure::Packages,
            ),
            (
                "Reboot blocked by a systemd inhibitor lock in use. Use --bypass-inhibitors",
                RpmOstreeFailure::Inhibited,
            ),
            ("Reboot initiated, cannot start new transaction", RpmOstreeFailure::ShuttingDown),
            ("something new", RpmOstreeFailure::Unknown),
        ] {
            assert_eq!(RpmOstreeFailure::of(text, Some(&image)), expected, "{text}");
        }
        assert_eq!(
            RpmOstreeFailure::of("manifest unknown", None),
            RpmOstreeFailure::Unknown,
            "nothing was to be pulled"
        );
    }

    #[test]
    fn error_quotes_the_text_without_credentials() {
        let image: ImageRef = "h/x:1".parse().unwrap();
        let text = "Get https://u:secret@h/v2/: unauthorized";
        let error = RpmOstreeFailure::of(text, Some(&image)).into_error(text, Some(&image));
        let OsError::Pull { reason: PullFailure::Denied, source, .. } = error else { panic!("{error}") };
        assert!(!source.to_string().contains("secret"), "{source}");
    }
}

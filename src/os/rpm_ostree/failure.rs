//! What a transaction failed at, as far as its text tells: rpm-ostreed gives no code.

use crate::core::values::image::ImageRef;
use crate::os::{Cause, OsError, PullFailure, wording};

/// Why a transaction failed, by what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// What runs or is staged follows that image already, by name.
    RefsEqual,
    /// The image is older than what runs, and going back was not allowed.
    Older,
    /// A file system is full.
    NoSpace,
    /// A file system cannot be written to.
    ReadOnly,
    /// The image could not be fetched or used.
    Pull(PullFailure),
    /// Packages cannot be had, or not together.
    Packages,
    /// Somebody inhibits the shutdown that was asked for with it.
    Inhibited,
    /// The host is going down.
    GoingDown,
    /// The daemon found no unit that its caller belongs to, and was asked to note one.
    NoUnit,
    /// Its text says nothing that is known here.
    Unclear,
}

/// In this order: texts about packages quote what the network said.
const PHRASES: [(Failure, &[&str]); 6] = [
    (Failure::RefsEqual, &["old and new refs are equal"]),
    (Failure::Older, &["chronologically older than"]),
    (Failure::Inhibited, &["systemd inhibitor lock"]),
    (Failure::GoingDown, &["reboot initiated, cannot start"]),
    (Failure::NoUnit, &["could not find caller systemd unit"]),
    (
        Failure::Packages,
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

impl Failure {
    /// Tells apart what the daemon says. `image` is what was to be pulled: its name may hold any phrase.
    #[must_use]
    pub fn of(text: &str, image: Option<&ImageRef>) -> Self {
        let said = image.map_or_else(|| text.to_owned(), |image| text.replace(image.name(), ""));
        let known = PHRASES.iter().find(|(_, phrases)| wording::contains_any(&said, phrases));
        match (known, image) {
            (Some((failure, _)), _) => *failure,
            _ if wording::is_full(text) => Self::NoSpace,
            _ if wording::is_read_only(text) => Self::ReadOnly,
            (None, Some(image)) => match wording::pull_failure(text, image) {
                PullFailure::Other => Self::Unclear,
                reason => Self::Pull(reason),
            },
            (None, None) => Self::Unclear,
        }
    }

    /// Whether the same may succeed later without anybody changing anything on this host.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Pull(reason) if reason.is_transient())
    }

    /// As an error of the sysroot's port.
    #[must_use]
    pub fn into_error(self, text: &str, image: Option<&ImageRef>) -> OsError {
        let source = Cause::new(text);
        let doing = || match image {
            Some(image) => format!("having rpm-ostreed deploy {image}"),
            None => "having rpm-ostreed change packages".to_owned(),
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
    fn texts_of_the_daemon_are_told_apart() {
        let image: ImageRef = "registry.example.com/denied/os:refs".parse().unwrap();
        for (text, expected) in [
            ("Old and new refs are equal: ostree-unverified-registry:h/x", Failure::RefsEqual),
            (
                "Upgrade target revision 'a' with timestamp 'x' is chronologically older than current revision 'b'",
                Failure::Older,
            ),
            (
                "Creating importer: failed to invoke method OpenImage: pinging container registry h: Get \
                 \"https://h/v2/\": dial tcp: lookup h: no such host",
                Failure::Pull(PullFailure::Dns),
            ),
            (
                "reading manifest 1 in registry.example.com/denied/os:refs: manifest unknown",
                Failure::Pull(PullFailure::NotFound),
            ),
            (
                "unauthorized: access to the requested resource is not authorized",
                Failure::Pull(PullFailure::Denied),
            ),
            ("x509: certificate has expired or is not yet valid", Failure::Pull(PullFailure::Tls)),
            (
                "Source image rejected: A signature was required, but no signature exists",
                Failure::Pull(PullFailure::SignatureRejected),
            ),
            ("Writing object: fallocate: No space left on device", Failure::NoSpace),
            ("min-free-space-percent '3%' would be exceeded, at least 1 kB requested", Failure::NoSpace),
            ("openat(x): Read-only file system", Failure::ReadOnly),
            ("Packages not found: usbguard", Failure::Packages),
            ("Package \"kernel-rt\" not found", Failure::Packages),
            ("Could not depsolve transaction; 1 problem detected: conflicting requests", Failure::Packages),
            (
                "Cannot update repo 'coreos-extensions': Curl error (6): Could not resolve host",
                Failure::Packages,
            ),
            (
                "Reboot blocked by a systemd inhibitor lock in use. Use --bypass-inhibitors",
                Failure::Inhibited,
            ),
            ("Reboot initiated, cannot start new transaction", Failure::GoingDown),
            ("could not find caller systemd unit", Failure::NoUnit),
            ("something new", Failure::Unclear),
        ] {
            assert_eq!(Failure::of(text, Some(&image)), expected, "{text}");
        }
        assert_eq!(Failure::of("manifest unknown", None), Failure::Unclear, "nothing was to be pulled");
    }

    #[test]
    fn an_error_quotes_the_daemon_without_credentials() {
        let image: ImageRef = "h/x:1".parse().unwrap();
        let text = "Get https://u:secret@h/v2/: unauthorized";
        let error = Failure::of(text, Some(&image)).into_error(text, Some(&image));
        let OsError::Pull { reason: PullFailure::Denied, source, .. } = error else { panic!("{error}") };
        assert!(!source.to_string().contains("secret"), "{source}");
    }
}

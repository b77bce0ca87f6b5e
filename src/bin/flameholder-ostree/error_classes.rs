//! Classification of failures of libostree, skopeo and ostree-ext: by error type where one is available, else
//! by the text of the message.

use std::fmt::Write as _;

use flameholder::core::values::image::ImageRef;
use flameholder::os::{OsError, PullFailure, RedactedCause, error_text};
use ostree_ext::{containers_image_proxy as proxy, gio, glib};

use crate::stall::FetchStalled;

/// Classify a failure on the host: full file system, read-only file system, missing tool or other.
pub(crate) fn failure(doing: String, error: &anyhow::Error) -> OsError {
    let text = text_of(error);
    let source = RedactedCause::new(&text);
    if is_full(error, &text) {
        OsError::NoSpace { doing, source }
    } else if is_read_only(error, &text) {
        OsError::ReadOnly { doing, source }
    } else if text.contains("Failed to execute child process") && text.contains("bwrap") {
        // libostree runs the image's semodule in bubblewrap if the merged `/etc` has a changed SELinux
        // policy.
        OsError::ToolMissing { doing, tool: "bubblewrap".into(), source }
    } else {
        OsError::Other { doing, source }
    }
}

/// Classify a failure to import an image into the repository.
pub(crate) fn pull_failure(image: &ImageRef, error: &anyhow::Error) -> OsError {
    let text = text_of(error);
    if is_full(error, &text) || is_read_only(error, &text) {
        return failure(format!("storing {image}"), error);
    }
    let reason = match error.downcast_ref::<proxy::Error>() {
        _ if error.is::<FetchStalled>() => PullFailure::Stalled,
        Some(proxy::Error::SkopeoSpawnError(source)) if source.kind() == std::io::ErrorKind::NotFound => {
            PullFailure::SkopeoMissing
        }
        _ => error_text::pull_failure(&text, image),
    };
    OsError::Pull { image: image.to_string(), reason, source: RedactedCause::new(&text) }
}

/// Join the error chain in one line. Some errors of the proxy omit their details in `Display`; these are
/// appended.
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
    is_io(error, gio::IOErrorEnum::NoSpace) || error_text::is_full(text)
}

fn is_read_only(error: &anyhow::Error, text: &str) -> bool {
    is_io(error, gio::IOErrorEnum::ReadOnly) || error_text::is_read_only(text)
}

fn is_io(error: &anyhow::Error, kind: gio::IOErrorEnum) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<glib::Error>().is_some_and(|error| error.matches(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_details_of_proxy_errors_are_classified_and_quoted() {
        let image = "h/x".parse().unwrap();
        let error = anyhow::Error::new(proxy::Error::Other("setpriv: failed to execute skopeo".into()));
        let OsError::Pull { reason, source, .. } = pull_failure(&image, &error) else {
            panic!("{error}");
        };
        assert_eq!(reason, PullFailure::SkopeoMissing);
        assert!(source.to_string().contains("setpriv"), "{source}");
    }
}

//! Tells failures of libostree, skopeo and ostree-ext apart: by type where they have one left, else by
//! [their wording](wording).

use std::fmt::Write as _;

use flameholder::core::values::image::ImageRef;
use flameholder::os::{OsError, PullFailure, RedactedCause, wording};
use ostree_ext::containers_image_proxy as proxy;
use ostree_ext::{gio, glib};

/// What the host's own file systems and libraries failed at.
pub(crate) fn failure(doing: String, error: &anyhow::Error) -> OsError {
    let text = text_of(error);
    let source = RedactedCause::new(&text);
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
        _ => wording::pull_failure(&text, image),
    };
    OsError::Pull { image: image.to_string(), reason, source: RedactedCause::new(&text) }
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
    is_io(error, gio::IOErrorEnum::NoSpace) || wording::is_full(text)
}

fn is_read_only(error: &anyhow::Error, text: &str) -> bool {
    is_io(error, gio::IOErrorEnum::ReadOnly) || wording::is_read_only(text)
}

fn is_io(error: &anyhow::Error, kind: gio::IOErrorEnum) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<glib::Error>().is_some_and(|error| error.matches(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

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

//! Next step after a transaction, derived from its outcome and from the deployments, which have the last
//! word.

use super::failure::RpmOstreeFailure;
use super::request::{LayerBase, LayerRequest};
use super::transaction::{CancelledBy, RpmOstreeOutcome};
use crate::core::values::image::ImageRef;
use crate::os::{Deployment, OsError};

/// Next step after a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerVerdict {
    /// This deployment satisfies the request; it is staged and locked.
    Staged(Box<Deployment>),
    /// The booted deployment satisfies the request already.
    Unchanged,
    /// The transaction had no effect, and may succeed if it is repeated.
    Retry {
        /// True if the repetition must not register an update driver.
        without_driver: bool,
        /// Error to report if no attempts are left.
        error: OsError,
    },
    Failed(OsError),
}

/// Derive the next step. `deployments` is the list after the transaction; before it, nothing was staged.
#[must_use]
pub fn conclude(
    outcome: &RpmOstreeOutcome,
    request: &LayerRequest,
    deployments: &[Deployment],
) -> LayerVerdict {
    let staged = deployments.iter().find(|deployment| deployment.staged);
    let booted = deployments.iter().find(|deployment| deployment.booted);
    let image = request.image();
    let again = |error| LayerVerdict::Retry { without_driver: false, error };
    match (outcome, staged) {
        // Includes a cancellation that came too late, and a transaction without a result.
        (
            RpmOstreeOutcome::Succeeded | RpmOstreeOutcome::Cancelled(_) | RpmOstreeOutcome::Unknown(_),
            Some(staged),
        ) => match staged_mismatch(request, staged, booted) {
            None => LayerVerdict::Staged(Box::new(staged.clone())),
            Some(what) if *outcome == RpmOstreeOutcome::Succeeded => {
                let text = format!("rpm-ostreed reports success, but {what}");
                LayerVerdict::Failed(RpmOstreeFailure::Unknown.into_error(&text, image))
            }
            Some(_) => LayerVerdict::Failed(OsError::AlreadyStaged { deployment: staged.id.to_string() }),
        },
        (RpmOstreeOutcome::Succeeded, None) => {
            match booted.and_then(|booted| deployment_mismatch(request, booted)) {
                None => LayerVerdict::Unchanged,
                Some(what) => {
                    let text = format!("rpm-ostreed reports success, but no deployment is staged and {what}");
                    LayerVerdict::Failed(RpmOstreeFailure::Unknown.into_error(&text, image))
                }
            }
        }
        (RpmOstreeOutcome::Failed(text), _) => of_failure(&text.to_string(), request, booted),
        (RpmOstreeOutcome::Cancelled(CancelledBy::Caller), None) => LayerVerdict::Failed(OsError::Cancelled),
        (RpmOstreeOutcome::Cancelled(CancelledBy::Deadline), None) => LayerVerdict::Failed(
            RpmOstreeFailure::Unknown.into_error("cancelled after too long a time without progress", image),
        ),
        (RpmOstreeOutcome::Cancelled(CancelledBy::OtherClient), None) => {
            again(RpmOstreeFailure::Unknown.into_error("cancelled by another program on this host", image))
        }
        (RpmOstreeOutcome::Unknown(text), None) => {
            again(RpmOstreeFailure::Unknown.into_error(&text.to_string(), image))
        }
    }
}

fn of_failure(text: &str, request: &LayerRequest, booted: Option<&Deployment>) -> LayerVerdict {
    let image = request.image();
    let failure = RpmOstreeFailure::of(text, image);
    let error = failure.into_error(text, image);
    match failure {
        // Equal by name; equal content is shown only by the digest.
        RpmOstreeFailure::RefsEqual
            if booted.is_some_and(|booted| deployment_mismatch(request, booted).is_none()) =>
        {
            LayerVerdict::Unchanged
        }
        RpmOstreeFailure::NoUnit if request.registers_driver => {
            LayerVerdict::Retry { without_driver: true, error }
        }
        failure if failure.is_transient() => LayerVerdict::Retry { without_driver: false, error },
        _ => LayerVerdict::Failed(error),
    }
}

/// Describe how a staged deployment differs from the request; `None` if it satisfies it.
fn staged_mismatch(
    request: &LayerRequest,
    staged: &Deployment,
    booted: Option<&Deployment>,
) -> Option<String> {
    if !staged.locked {
        return Some("the staged deployment is not locked".to_owned());
    }
    if let (LayerBase::BootedCommit | LayerBase::BootedImageName, Some(booted)) = (&request.base, booted)
        && staged.image != booted.image
    {
        return Some("the staged deployment follows another image than the booted one".to_owned());
    }
    deployment_mismatch(request, staged)
}

/// Describe how a deployment's image or packages differ from the request.
fn deployment_mismatch(request: &LayerRequest, deployment: &Deployment) -> Option<String> {
    if let LayerBase::Image(image) = &request.base
        && !is_of(deployment, image)
    {
        let found = deployment.manifest_digest.as_deref().unwrap_or("no image");
        return Some(format!("deployment {} has the image {found}", deployment.id));
    }
    let missing = request.change.missing_in(&deployment.layering);
    (!missing.is_empty()).then(|| missing.join(", "))
}

fn is_of(deployment: &Deployment, image: &ImageRef) -> bool {
    match image.digest() {
        Some(digest) => deployment.manifest_digest.as_deref() == Some(digest),
        None => deployment.image.as_ref() == Some(image),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::layering::{LayeringChange, PackageLayering};
    use crate::core::values::kernel_arguments::KernelArguments;
    use crate::os::{DeploymentId, PullFailure, RedactedCause};

    const NEW: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

    fn deployment(serial: u32, digest: &str) -> Deployment {
        Deployment {
            id: DeploymentId { stateroot: "os".into(), commit: "c".repeat(64), serial },
            kernel_arguments: KernelArguments::default(),
            image: "h/os:1".parse().ok(),
            manifest_digest: Some(digest.to_owned()),
            layering: PackageLayering::default(),
            version: None,
            pinned: false,
            staged: false,
            staged_in: None,
            locked: false,
            booted: false,
        }
    }

    fn staged(digest: &str) -> Deployment {
        Deployment { staged: true, locked: true, ..deployment(1, digest) }
    }

    fn request(base: LayerBase) -> LayerRequest {
        LayerRequest { base, change: LayeringChange::default(), registers_driver: true }
    }

    fn new_image() -> LayerBase {
        LayerBase::Image(format!("h/os@{NEW}").parse().unwrap())
    }

    /// Verdict in one word.
    fn concluded(outcome: &RpmOstreeOutcome, base: LayerBase, staged: Option<Deployment>) -> &'static str {
        let booted = Deployment { booted: true, ..deployment(0, "sha256:1") };
        let deployments: Vec<Deployment> = staged.into_iter().chain([booted]).collect();
        match conclude(outcome, &request(base), &deployments) {
            LayerVerdict::Staged(_) => "made",
            LayerVerdict::Unchanged => "nothing",
            LayerVerdict::Retry { without_driver: true, .. } => "again without driver",
            LayerVerdict::Retry { .. } => "again",
            LayerVerdict::Failed(OsError::AlreadyStaged { .. }) => "another's",
            LayerVerdict::Failed(OsError::Cancelled) => "interrupted",
            LayerVerdict::Failed(_) => "failed",
        }
    }

    #[test]
    fn verdict_follows_outcome_and_deployments() {
        let failed = |text: &str| RpmOstreeOutcome::Failed(RedactedCause::new(text));
        let unknown = RpmOstreeOutcome::Unknown(RedactedCause::new("gone"));
        let [caller, deadline, else_] =
            [CancelledBy::Caller, CancelledBy::Deadline, CancelledBy::OtherClient]
                .map(RpmOstreeOutcome::Cancelled);
        let unlocked = || Deployment { locked: false, ..staged(NEW) };
        let other_image = || Deployment { image: "h/other:1".parse().ok(), ..staged("sha256:1") };
        for (outcome, base, staged, expected) in [
            (&RpmOstreeOutcome::Succeeded, new_image(), Some(staged(NEW)), "made"),
            (&unknown, new_image(), Some(staged(NEW)), "made"),
            (&caller, new_image(), Some(staged(NEW)), "made"),
            (&RpmOstreeOutcome::Succeeded, new_image(), Some(staged("sha256:3")), "failed"),
            (&RpmOstreeOutcome::Succeeded, new_image(), Some(unlocked()), "failed"),
            (&unknown, new_image(), Some(unlocked()), "another's"),
            (&else_, new_image(), Some(staged("sha256:3")), "another's"),
            (&RpmOstreeOutcome::Succeeded, new_image(), None, "failed"),
            (&RpmOstreeOutcome::Succeeded, LayerBase::BootedCommit, None, "nothing"),
            (&RpmOstreeOutcome::Succeeded, LayerBase::BootedImageName, Some(staged("sha256:3")), "made"),
            (&RpmOstreeOutcome::Succeeded, LayerBase::BootedCommit, Some(other_image()), "failed"),
            (&unknown, new_image(), None, "again"),
            (&else_, new_image(), None, "again"),
            (&caller, new_image(), None, "interrupted"),
            (&deadline, new_image(), None, "failed"),
            (&failed("Old and new refs are equal: h/os"), new_image(), None, "failed"),
            (&failed("Old and new refs are equal: h/os"), LayerBase::BootedImageName, None, "nothing"),
            (&failed("could not find caller systemd unit"), new_image(), None, "again without driver"),
            (&failed("dial tcp: lookup h: no such host"), new_image(), None, "again"),
            (&failed("unauthorized"), new_image(), None, "failed"),
            (&failed("anything else"), new_image(), None, "failed"),
        ] {
            assert_eq!(
                concluded(outcome, base.clone(), staged.clone()),
                expected,
                "{outcome:?} {base:?} {staged:?}"
            );
        }
    }

    #[test]
    fn staged_deployment_without_a_requested_package_fails() {
        let change = LayeringChange { install: vec!["usbguard".into()], ..LayeringChange::default() };
        let request = LayerRequest { change, ..request(LayerBase::BootedCommit) };
        let booted = Deployment { booted: true, ..deployment(0, "sha256:1") };
        let with = PackageLayering { requested: vec!["usbguard".into()], ..PackageLayering::default() };
        let conclude = |staged| conclude(&RpmOstreeOutcome::Succeeded, &request, &[staged, booted.clone()]);
        let LayerVerdict::Failed(error) = conclude(staged("sha256:1")) else {
            panic!("a package is missing")
        };
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("usbguard is not installed"), "{cause}");
        assert!(matches!(
            conclude(Deployment { layering: with, ..staged("sha256:1") }),
            LayerVerdict::Staged(_)
        ));
    }

    #[test]
    fn unreachable_registry_is_a_pull_error_and_retried() {
        let outcome = RpmOstreeOutcome::Failed(RedactedCause::new("dial tcp 192.0.2.1:443: i/o timeout"));
        let LayerVerdict::Retry { error, .. } = conclude(&outcome, &request(new_image()), &[]) else {
            panic!("the registry may answer later")
        };
        assert!(matches!(error, OsError::Pull { reason: PullFailure::Unreachable, .. }), "{error}");
    }
}

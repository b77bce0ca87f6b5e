//! What is to be concluded from the end of a transaction: its word where there is one, and in any case the deployments.

use super::failure::RpmOstreeFailure;
use super::request::{LayerBase, LayerRequest};
use super::transaction::{CancelledBy, RpmOstreeOutcome};
use crate::core::values::image::ImageRef;
use crate::os::{Deployment, OsError};

/// How to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerVerdict {
    /// This deployment is what was asked for; it is staged, and locked.
    Staged(Box<Deployment>),
    /// What runs is what was asked for.
    Unchanged,
    /// It did not happen, and may when it is asked for again.
    Retry {
        /// Whether the daemon is to be asked without noting a driver.
        without_driver: bool,
        /// The error, should that not help.
        error: OsError,
    },
    /// It did not happen.
    Failed(OsError),
}

/// Concludes. `deployments` are those after the end of the transaction; before it, nothing was staged.
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
        // Also where it was cancelled too late, or nobody said so.
        (
            RpmOstreeOutcome::Succeeded | RpmOstreeOutcome::Cancelled(_) | RpmOstreeOutcome::Unknown(_),
            Some(staged),
        ) => match staged_mismatch(request, staged, booted) {
            None => LayerVerdict::Staged(Box::new(staged.clone())),
            Some(what) if *outcome == RpmOstreeOutcome::Succeeded => {
                let text = format!("it reports success, and {what}");
                LayerVerdict::Failed(RpmOstreeFailure::Unknown.into_error(&text, image))
            }
            Some(_) => LayerVerdict::Failed(OsError::AlreadyStaged { deployment: staged.id.to_string() }),
        },
        (RpmOstreeOutcome::Succeeded, None) => {
            match booted.and_then(|booted| deployment_mismatch(request, booted)) {
                None => LayerVerdict::Unchanged,
                Some(what) => {
                    let text = format!("it reports success, nothing is staged, and {what}");
                    LayerVerdict::Failed(RpmOstreeFailure::Unknown.into_error(&text, image))
                }
            }
        }
        (RpmOstreeOutcome::Failed(text), _) => of_failure(&text.to_string(), request, booted),
        (RpmOstreeOutcome::Cancelled(CancelledBy::Caller), None) => LayerVerdict::Failed(OsError::Cancelled),
        (RpmOstreeOutcome::Cancelled(CancelledBy::Deadline), None) => LayerVerdict::Failed(
            RpmOstreeFailure::Unknown.into_error("it said nothing for too long, and was cancelled", image),
        ),
        (RpmOstreeOutcome::Cancelled(CancelledBy::OtherClient), None) => {
            again(RpmOstreeFailure::Unknown.into_error("another program on this host cancelled it", image))
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
        // By name: whether it is by content as well, only the digest tells.
        RpmOstreeFailure::RefsEqual
            if booted.is_some_and(|booted| deployment_mismatch(request, booted).is_none()) =>
        {
            LayerVerdict::Unchanged
        }
        RpmOstreeFailure::NoUnit if request.drives => LayerVerdict::Retry { without_driver: true, error },
        failure if failure.is_transient() => LayerVerdict::Retry { without_driver: false, error },
        _ => LayerVerdict::Failed(error),
    }
}

/// In which way a staged deployment is not what was asked for.
fn staged_mismatch(
    request: &LayerRequest,
    staged: &Deployment,
    booted: Option<&Deployment>,
) -> Option<String> {
    if !staged.locked {
        return Some("what is staged is not locked".to_owned());
    }
    if let (LayerBase::BootedCommit | LayerBase::BootedImageName, Some(booted)) = (&request.base, booted)
        && staged.image != booted.image
    {
        return Some("what is staged follows another image than what runs".to_owned());
    }
    deployment_mismatch(request, staged)
}

/// The same, but for how it is deployed.
fn deployment_mismatch(request: &LayerRequest, deployment: &Deployment) -> Option<String> {
    if let LayerBase::Image(image) = &request.base
        && !is_of(deployment, image)
    {
        let found = deployment.manifest_digest.as_deref().unwrap_or("no image");
        return Some(format!("the deployment {} is of {found}", deployment.id));
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
    use crate::os::{DeploymentId, PullFailure, RedactedCause};

    const NEW: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

    fn deployment(serial: u32, digest: &str) -> Deployment {
        Deployment {
            id: DeploymentId { stateroot: "os".into(), commit: "c".repeat(64), serial },
            kernel_arguments: Vec::new(),
            image: "h/os:1".parse().ok(),
            manifest_digest: Some(digest.to_owned()),
            layering: PackageLayering::default(),
            version: None,
            pinned: false,
            staged: false,
            locked: false,
            booted: false,
        }
    }

    fn staged(digest: &str) -> Deployment {
        Deployment { staged: true, locked: true, ..deployment(1, digest) }
    }

    fn request(base: LayerBase) -> LayerRequest {
        LayerRequest { base, change: LayeringChange::default(), drives: true }
    }

    fn new_image() -> LayerBase {
        LayerBase::Image(format!("h/os@{NEW}").parse().unwrap())
    }

    /// In one word.
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
    fn the_deployments_decide() {
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
    fn packages_are_part_of_it() {
        let change = LayeringChange { install: vec!["usbguard".into()], ..LayeringChange::default() };
        let request = LayerRequest { change, ..request(LayerBase::BootedCommit) };
        let booted = Deployment { booted: true, ..deployment(0, "sha256:1") };
        let with = PackageLayering { requested: vec!["usbguard".into()], ..PackageLayering::default() };
        let conclude = |staged| conclude(&RpmOstreeOutcome::Succeeded, &request, &[staged, booted.clone()]);
        let LayerVerdict::Failed(error) = conclude(staged("sha256:1")) else {
            panic!("it lacks the package")
        };
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("usbguard is not installed"), "{cause}");
        assert!(matches!(
            conclude(Deployment { layering: with, ..staged("sha256:1") }),
            LayerVerdict::Staged(_)
        ));
    }

    #[test]
    fn a_registry_that_is_away_is_an_error_about_the_image() {
        let outcome = RpmOstreeOutcome::Failed(RedactedCause::new("dial tcp 192.0.2.1:443: i/o timeout"));
        let LayerVerdict::Retry { error, .. } = conclude(&outcome, &request(new_image()), &[]) else {
            panic!("it may come back")
        };
        assert!(matches!(error, OsError::Pull { reason: PullFailure::Unreachable, .. }), "{error}");
    }
}

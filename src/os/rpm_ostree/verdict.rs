//! Next step after a transaction, derived from its outcome and from the deployments, which have the last
//! word.

use super::failure::RpmOstreeFailure;
use super::request::{LayerBase, LayerRequest};
use super::transaction::{CancelledBy, RpmOstreeOutcome};
use crate::core::values::image::ImageRef;
use crate::os::{Deployment, DeploymentId, OsError, RedactedCause};

/// Next step after a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerVerdict {
    /// This deployment satisfies the request; it is staged and locked.
    Staged(Box<Deployment>),
    /// The booted deployment satisfies the request already.
    Unchanged,
    /// The transaction did not succeed, and may if it is repeated. The error is reported if no attempts are left.
    Retry(FailedLayering),
    Failed(FailedLayering),
}

/// Transaction without success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedLayering {
    /// Deployment that the transaction staged nevertheless, to be discarded before anything else: rpm-ostreed checks a
    /// deployment after staging it, and leaves it staged where the check fails or is never made.
    pub staged: Option<DeploymentId>,
    pub error: OsError,
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
    let mismatch = staged.and_then(|staged| staged_mismatch(request, staged, booted));
    let made = staged.filter(|_| mismatch.is_none());
    let discarded = made.map(|made| made.id.clone());
    let unknown = |text: &str| RpmOstreeFailure::Unknown.into_error(text, request.image());
    let failed = |error| LayerVerdict::Failed(FailedLayering { staged: discarded.clone(), error });
    let again = |error| LayerVerdict::Retry(FailedLayering { staged: discarded.clone(), error });
    match (outcome, staged) {
        (RpmOstreeOutcome::Succeeded, Some(staged)) => match mismatch {
            None => LayerVerdict::Staged(Box::new(staged.clone())),
            Some(what) => failed(unknown(&format!("rpm-ostreed reports success, but {what}"))),
        },
        (RpmOstreeOutcome::Succeeded, None) => {
            match booted.and_then(|booted| deployment_mismatch(request, booted)) {
                None => LayerVerdict::Unchanged,
                Some(what) => failed(unknown(&format!(
                    "rpm-ostreed reports success, but no deployment is staged and {what}"
                ))),
            }
        }
        (RpmOstreeOutcome::Failed(text), _) => of_failure(&text.to_string(), request, booted, made),
        (RpmOstreeOutcome::Cancelled(_) | RpmOstreeOutcome::Unknown(_), Some(staged)) if made.is_none() => {
            failed(OsError::AlreadyStaged { deployment: staged.id.to_string() })
        }
        (RpmOstreeOutcome::Cancelled(CancelledBy::Caller), _) => failed(OsError::Cancelled),
        (RpmOstreeOutcome::Cancelled(CancelledBy::Deadline), _) => {
            failed(unknown("cancelled after too long a time without progress"))
        }
        (RpmOstreeOutcome::Cancelled(CancelledBy::OtherClient), _) => {
            again(unknown("cancelled by another program on this host"))
        }
        (RpmOstreeOutcome::Unknown(text), _) => again(unknown(&text.to_string())),
    }
}

fn of_failure(
    text: &str,
    request: &LayerRequest,
    booted: Option<&Deployment>,
    made: Option<&Deployment>,
) -> LayerVerdict {
    let (image, staged) = (request.image(), made.map(|made| made.id.clone()));
    let failure = RpmOstreeFailure::of(text, image);
    let error = failure.into_error(text, image);
    match failure {
        // Equal by name; equal content is shown only by the digest.
        RpmOstreeFailure::RefsEqual
            if booted.is_some_and(|booted| deployment_mismatch(request, booted).is_none()) =>
        {
            LayerVerdict::Unchanged
        }
        RpmOstreeFailure::NoSpace | RpmOstreeFailure::ReadOnly | RpmOstreeFailure::ShuttingDown => {
            LayerVerdict::Failed(FailedLayering { staged, error })
        }
        // The image was pulled and the packages were found: the result is not accepted. Other errors after the staging, such as
        // those of a clean-up, say nothing about it.
        _ if let Some(made) = made.filter(|_| is_of_check(text)) => {
            let what = image.map_or_else(|| "the layered packages".to_owned(), ToString::to_string);
            let digest = image.and(made.manifest_digest.clone());
            let error = OsError::Rejected { what, digest, source: RedactedCause::new(text) };
            LayerVerdict::Failed(FailedLayering { staged, error })
        }
        failure if failure.is_transient() => LayerVerdict::Retry(FailedLayering { staged, error }),
        _ => LayerVerdict::Failed(FailedLayering { staged, error }),
    }
}

/// Return true if the check of the staged deployment failed: rpm-ostreed runs `/usr/bin/true` of it.
fn is_of_check(text: &str) -> bool {
    text.to_ascii_lowercase().contains("sanity-checking final rootfs")
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
    use crate::os::PullFailure;

    const NEW: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

    fn deployment(serial: u32, digest: &str) -> Deployment {
        Deployment {
            id: DeploymentId { stateroot: "os".into(), commit: "c".repeat(64), serial },
            kernel_arguments: KernelArguments::default(),
            image: "h/os:1".parse().ok(),
            manifest_digest: Some(digest.to_owned()),
            layering: PackageLayering::default(),
            is_client_layer: false,
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
        LayerRequest { base, change: LayeringChange::default() }
    }

    fn new_image() -> LayerBase {
        LayerBase::Image(format!("h/os@{NEW}").parse().unwrap())
    }

    /// Verdict in a few words.
    fn concluded(outcome: &RpmOstreeOutcome, base: LayerBase, staged: Option<Deployment>) -> String {
        let booted = Deployment { booted: true, ..deployment(0, "sha256:1") };
        let deployments: Vec<Deployment> = staged.into_iter().chain([booted]).collect();
        let words = |verdict: &str, failed: &FailedLayering| {
            let reason = match &failed.error {
                OsError::AlreadyStaged { .. } => " another's",
                OsError::Cancelled => " interrupted",
                OsError::Rejected { .. } => " rejected",
                _ => "",
            };
            let discards = if failed.staged.is_some() { "discard, " } else { "" };
            format!("{discards}{verdict}{reason}")
        };
        match conclude(outcome, &request(base), &deployments) {
            LayerVerdict::Staged(_) => "made".to_owned(),
            LayerVerdict::Unchanged => "nothing".to_owned(),
            LayerVerdict::Retry(failed) => words("again", &failed),
            LayerVerdict::Failed(failed) => words("failed", &failed),
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
        let check =
            failed("Sanity-checking final rootfs: bwrap(/usr/bin/true): Child process exited with code 1");
        for (outcome, base, staged, expected) in [
            (&RpmOstreeOutcome::Succeeded, new_image(), Some(staged(NEW)), "made"),
            (&unknown, new_image(), Some(staged(NEW)), "discard, again"),
            (&caller, new_image(), Some(staged(NEW)), "discard, failed interrupted"),
            (&deadline, new_image(), Some(staged(NEW)), "discard, failed"),
            (&else_, new_image(), Some(staged(NEW)), "discard, again"),
            (&check, new_image(), Some(staged(NEW)), "discard, failed rejected"),
            (&check, LayerBase::BootedCommit, Some(staged("sha256:1")), "discard, failed rejected"),
            (&check, new_image(), Some(staged("sha256:3")), "failed"),
            (
                &failed("syscore cleanup: Input/output error"),
                new_image(),
                Some(staged(NEW)),
                "discard, failed",
            ),
            (&failed("No space left on device"), new_image(), Some(staged(NEW)), "discard, failed"),
            (&RpmOstreeOutcome::Succeeded, new_image(), Some(staged("sha256:3")), "failed"),
            (&RpmOstreeOutcome::Succeeded, new_image(), Some(unlocked()), "failed"),
            (&unknown, new_image(), Some(unlocked()), "failed another's"),
            (&else_, new_image(), Some(staged("sha256:3")), "failed another's"),
            (&RpmOstreeOutcome::Succeeded, new_image(), None, "failed"),
            (&RpmOstreeOutcome::Succeeded, LayerBase::BootedCommit, None, "nothing"),
            (&RpmOstreeOutcome::Succeeded, LayerBase::BootedImageName, Some(staged("sha256:3")), "made"),
            (&RpmOstreeOutcome::Succeeded, LayerBase::BootedCommit, Some(other_image()), "failed"),
            (&unknown, new_image(), None, "again"),
            (&else_, new_image(), None, "again"),
            (&caller, new_image(), None, "failed interrupted"),
            (&deadline, new_image(), None, "failed"),
            (&failed("Old and new refs are equal: h/os"), new_image(), None, "failed"),
            (&failed("Old and new refs are equal: h/os"), LayerBase::BootedImageName, None, "nothing"),
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
        let LayerVerdict::Failed(failed) = conclude(staged("sha256:1")) else {
            panic!("a package is missing")
        };
        let cause = std::error::Error::source(&failed.error).unwrap().to_string();
        assert!(cause.contains("usbguard is not installed"), "{cause}");
        assert!(matches!(
            conclude(Deployment { layering: with, ..staged("sha256:1") }),
            LayerVerdict::Staged(_)
        ));
    }

    #[test]
    fn unreachable_registry_is_a_pull_error_and_retried() {
        let outcome = RpmOstreeOutcome::Failed(RedactedCause::new("dial tcp 192.0.2.1:443: i/o timeout"));
        let LayerVerdict::Retry(failed) = conclude(&outcome, &request(new_image()), &[]) else {
            panic!("the registry may answer later")
        };
        let reason = PullFailure::Unreachable;
        assert!(
            matches!(&failed.error, OsError::Pull { reason: found, .. } if *found == reason),
            "{failed:?}"
        );
    }
}

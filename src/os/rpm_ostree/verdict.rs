//! What is to be concluded from the end of a transaction: its word where there is one, and in any case the deployments.

use super::failure::Failure;
use super::request::{Base, LayerRequest};
use super::transaction::{Canceller, Outcome};
use crate::core::image::ImageRef;
use crate::os::{Deployment, OsError};

/// How to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// This deployment is what was asked for; it is staged, and locked.
    Made(Box<Deployment>),
    /// What runs is what was asked for.
    Nothing,
    /// It did not happen, and may when it is asked for again.
    Again {
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
pub fn conclude(outcome: &Outcome, request: &LayerRequest, deployments: &[Deployment]) -> Verdict {
    let staged = deployments.iter().find(|deployment| deployment.staged);
    let booted = deployments.iter().find(|deployment| deployment.booted);
    let image = request.image();
    let again = |error| Verdict::Again { without_driver: false, error };
    match (outcome, staged) {
        // Also where it was cancelled too late, or nobody said so.
        (Outcome::Succeeded | Outcome::Cancelled(_) | Outcome::Unknown(_), Some(staged)) => {
            match unlike(request, staged, booted) {
                None => Verdict::Made(Box::new(staged.clone())),
                Some(what) if *outcome == Outcome::Succeeded => {
                    let text = format!("it reports success, and {what}");
                    Verdict::Failed(Failure::Unclear.into_error(&text, image))
                }
                Some(_) => Verdict::Failed(OsError::AlreadyStaged { deployment: staged.id.to_string() }),
            }
        }
        (Outcome::Succeeded, None) => match booted.and_then(|booted| unlike_itself(request, booted)) {
            None => Verdict::Nothing,
            Some(what) => {
                let text = format!("it reports success, nothing is staged, and {what}");
                Verdict::Failed(Failure::Unclear.into_error(&text, image))
            }
        },
        (Outcome::Failed(text), _) => of_failure(&text.to_string(), request, booted),
        (Outcome::Cancelled(Canceller::Caller), None) => Verdict::Failed(OsError::Cancelled),
        (Outcome::Cancelled(Canceller::Deadline), None) => Verdict::Failed(
            Failure::Unclear.into_error("it said nothing for too long, and was cancelled", image),
        ),
        (Outcome::Cancelled(Canceller::SomebodyElse), None) => {
            again(Failure::Unclear.into_error("another program on this host cancelled it", image))
        }
        (Outcome::Unknown(text), None) => again(Failure::Unclear.into_error(&text.to_string(), image)),
    }
}

fn of_failure(text: &str, request: &LayerRequest, booted: Option<&Deployment>) -> Verdict {
    let image = request.image();
    let failure = Failure::of(text, image);
    let error = failure.into_error(text, image);
    match failure {
        // By name: whether it is by content as well, only the digest tells.
        Failure::RefsEqual if booted.is_some_and(|booted| unlike_itself(request, booted).is_none()) => {
            Verdict::Nothing
        }
        Failure::NoUnit if request.drives => Verdict::Again { without_driver: true, error },
        failure if failure.is_transient() => Verdict::Again { without_driver: false, error },
        _ => Verdict::Failed(error),
    }
}

/// In which way a staged deployment is not what was asked for.
fn unlike(request: &LayerRequest, staged: &Deployment, booted: Option<&Deployment>) -> Option<String> {
    if !staged.locked {
        return Some("what is staged is not locked".to_owned());
    }
    if let (Base::Kept | Base::Followed, Some(booted)) = (&request.base, booted)
        && staged.image != booted.image
    {
        return Some("what is staged follows another image than what runs".to_owned());
    }
    unlike_itself(request, staged)
}

/// The same, but for how it is deployed.
fn unlike_itself(request: &LayerRequest, deployment: &Deployment) -> Option<String> {
    if let Base::Image(image) = &request.base
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

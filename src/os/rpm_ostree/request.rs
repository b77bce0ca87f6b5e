//! Arguments of `UpdateDeployment`, the rpm-ostreed method for rebases and package changes.

use zbus::zvariant::Value;

use super::proxies::DbusOptions;
use crate::core::config::layering::LayeringChange;
use crate::core::values::image::ImageRef;
use crate::os::{Deployment, ImportRequest};

/// Base of the new deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerBase {
    /// Booted base commit, beneath its packages.
    BootedCommit,
    /// Image of the booted deployment, pulled again by its name (tag).
    BootedImageName,
    Image(ImageRef),
}

/// Parameters of one `UpdateDeployment` call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerRequest {
    pub base: LayerBase,
    pub change: LayeringChange,
}

impl LayerRequest {
    /// Return the request for `wanted` on a host that runs the deployment `booted`.
    #[must_use]
    pub fn of(wanted: &ImportRequest, booted: &Deployment) -> Self {
        let base = match &wanted.image {
            None => LayerBase::BootedCommit,
            Some(image) if image.digest().is_none() && booted.image.as_ref() == Some(image) => {
                LayerBase::BootedImageName
            }
            Some(image) => LayerBase::Image(image.clone()),
        };
        Self { base, change: wanted.packages.clone() }
    }

    /// Image that the transaction may pull.
    #[must_use]
    pub fn image(&self) -> Option<&ImageRef> {
        match &self.base {
            LayerBase::Image(image) => Some(image),
            LayerBase::BootedCommit | LayerBase::BootedImageName => None,
        }
    }

    pub(super) fn modifiers(&self) -> DbusOptions<'_> {
        let LayeringChange { install, uninstall, remove, reset } = &self.change;
        let lists = [
            ("install-packages", install),
            ("uninstall-packages", uninstall),
            ("override-remove-packages", remove),
            ("override-reset-packages", reset),
        ];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        let image = self.image().map(|image| ("set-refspec", Value::from(image.to_string())));
        lists.map(|(key, list)| (key, Value::from(list.clone()))).chain(image).collect()
    }

    pub(super) fn options(&self, command_line: &str) -> DbusOptions<'static> {
        let mut options = DbusOptions::from([
            ("initiating-command-line", Value::from(command_line.to_owned())),
            ("lock-finalization", Value::from(true)),
            // The desired image is deployed even if it is older than the booted one.
            ("allow-downgrade", Value::from(true)),
            // Requesting a package that is requested already is no error.
            ("idempotent-layering", Value::from(true)),
            ("no-pull-base", Value::from(self.base == LayerBase::BootedCommit)),
        ]);
        if self.image().is_some() {
            // Rolling back needs the booted image: its ref must stay until the new generation is confirmed. Without a new
            // image, rpm-ostreed removes none, and refuses the option.
            options.insert("skip-purge", Value::from(true));
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_and_packages_are_requested_in_one_call() {
        let request = LayerRequest {
            base: LayerBase::Image("h/os:1".parse().unwrap()),
            change: LayeringChange {
                install: vec!["usbguard".into()],
                remove: vec!["kernel".into()],
                ..LayeringChange::default()
            },
        };
        let modifiers = request.modifiers();
        assert_eq!(modifiers.len(), 3, "{modifiers:?}");
        assert_eq!(modifiers["set-refspec"], Value::from("ostree-unverified-registry:h/os:1"));
        assert_eq!(modifiers["install-packages"], Value::from(vec!["usbguard".to_owned()]));
        let options = request.options("flameholder 1");
        assert_eq!(options["no-pull-base"], Value::from(false));
        assert_eq!(options["skip-purge"], Value::from(true));
        let kept = LayerRequest { base: LayerBase::BootedCommit, ..request.clone() };
        assert_eq!(kept.options("x")["no-pull-base"], Value::from(true));
        let follows = LayerRequest { base: LayerBase::BootedImageName, ..request };
        assert_eq!(follows.options("x")["no-pull-base"], Value::from(false));
        for request in [kept, follows] {
            assert!(!request.options("x").contains_key("skip-purge"));
            assert!(!request.modifiers().contains_key("set-refspec"));
        }
    }
}

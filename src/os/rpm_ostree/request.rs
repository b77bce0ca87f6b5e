//! What the daemon is asked for.

use zbus::zvariant::Value;

use super::proxies::DbusOptions;
use crate::core::config::layering::LayeringChange;
use crate::core::values::image::ImageRef;

/// What a deployment is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerBase {
    /// The commit that runs, beneath its packages.
    BootedCommit,
    /// What the image that runs is by its name now.
    BootedImageName,
    /// Another image.
    Image(ImageRef),
}

/// One deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerRequest {
    /// What it is made from.
    pub base: LayerBase,
    /// What becomes of packages.
    pub change: LayeringChange,
    /// Whether the daemon is to note that the unit of this process drives updates: people who call its command line are
    /// told so.
    pub drives: bool,
}

impl LayerRequest {
    /// The image that may be fetched for it.
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
            // The way back is the image that runs: its name stays until the next generation is settled.
            ("skip-purge", Value::from(true)),
            ("lock-finalization", Value::from(true)),
            // What is wanted is wanted, however old it is.
            ("allow-downgrade", Value::from(true)),
            // A package that is requested already is none to complain about.
            ("idempotent-layering", Value::from(true)),
            ("no-pull-base", Value::from(self.base == LayerBase::BootedCommit)),
        ]);
        if self.drives {
            options.insert("register-driver", Value::from("flameholder"));
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_says_it_all() {
        let request = LayerRequest {
            base: LayerBase::Image("h/os:1".parse().unwrap()),
            change: LayeringChange {
                install: vec!["usbguard".into()],
                remove: vec!["kernel".into()],
                ..LayeringChange::default()
            },
            drives: true,
        };
        let modifiers = request.modifiers();
        assert_eq!(modifiers.len(), 3, "{modifiers:?}");
        assert_eq!(modifiers["set-refspec"], Value::from("ostree-unverified-registry:h/os:1"));
        assert_eq!(modifiers["install-packages"], Value::from(vec!["usbguard".to_owned()]));
        let options = request.options("flameholder 1");
        assert_eq!(options["no-pull-base"], Value::from(false));
        assert_eq!(options["register-driver"], Value::from("flameholder"));
        let kept = LayerRequest { base: LayerBase::BootedCommit, drives: false, ..request };
        assert_eq!(kept.options("x")["no-pull-base"], Value::from(true));
        assert!(
            !kept.options("x").contains_key("register-driver")
                && !kept.modifiers().contains_key("set-refspec")
        );
    }
}

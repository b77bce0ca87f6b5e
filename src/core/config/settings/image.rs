//! Settings of OS image updates: `[image]` in a fragment.

use std::num::NonZeroU8;

use serde::Deserialize;

use crate::core::values::image::{ImageRef, ImageVerification};

/// The choice of the program that changes OS image and packages of the running host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendChoice {
    /// rpm-ostreed if the host has it, else libostree.
    #[default]
    Auto,
    Libostree,
    RpmOstree,
}

/// The images of which the host's signature policy has to demand a signature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignatureDemand {
    /// Those whose reference says so: `ostree-image-signed:`.
    #[default]
    ByReference,
    /// All, whatever their reference says.
    Required,
}

impl SignatureDemand {
    /// Return true if the policy has to demand a signature of the image.
    #[must_use]
    pub fn governs(self, image: &ImageRef) -> bool {
        self == Self::Required || *image.verification() == ImageVerification::ContainerPolicy
    }

    /// The spelling in fragments.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ByReference => "by-reference",
            Self::Required => "required",
        }
    }
}

/// The way in which images are fetched and deployed; absent settings have their defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ImageSettings {
    pub backend: Option<BackendChoice>,
    /// Layers fetched at a time.
    pub parallel_fetches: Option<NonZeroU8>,
    pub signature: Option<SignatureDemand>,
}

impl ImageSettings {
    pub(crate) fn overlay(self, settings: &mut Self) {
        settings.backend = self.backend.or(settings.backend);
        settings.parallel_fetches = self.parallel_fetches.or(settings.parallel_fetches);
        settings.signature = self.signature.or(settings.signature);
    }
}

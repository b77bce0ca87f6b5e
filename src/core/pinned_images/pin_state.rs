//! State of a node's pinned image sets, as status, metrics and the node's `MachineConfigNode` report it.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::pinned_images::image_sets::{PinnedImageSet, PinnedImageSets};
use crate::core::values::foreign_text::harmless_line;

/// State of the pinned image sets of a node's pools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinState {
    /// The sets, in the order of their names.
    pub sets: Vec<SetState>,
    /// Number of images of all sets, each counted once.
    pub images: usize,
    /// Number of these images that are on the node.
    pub present: usize,
    /// Number of images whose pull failed at the last attempt.
    pub failed: usize,
    /// True if all are on the node, and the container runtime keeps them.
    pub is_pinned: bool,
    /// Reason why the last attempt failed; there will be another one.
    pub failure: Option<String>,
}

/// State of one pinned image set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetState {
    /// Name of the set.
    pub name: String,
    /// Generation of the set that this state is of.
    pub generation: i64,
    /// True if all of its images are on the node, and the container runtime keeps them.
    pub is_pinned: bool,
    /// Reason why the last attempt for this set failed.
    pub failure: Option<String>,
}

impl PinState {
    /// State of sets of whose images these are `missing`. Pulls of images failed for the reasons in `failures`.
    #[must_use]
    pub fn of(
        sets: &PinnedImageSets,
        images: usize,
        missing: &BTreeSet<String>,
        failures: &BTreeMap<String, String>,
    ) -> Self {
        let state = |set: &PinnedImageSet| SetState {
            name: set.name.clone(),
            generation: set.generation,
            is_pinned: false,
            failure: set.images.iter().find_map(|image| failures.get(image)).cloned(),
        };
        let failure = failures.values().next().map(|first| match failures.len() {
            1 => first.clone(),
            number => format!("{first}; {} more failed", number - 1),
        });
        Self {
            sets: sets.sets.iter().map(state).collect(),
            images,
            present: images.saturating_sub(missing.len()),
            failed: failures.len(),
            is_pinned: false,
            failure,
        }
    }

    /// State of sets before anything is known about the node.
    #[must_use]
    pub fn unpulled(sets: &PinnedImageSets) -> Self {
        let images: BTreeSet<String> = sets.sets.iter().flat_map(|set| set.images.iter().cloned()).collect();
        Self::of(sets, images.len(), &images, &BTreeMap::new())
    }

    /// Return the state once the container runtime keeps all images.
    #[must_use]
    pub fn pinned(mut self) -> Self {
        (self.present, self.failed, self.is_pinned, self.failure) = (self.images, 0, true, None);
        for set in &mut self.sets {
            (set.is_pinned, set.failure) = (true, None);
        }
        self
    }

    /// Return the state after a failure that concerns all sets.
    #[must_use]
    pub fn failed(mut self, reason: &str) -> Self {
        let reason = harmless_line(reason).into_owned();
        for set in self.sets.iter_mut().filter(|set| !set.is_pinned) {
            set.failure = Some(reason.clone());
        }
        self.failure = Some(reason);
        self
    }

    /// Return true for a node without sets on which nothing is left to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.sets.is_empty() && self.is_pinned
    }

    /// Describe the progress in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let (sets, images) = (self.sets.len(), self.images);
        let number = |number: usize, what: &str| match number {
            1 => format!("1 {what}"),
            number => format!("{number} {what}s"),
        };
        let total = format!("{} of {}", number(images, "image"), number(sets, "pinned image set"));
        if self.is_pinned {
            return format!("{total} on the node, and kept there");
        }
        format!("{} of {total} on the node", self.present)
    }
}

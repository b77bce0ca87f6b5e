//! Entries of the node's `MachineConfigNode` for pinned image sets (`status.pinnedImageSets`).

use serde::{Deserialize, Serialize};

use crate::core::pinned_images::pin_state::{PinState, SetState};

/// Largest number of entries (limit of the resource).
const MOST_ENTRIES: usize = 100;
/// Characters of an error that an entry has.
const ERROR_CHARACTERS: usize = 1024;

/// Entry for one pinned image set. Generations are those of the set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageSetEntry {
    pub name: String,
    /// Generation whose images the node keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_generation: Option<i32>,
    /// Generation whose images it shall keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_generation: Option<i32>,
    /// Newest generation that it failed to pull or keep, with the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failed_generation: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failed_generation_error: Option<String>,
}

impl ImageSetEntry {
    /// Return true if the entry is of a deleted set, whose name another set has. No generation of an entry may decrease:
    /// the entry has to go before the new one comes.
    fn is_of_deleted(&self, set: &SetState) -> bool {
        let generations = [self.current_generation, self.desired_generation, self.last_failed_generation];
        generations.into_iter().flatten().any(|known| i64::from(known) > set.generation)
    }

    fn updated(&self, set: &SetState) -> Self {
        let generation = i32::try_from(set.generation.max(1)).unwrap_or(i32::MAX);
        let mut entry = Self {
            name: set.name.clone(),
            desired_generation: Some(generation),
            current_generation: self.current_generation,
            ..self.clone()
        };
        if set.is_pinned {
            entry.current_generation = Some(generation);
        } else if entry.current_generation == Some(generation) {
            // Of a deleted set of the same name, or its images are there no longer.
            entry.current_generation = None;
        }
        if let Some(failure) = &set.failure {
            entry.last_failed_generation = Some(generation);
            entry.last_failed_generation_error = Some(failure.chars().take(ERROR_CHARACTERS).collect());
        }
        entry
    }
}

/// Return the entries for these sets, based on those before. An entry of a deleted set whose name another set has is left
/// out; the entries after that have the new one.
#[must_use]
pub fn updated_entries(before: &[ImageSetEntry], pins: &PinState) -> Vec<ImageSetEntry> {
    let entry = |set: &SetState| match before.iter().find(|entry| entry.name == set.name) {
        Some(entry) if entry.is_of_deleted(set) => None,
        Some(entry) => Some(entry.updated(set)),
        None => Some(ImageSetEntry::default().updated(set)),
    };
    pins.sets.iter().filter_map(entry).take(MOST_ENTRIES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(generation: i64, is_pinned: bool, failure: Option<&str>) -> PinState {
        let failure = failure.map(str::to_owned);
        let set = SetState { name: "release".to_owned(), generation, is_pinned, failure };
        PinState { sets: vec![set], ..PinState::default() }
    }

    #[test]
    fn entry_follows_a_set_from_generation_to_generation() {
        let pulling = updated_entries(&[], &set(1, false, None));
        assert_eq!(serde_json::to_string(&pulling).unwrap(), r#"[{"name":"release","desiredGeneration":1}]"#);
        let pinned = updated_entries(&pulling, &set(1, true, None));
        assert_eq!(pinned[0].current_generation, Some(1));
        assert_eq!(updated_entries(&pinned, &set(1, false, None)), pulling, "images are there no longer");
        let failed = updated_entries(&pinned, &set(2, false, Some("no route")));
        let expected = r#"[{"name":"release","currentGeneration":1,"desiredGeneration":2,"lastFailedGeneration":2,"lastFailedGenerationError":"no route"}]"#;
        assert_eq!(serde_json::to_string(&failed).unwrap(), expected);
        assert_eq!(serde_json::from_str::<Vec<ImageSetEntry>>(expected).unwrap(), failed);
        let pinned = updated_entries(&failed, &set(2, true, None));
        assert_eq!(pinned[0].current_generation, Some(2));
        assert_eq!(pinned[0].last_failed_generation, Some(2), "the last failure stays on record");
        assert_eq!(updated_entries(&pinned, &PinState::default()), []);
    }

    #[test]
    fn entry_of_a_deleted_set_goes_before_one_of_its_name_comes() {
        let before = updated_entries(&[], &set(7, true, None));
        let gone = updated_entries(&before, &set(1, false, None));
        assert_eq!(gone, []);
        assert_eq!(updated_entries(&gone, &set(1, false, None))[0].desired_generation, Some(1));
    }

    #[test]
    fn long_error_is_cut() {
        let entries = updated_entries(&[], &set(1, false, Some(&"é".repeat(5000))));
        let error = entries[0].last_failed_generation_error.as_ref().unwrap();
        assert_eq!(error.chars().count(), ERROR_CHARACTERS);
    }
}

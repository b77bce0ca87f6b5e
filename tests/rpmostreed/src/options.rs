//! Dictionaries as the daemon reads them: unknown keys and values of a wrong type are ignored.

use std::collections::HashMap;

use zbus::zvariant::OwnedValue;

/// Dictionary from a caller.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dict(pub(crate) HashMap<String, OwnedValue>);

impl Dict {
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.0.get(key).and_then(|value| bool::try_from(value).ok()).unwrap_or(false)
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.0.get(key).and_then(|value| <&str>::try_from(value).ok()).map(str::to_owned)
    }

    pub(crate) fn list(&self, key: &str) -> Vec<String> {
        let value = self.0.get(key).and_then(|value| value.try_clone().ok());
        value.and_then(|value| Vec::<String>::try_from(value).ok()).unwrap_or_default()
    }

    /// Key that is equal for equal dictionaries, whatever the order of their members.
    pub(crate) fn key(&self) -> String {
        let mut entries: Vec<String> = self.0.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
        entries.sort();
        entries.join("\n")
    }
}

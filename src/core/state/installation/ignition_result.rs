//! Report that Ignition leaves on a host that it installed. The config itself is not kept.

use std::fmt;

use serde::Deserialize;

use crate::core::values::foreign_text::harmless_line;

/// Characters that are shown of the date.
const SHOWN: usize = 40;

/// Members of the report that say something of the installation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IgnitionResult {
    /// RFC 3339, in the time zone of the machine.
    provisioning_date: String,
    /// False where Ignition had the config of the image alone.
    #[serde(default)]
    user_config_provided: bool,
}

impl IgnitionResult {
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

impl fmt::Display for IgnitionResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date: String = self.provisioning_date.chars().take(SHOWN).collect();
        let config = if self.user_config_provided {
            "with a config of its user"
        } else {
            "without a config of its user"
        };
        write!(f, "Ignition installed the host at {}, {config}", harmless_line(&date))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_and_config_of_the_installation_are_told() {
        let report = r#"{"provisioningBootID": "c7d3", "provisioningDate": "2026-05-04T09:30:00Z", "userConfigProvided": true,
            "previousReport": null}"#;
        let told = IgnitionResult::parse(report.as_bytes()).unwrap().to_string();
        assert_eq!(told, "Ignition installed the host at 2026-05-04T09:30:00Z, with a config of its user");
        let hostile = r#"{"provisioningDate": "now\u001b[2J\nState: Done"}"#;
        let told = IgnitionResult::parse(hostile.as_bytes()).unwrap().to_string();
        assert!(told.ends_with(", without a config of its user"), "{told}");
        assert!(!told.chars().any(char::is_control), "{told:?}");
        assert!(IgnitionResult::parse(b"[]").is_err());
    }
}

//! Verdicts of the hooks: what became of the last run of each.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::values::identifiers::ConfigName;

/// Occasion of a hook, by the name of its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HookStage {
    BeforeDrain,
    AfterConfirmation,
    Notify,
}

impl HookStage {
    /// Return the name of the hooks' directories, without its suffix.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeforeDrain => "before-drain",
            Self::AfterConfirmation => "after-confirmation",
            Self::Notify => "notify",
        }
    }
}

/// Verdict of a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookVerdict {
    pub stage: HookStage,
    /// File name of the program.
    pub name: String,
    /// Config of the update that it ran for.
    pub config: Option<ConfigName>,
    /// Time at which it ended.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub time: Timestamp,
    /// Reason for which it failed; null if it passed.
    pub failure: Option<String>,
}

/// Verdicts of the last runs in this boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HookVerdicts(pub Vec<HookVerdict>);

impl HookVerdicts {
    /// Note a verdict in place of the last one of the same program.
    pub fn note(&mut self, verdict: HookVerdict) {
        self.0.retain(|earlier| (earlier.stage, &earlier.name) != (verdict.stage, &verdict.name));
        self.0.push(verdict);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_replaces_the_last_one_of_its_program_only() {
        let verdict = |stage, second, failure: Option<&str>| HookVerdict {
            stage,
            name: "10-backup".into(),
            config: None,
            time: Timestamp::from_second(second).unwrap(),
            failure: failure.map(str::to_owned),
        };
        let mut verdicts = HookVerdicts::default();
        verdicts.note(verdict(HookStage::BeforeDrain, 1, Some("failed")));
        verdicts.note(verdict(HookStage::AfterConfirmation, 2, Some("failed")));
        verdicts.note(verdict(HookStage::BeforeDrain, 3, None));
        let kept = verdicts.0.iter().map(|kept| (kept.stage, kept.failure.is_some()));
        assert_eq!(
            kept.collect::<Vec<_>>(),
            [(HookStage::AfterConfirmation, true), (HookStage::BeforeDrain, false)]
        );
    }
}

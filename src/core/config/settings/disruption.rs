//! Settings of the node disruption policy: `[disruption]` in a fragment, for hosts whose source has no policy.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use crate::core::config::policy::{DisruptionAction, DisruptionPolicy};
use crate::core::enablement::UnitName;
use crate::core::values::names::ManagedPath;

/// Rules of the host; they lie over the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DisruptionSettings {
    paths: BTreeMap<ManagedPath, Vec<DisruptionAction>>,
    units: BTreeMap<UnitName, Vec<DisruptionAction>>,
    ssh_keys: Option<Vec<DisruptionAction>>,
}

impl DisruptionSettings {
    /// Return the policy of the host: the defaults, with these rules over them.
    #[must_use]
    pub fn policy(&self) -> DisruptionPolicy {
        let mut policy = DisruptionPolicy::default();
        for (path, actions) in &self.paths {
            policy.set_file(path.as_str(), actions.clone());
        }
        for (unit, actions) in &self.units {
            policy.set_unit(unit.as_str(), actions.clone());
        }
        if let Some(actions) = &self.ssh_keys {
            policy.set_keys(actions.clone());
        }
        policy
    }
}

/// The TOML of `[disruption]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct DisruptionFragment {
    path: Vec<PathRuleItem>,
    unit: Vec<UnitRuleItem>,
    ssh_keys: Option<ActionList>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathRuleItem {
    path: Spanned<ManagedPath>,
    actions: ActionList,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitRuleItem {
    name: Spanned<UnitName>,
    actions: ActionList,
}

/// Actions of one rule, in their order.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Vec<String>")]
struct ActionList(Vec<DisruptionAction>);

impl TryFrom<Vec<String>> for ActionList {
    type Error = String;

    fn try_from(words: Vec<String>) -> Result<Self, String> {
        let actions = words.iter().map(|word| action(word)).collect::<Result<Vec<_>, _>>()?;
        let stands_alone =
            |action: &DisruptionAction| matches!(action, DisruptionAction::None | DisruptionAction::Reboot);
        match actions.as_slice() {
            [] => Err("a rule has at least one action; `none` is the one that does nothing".to_owned()),
            [_, _, ..] if actions.iter().any(stands_alone) => {
                Err("`none` and `reboot` stand alone in a rule".to_owned())
            }
            _ => Ok(Self(actions)),
        }
    }
}

/// Parse an action, as systemctl spells it.
fn action(word: &str) -> Result<DisruptionAction, String> {
    Ok(match word.split_once(' ') {
        None if word == "none" => DisruptionAction::None,
        None if word == "daemon-reload" => DisruptionAction::DaemonReload,
        None if word == "drain" => DisruptionAction::Drain,
        None if word == "reboot" => DisruptionAction::Reboot,
        Some(("reload", name)) => DisruptionAction::Reload(DisruptionAction::parse_unit(name)?),
        Some(("restart", name)) => DisruptionAction::Restart(DisruptionAction::parse_unit(name)?),
        _ => {
            return Err(format!(
                "unknown action {word:?}, expected `none`, `daemon-reload`, `reload UNIT`, `restart UNIT`, `drain` or `reboot`"
            ));
        }
    })
}

impl DisruptionFragment {
    /// Find a path or unit with two rules, of which only one could hold.
    pub(crate) fn duplicate(&self) -> Option<(Range<usize>, String)> {
        let paths = self.path.iter().map(|rule| (rule.path.span(), rule.path.get_ref().as_str()));
        let units = self.unit.iter().map(|rule| (rule.name.span(), rule.name.get_ref().as_str()));
        let mut seen = BTreeSet::new();
        let (at, subject) = paths.chain(units).find(|(_, subject)| !seen.insert(*subject))?;
        Some((at, format!("duplicate rule for {subject}; list it once per file")))
    }

    pub(crate) fn overlay(self, settings: &mut DisruptionSettings) {
        settings.paths.extend(self.path.into_iter().map(|rule| (rule.path.into_inner(), rule.actions.0)));
        settings.units.extend(self.unit.into_iter().map(|rule| (rule.name.into_inner(), rule.actions.0)));
        settings.ssh_keys = self.ssh_keys.map(|actions| actions.0).or(settings.ssh_keys.take());
    }
}

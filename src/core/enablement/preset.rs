//! Preset files, systemd.preset(5): the units that a distribution and an administrator want enabled by
//! default.

use super::lines::{WHITESPACE, physical};
use super::name::{NameKind, UnitName};
use super::{SystemdVersion, glob};

/// The rules of all preset files, in order; the first rule that matches a unit applies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PresetRules {
    rules: Vec<Rule>,
}

/// A line that cannot be parsed; systemd skips it with a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedLine {
    /// The file's name as the caller gave it.
    pub file: String,
    /// The line's number, counted from 1.
    pub number: usize,
    /// The line without leading and trailing white space.
    pub line: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    /// An fnmatch(3) pattern for the whole name; may contain blanks.
    pattern: String,
    action: RuleAction,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum RuleAction {
    Enable { instances: Vec<String> },
    Disable,
    Ignore,
}

/// The presets' verdict on one unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PresetVerdict {
    /// Enable these units: the unit itself, or the instances that a rule lists for this template.
    Enable(Vec<UnitName>),
    Disable,
    Ignore,
}

impl PresetRules {
    /// Parse preset files, given as (name, contents).
    ///
    /// The files are those of `/etc`, `/run`, `/usr/local/lib` and `/usr/lib` below `systemd/system-preset`:
    /// one per basename, taken from the first of these directories that has it, sorted by basename. Lines
    /// that cannot be parsed are skipped and returned, among them a bare `enable`, on which systemctl 252
    /// crashes.
    #[must_use]
    pub fn parse<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
        version: SystemdVersion,
    ) -> (Self, Vec<SkippedLine>) {
        let mut rules = Vec::new();
        let mut skipped = Vec::new();
        for (file, contents) in files {
            for (index, line) in physical(contents).enumerate() {
                let line = line.trim_matches(WHITESPACE);
                if line.is_empty() || line.starts_with(['#', ';']) {
                    continue;
                }
                match parse_rule(line, version) {
                    Some(rule) => rules.push(rule),
                    None => {
                        skipped.push(SkippedLine {
                            file: file.to_owned(),
                            number: index + 1,
                            line: line.to_owned(),
                        });
                    }
                }
            }
        }
        (Self { rules }, skipped)
    }

    /// The verdict of the first matching rule. A unit that no rule matches is enabled.
    pub(super) fn verdict(&self, unit: &UnitName) -> PresetVerdict {
        self.rules
            .iter()
            .find_map(|rule| rule.verdict(unit))
            .unwrap_or_else(|| PresetVerdict::Enable(vec![unit.clone()]))
    }
}

impl Rule {
    fn verdict(&self, unit: &UnitName) -> Option<PresetVerdict> {
        if let RuleAction::Enable { instances } = &self.action
            && let Some(enabled) = self.listed_instances(unit, instances)
        {
            return Some(PresetVerdict::Enable(enabled));
        }
        glob::matches(&self.pattern, unit.as_str()).then(|| match self.action {
            RuleAction::Enable { .. } => PresetVerdict::Enable(vec![unit.clone()]),
            RuleAction::Disable => PresetVerdict::Disable,
            RuleAction::Ignore => PresetVerdict::Ignore,
        })
    }

    /// The listed instances if `unit` is their template; an instance itself if it is listed.
    fn listed_instances(&self, unit: &UnitName, instances: &[String]) -> Option<Vec<UnitName>> {
        if instances.is_empty() || unit.template()?.as_str() != self.pattern {
            return None;
        }
        match unit.kind() {
            NameKind::Template => instances.iter().map(|instance| unit.with_instance(instance)).collect(),
            NameKind::Instance if instances.iter().any(|listed| listed == unit.instance()) => {
                Some(vec![unit.clone()])
            }
            NameKind::Plain | NameKind::Instance => None,
        }
    }
}

fn parse_rule(line: &str, version: SystemdVersion) -> Option<Rule> {
    let (verb, parameter) = line.split_once(WHITESPACE).unwrap_or((line, ""));
    let parameter = parameter.trim_start_matches(WHITESPACE);
    match verb {
        "enable" => parse_enable(parameter),
        "disable" => Some(Rule { pattern: parameter.to_owned(), action: RuleAction::Disable }),
        "ignore" if version.knows_preset_ignore() => {
            Some(Rule { pattern: parameter.to_owned(), action: RuleAction::Ignore })
        }
        _ => None,
    }
}

/// Parse an `enable` rule; only the name of a template may be followed by instances.
fn parse_enable(parameter: &str) -> Option<Rule> {
    let mut words = parameter.split(WHITESPACE).filter(|word| !word.is_empty());
    let pattern = words.next()?.to_owned();
    let instances: Vec<String> = words.map(str::to_owned).collect();
    let is_template = || UnitName::parse(&pattern).is_ok_and(|name| name.kind() == NameKind::Template);
    (instances.is_empty() || is_template())
        .then_some(Rule { pattern, action: RuleAction::Enable { instances } })
}

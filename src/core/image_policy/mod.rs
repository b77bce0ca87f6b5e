//! Signature policy of a host (containers-policy.json(5)): the rule that governs an image, and its demands.
//!
//! skopeo enforces the policy when it pulls. This module only reads it, so that a plan can name the demands on an image,
//! and refuse one of which nothing is.

mod requirement;
mod scopes;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;

pub use requirement::{PolicyRequirement, SigningKey};
use serde::Deserialize;
pub use verdict::{KeyFile, PolicyEnforcement, SignatureVerdict};

use crate::core::values::causes::without_place;
use crate::core::values::image::ImageRef;

/// Scope of a transport that holds for all its images without a closer one.
const WHOLE_TRANSPORT: &str = "";

/// Requirements by the closest scope that has some.
type ScopeRequirements = BTreeMap<String, Vec<PolicyRequirement>>;

/// Signature policy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImagePolicy {
    /// Requirements of images for which no other rule holds.
    default: Vec<PolicyRequirement>,
    /// Rules by transport and scope.
    #[serde(default)]
    transports: BTreeMap<String, ScopeRequirements>,
}

/// Policy that skopeo would refuse, so that no image can be pulled under it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImagePolicyError {
    /// Malformed document.
    #[error("line {line}, column {column}: {reason}")]
    Malformed { line: usize, column: usize, reason: String },
    /// Rule without a requirement.
    #[error("the rule for {0} has no requirement")]
    Empty(String),
}

/// Rule that governs an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyRule<'a> {
    scope: RuleScope<'a>,
    /// All of them must be met.
    pub requirements: &'a [PolicyRequirement],
}

/// Images for which a rule holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleScope<'a> {
    Default,
    Transport(&'a str),
    Scope { transport: &'a str, scope: &'a str },
}

impl fmt::Display for RuleScope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Transport(transport) => write!(f, "transports.{transport}"),
            Self::Scope { transport, scope } => write!(f, "transports.{transport}.\"{scope}\""),
        }
    }
}

impl fmt::Display for PolicyRule<'_> {
    /// The place of the rule in the document, such as `transports.docker."quay.io/example"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scope.fmt(f)
    }
}

impl ImagePolicy {
    /// Parse a policy. Members that are unknown here are refused, as skopeo does; kinds of requirements are not: a newer skopeo
    /// may know them.
    pub fn parse(bytes: &[u8]) -> Result<Self, ImagePolicyError> {
        let policy: Self = serde_json::from_slice(bytes).map_err(|error| {
            let (line, column, reason) = (error.line(), error.column(), without_place(&error));
            ImagePolicyError::Malformed { line, column, reason }
        })?;
        let empty = policy.rules().find(|rule| rule.requirements.is_empty());
        match empty.map(|rule| rule.to_string()) {
            Some(place) => Err(ImagePolicyError::Empty(place)),
            None => Ok(policy),
        }
    }

    /// Return the rule that governs the image: that of its closest scope, else of its transport, else the default.
    #[must_use]
    pub fn rule_for(&self, image: &ImageRef) -> PolicyRule<'_> {
        let governing =
            self.transports.get_key_value(scopes::transport(image)).and_then(|(transport, rules)| {
                let closest = scopes::scopes(image).into_iter().chain([WHOLE_TRANSPORT.to_owned()]);
                let mut found = closest.filter_map(|scope| rules.get_key_value(&scope));
                found.next().map(|(scope, requirements)| rule(transport, scope, requirements))
            });
        governing.unwrap_or(self.default_rule())
    }

    /// Return the rule for images that no other governs.
    #[must_use]
    pub fn default_rule(&self) -> PolicyRule<'_> {
        PolicyRule { scope: RuleScope::Default, requirements: &self.default }
    }

    fn rules(&self) -> impl Iterator<Item = PolicyRule<'_>> {
        let scoped = self.transports.iter().flat_map(|(transport, rules)| {
            rules.iter().map(|(scope, requirements)| rule(transport, scope, requirements))
        });
        std::iter::once(self.default_rule()).chain(scoped)
    }
}

fn rule<'a>(transport: &'a str, scope: &'a str, requirements: &'a [PolicyRequirement]) -> PolicyRule<'a> {
    let scope = match scope {
        WHOLE_TRANSPORT => RuleScope::Transport(transport),
        scope => RuleScope::Scope { transport, scope },
    };
    PolicyRule { scope, requirements }
}

impl PolicyRule<'_> {
    /// Return true if an image needs a signature. Requirements add up, so that one of them suffices.
    #[must_use]
    pub fn demands_signature(&self) -> bool {
        self.requirements.iter().any(PolicyRequirement::is_signature)
    }

    /// Return true if no image is accepted.
    #[must_use]
    pub fn rejects(&self) -> bool {
        self.requirements.contains(&PolicyRequirement::Reject)
    }

    /// Return true if every image is accepted.
    #[must_use]
    pub fn accepts_anything(&self) -> bool {
        self.requirements.iter().all(|requirement| *requirement == PolicyRequirement::AcceptAnything)
    }

    /// Describe the demands, in one line.
    #[must_use]
    pub fn demand(&self) -> String {
        let demands: Vec<String> = self.requirements.iter().map(ToString::to_string).collect();
        demands.join(", and ")
    }
}

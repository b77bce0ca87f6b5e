//! Requirements of a rule.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

use crate::core::values::tree::ContentDigest;

/// Requirement of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyRequirement {
    /// None.
    AcceptAnything,
    /// One that no image meets.
    Reject,
    /// GPG signature by one of these keys.
    SignedBy(Vec<SigningKey>),
    /// sigstore signature by one of these keys.
    SigstoreSigned(Vec<SigningKey>),
    /// Kind that is unknown here.
    Other(String),
}

/// Key or identity that signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SigningKey {
    /// File with one key or several.
    File(String),
    /// Key in the policy itself, by the digest of its text in base64.
    Inline(ContentDigest),
    /// Certificate of Fulcio for this subject, from this issuer.
    Fulcio { issuer: String, subject: String },
    /// Certificate of a CA, for this subject.
    Certificate { subject: String },
}

impl fmt::Display for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.write_str(path),
            Self::Inline(digest) => write!(f, "key data {digest}"),
            Self::Fulcio { issuer, subject } => write!(f, "{subject}, known to {issuer}"),
            Self::Certificate { subject } => write!(f, "a certificate of {subject}"),
        }
    }
}

impl PolicyRequirement {
    /// Return true if a signature is demanded.
    #[must_use]
    pub fn is_signature(&self) -> bool {
        matches!(self, Self::SignedBy(_) | Self::SigstoreSigned(_))
    }

    /// Return the keys of which one has to sign.
    #[must_use]
    pub fn keys(&self) -> &[SigningKey] {
        match self {
            Self::SignedBy(keys) | Self::SigstoreSigned(keys) => keys,
            _ => &[],
        }
    }
}

impl fmt::Display for PolicyRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = || self.keys().iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        match self {
            Self::AcceptAnything => f.write_str("nothing"),
            Self::Reject => f.write_str("what no image meets (reject)"),
            Self::SignedBy(_) => write!(f, "a GPG signature by {}", keys()),
            Self::SigstoreSigned(_) => write!(f, "a sigstore signature by {}", keys()),
            Self::Other(kind) => write!(f, "{kind}"),
        }
    }
}

impl<'de> Deserialize<'de> for PolicyRequirement {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = Map::deserialize(deserializer)?;
        let kind = members.get("type").and_then(Value::as_str).filter(|kind| !kind.is_empty());
        let kind = kind.ok_or_else(|| de::Error::custom("a requirement without `type`"))?;
        Ok(match kind {
            "insecureAcceptAnything" => Self::AcceptAnything,
            "reject" => Self::Reject,
            "signedBy" => Self::SignedBy(keys(&members).map_err(de::Error::custom)?),
            "sigstoreSigned" => Self::SigstoreSigned(keys(&members).map_err(de::Error::custom)?),
            other => Self::Other(other.to_owned()),
        })
    }
}

/// Collect the keys of a requirement, whose members depend on the version of skopeo.
fn keys(members: &Map<String, Value>) -> Result<Vec<SigningKey>, String> {
    let mut keys = Vec::new();
    for (name, value) in members {
        match name.as_str() {
            "keyPath" => keys.push(SigningKey::File(text(name, value)?)),
            "keyPaths" => {
                let each = texts(name, value)?;
                keys.extend(each.into_iter().map(SigningKey::File));
            }
            "keyData" => keys.push(inline(&text(name, value)?)),
            "keyDatas" => keys.extend(texts(name, value)?.iter().map(|data| inline(data))),
            "fulcio" => keys.push(SigningKey::Fulcio {
                issuer: text("fulcio.oidcIssuer", &value["oidcIssuer"])?,
                subject: text("fulcio.subjectEmail", &value["subjectEmail"])?,
            }),
            "pki" => {
                let names = ["subjectEmail", "subjectHostname"].map(|name| value[name].as_str());
                let subject = names.into_iter().flatten().next();
                let subject = subject.ok_or("`pki` has neither `subjectEmail` nor `subjectHostname`")?;
                keys.push(SigningKey::Certificate { subject: subject.to_owned() });
            }
            _ => {}
        }
    }
    if keys.is_empty() { Err("a signature is required, but by no key".to_owned()) } else { Ok(keys) }
}

fn inline(data: &str) -> SigningKey {
    SigningKey::Inline(ContentDigest::of(data.as_bytes()))
}

fn text(name: &str, value: &Value) -> Result<String, String> {
    match value.as_str() {
        Some("") => Err(format!("`{name}` is empty")),
        Some(text) => Ok(text.to_owned()),
        None => Err(format!("`{name}` is not a string")),
    }
}

fn texts(name: &str, value: &Value) -> Result<Vec<String>, String> {
    let values = value.as_array().ok_or_else(|| format!("`{name}` is not a list"))?;
    values.iter().map(|value| text(name, value)).collect()
}

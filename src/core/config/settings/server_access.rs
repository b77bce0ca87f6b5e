//! Access to an HTTPS server: whom the client trusts, and how it identifies itself.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// Prefix of a pin, as `curl --pinnedpubkey` spells it.
const PIN_PREFIX: &str = "sha256//";

/// Trust in a server and identity to it; absent parts have their defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerAccess {
    /// CA bundle in place of the system's CAs.
    pub ca: Option<PathBuf>,
    /// Public keys, one of which the server must have besides a trusted certificate; empty for any.
    pub pins: Vec<PublicKeyPin>,
    pub client_certificate: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
    /// File with a bearer token, read for each request.
    pub token_file: Option<PathBuf>,
}

impl ServerAccess {
    /// Take the parts that are absent here from `other`. A client certificate and its key are one part.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let has_identity = self.client_certificate.is_some() || self.client_key.is_some();
        let identity = if has_identity { &self } else { &other };
        let (client_certificate, client_key) =
            (identity.client_certificate.clone(), identity.client_key.clone());
        Self {
            ca: self.ca.or(other.ca),
            pins: if self.pins.is_empty() { other.pins } else { self.pins },
            client_certificate,
            client_key,
            token_file: self.token_file.or(other.token_file),
        }
    }
}

/// SHA-256 of a public key (`SubjectPublicKeyInfo` in DER), spelled `sha256//BASE64`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PublicKeyPin([u8; 32]);

impl PublicKeyPin {
    /// Return the pin of a public key in DER.
    #[must_use]
    pub fn of_key(der: &[u8]) -> Self {
        Self(Sha256::digest(der).into())
    }
}

impl fmt::Display for PublicKeyPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PIN_PREFIX}{}", BASE64_STANDARD.encode(self.0))
    }
}

impl FromStr for PublicKeyPin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "expected `sha256//BASE64`, the SHA-256 of the server's public key";
        let encoded = text.strip_prefix(PIN_PREFIX).ok_or(expected)?;
        let decoded = data_url::forgiving_base64::decode_to_vec(encoded.as_bytes()).map_err(|_| expected)?;
        decoded.try_into().map(Self).map_err(|_| expected)
    }
}

impl TryFrom<String> for PublicKeyPin {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pin_is_the_hash_of_a_key_in_base64() {
        let spelled = "sha256//AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        let pin: PublicKeyPin = spelled.parse().unwrap();
        let digest = std::array::from_fn(|index| u8::try_from(index).unwrap());
        assert!(pin == PublicKeyPin(digest) && pin != PublicKeyPin([0; 32]));
        assert_eq!(pin.to_string(), spelled);
        assert_eq!(
            PublicKeyPin::of_key(b"").to_string(),
            "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
        );
        for text in
            ["", "sha256//", "sha256//AAEC", "sha512//AAEC", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="]
        {
            assert!(text.parse::<PublicKeyPin>().is_err(), "{text}");
        }
    }

    #[test]
    fn certificate_and_key_are_taken_from_one_place() {
        let given = ServerAccess { client_certificate: Some("/a".into()), ..ServerAccess::default() };
        let set = ServerAccess {
            client_certificate: Some("/b".into()),
            client_key: Some("/b.key".into()),
            ca: Some("/ca".into()),
            ..ServerAccess::default()
        };
        let both = given.clone().or(set.clone());
        assert_eq!(both, ServerAccess { ca: Some("/ca".into()), ..given });
        assert_eq!(ServerAccess::default().or(set.clone()), set);
    }
}

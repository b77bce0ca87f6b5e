//! Credentials for a registry out of the kubelet's pull secret.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// User name and password for a registry.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryCredentials {
    pub username: String,
    pub password: String,
}

/// Shows neither: both are secret.
impl std::fmt::Debug for RegistryCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistryCredentials").finish_non_exhaustive()
    }
}

/// A file of containers-auth.json(5), of which other members are ignored.
#[derive(Deserialize)]
struct AuthFile {
    #[serde(default)]
    auths: BTreeMap<String, AuthEntry>,
}

#[derive(Deserialize)]
struct AuthEntry {
    /// `USER:PASSWORD` in base64.
    #[serde(default)]
    auth: String,
}

/// Return the credentials for `image` in a pull secret: those of the entry that names the longest part of the image's
/// repository, from its host on (rule of containers-auth.json(5)). `None` if the secret has none, or is damaged.
#[must_use]
pub fn for_image(pull_secret: &[u8], image: &str) -> Option<RegistryCredentials> {
    let file: AuthFile = serde_json::from_slice(pull_secret).ok()?;
    let repository = image.split_once('@').map_or(image, |(repository, _)| repository);
    let named = |key: &str| {
        let key = key.trim_start_matches("https://").trim_start_matches("http://");
        let key = key.trim_end_matches('/');
        let rest = repository.strip_prefix(key)?;
        (!key.is_empty() && (rest.is_empty() || rest.starts_with('/'))).then_some(key.len())
    };
    let found = file.auths.iter().filter_map(|(key, entry)| Some((named(key)?, entry)));
    let (_, entry) = found.max_by_key(|(length, _)| *length)?;
    let decoded = String::from_utf8(STANDARD.decode(entry.auth.trim()).ok()?).ok()?;
    let (username, password) = decoded.split_once(':')?;
    Some(RegistryCredentials { username: username.to_owned(), password: password.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(entries: &[(&str, &str)]) -> Vec<u8> {
        let entries = entries.iter().map(|(key, user)| {
            let auth = STANDARD.encode(format!("{user}:of:{user}"));
            ((*key).to_owned(), serde_json::json!({"auth": auth, "email": "x"}))
        });
        let auths: serde_json::Map<_, _> = entries.collect();
        serde_json::json!({"auths": auths}).to_string().into_bytes()
    }

    #[test]
    fn entry_with_the_longest_part_of_the_repository_counts() {
        let secret = secret(&[
            ("quay.example", "host"),
            ("quay.example/org", "org"),
            ("quay.example/org/name", "name"),
            ("https://other.example:5000/", "scheme"),
        ]);
        let user = |image: &str| for_image(&secret, image).map(|found| found.username);
        for (image, expected) in [
            ("quay.example/org/name@sha256:1", "name"),
            ("quay.example/org/names@sha256:1", "org"),
            ("quay.example/organ/x@sha256:1", "host"),
            ("other.example:5000/x@sha256:1", "scheme"),
        ] {
            assert_eq!(user(image).as_deref(), Some(expected), "{image}");
        }
        assert_eq!(user("other.example/x@sha256:1"), None);
        let found = for_image(&secret, "quay.example/x@sha256:1").unwrap();
        assert_eq!(found.password, "of:host");
        assert!(!format!("{found:?}").contains("host"));
    }

    #[test]
    fn damaged_secret_has_no_credentials() {
        for damaged in ["", "[]", r#"{"auths":{"a":{"auth":"%"}}}"#, r#"{"auths":{"a":{"auth":"bm9uZQ=="}}}"#]
        {
            assert_eq!(for_image(damaged.as_bytes(), "a/b@sha256:1"), None, "{damaged}");
        }
    }
}

//! Detection of secrets in managed files, whose content is then described instead of shown.

use super::names::ManagedPath;

/// Parts of a path that suggest a secret.
const TELLING_PATHS: [&str; 10] = [
    "secret",
    "password",
    "passwd",
    "shadow",
    "token",
    "credential",
    "kubeconfig",
    "id_rsa",
    "private",
    "htpasswd",
];
/// Suffixes of a path that suggest a secret.
const TELLING_SUFFIXES: [&str; 5] = [".key", ".pem", ".p12", ".jks", "/var/lib/kubelet/config.json"];
/// Words that are part of a secret or precede it.
const TELLING_TEXTS: [&str; 16] = [
    "private key",
    "\"auth\"",
    "\"auths\"",
    "password",
    "passwd",
    "secret",
    "token",
    "aws_access",
    "psk=",
    "pwd=",
    "api_key",
    "apikey",
    "authorization",
    "bearer",
    "chap",
    "credential",
];

/// True if the content of a file should not be printed: the file is not world-readable, or its name or text
/// suggests a secret. In doubt the answer is true.
#[must_use]
pub fn looks_secret(path: &ManagedPath, mode: u32, contents: &[u8]) -> bool {
    let spelled = path.as_str().to_ascii_lowercase();
    let text = String::from_utf8_lossy(contents).to_ascii_lowercase();
    mode & 0o004 == 0
        || TELLING_PATHS.iter().any(|part| spelled.contains(part))
        || TELLING_SUFFIXES.iter().any(|suffix| spelled.ends_with(suffix))
        || TELLING_TEXTS.iter().any(|part| text.contains(part))
        || has_credentials(&text)
}

/// True if a URL in `text` carries a user and a password.
fn has_credentials(text: &str) -> bool {
    text.match_indices("://").any(|(at, _)| {
        let rest = text.get(at + 3..).unwrap_or_default();
        let authority = rest.split(['/', '"', '\'', ' ', '\n']).next().unwrap_or_default();
        authority.split_once('@').is_some_and(|(user, _)| user.contains(':'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_mode_and_telling_names_or_texts_look_secret() {
        let path = |path| ManagedPath::parse(path).unwrap();
        for (path, mode, contents, secret) in [
            (path("/etc/chrony.conf"), 0o644, "pool x\n", false),
            (path("/etc/chrony.conf"), 0o600, "pool x\n", true),
            (path("/etc/x/tls.key"), 0o644, "", true),
            (path("/var/lib/kubelet/config.json"), 0o644, "", true),
            (path("/etc/mco/proxy.env"), 0o644, "HTTP_PROXY=http://u:Password@x", true),
            (path("/etc/mco/proxy.env"), 0o644, "HTTP_PROXY=http://u:hunter2@p:3128/", true),
            (path("/etc/mco/proxy.env"), 0o644, "HTTP_PROXY=http://p:3128/x@y", false),
            (path("/etc/x"), 0o644, "-----BEGIN RSA PRIVATE KEY-----", true),
        ] {
            assert_eq!(looks_secret(&path, mode, contents.as_bytes()), secret, "{path}");
        }
    }
}

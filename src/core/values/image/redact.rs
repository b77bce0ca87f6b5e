//! Redaction of credentials in text that other programs produced.

/// Replace credentials and query strings of URLs, and tokens of `Authorization` headers, in `text` by
/// `[redacted]`.
///
/// Registries answer with signed URLs, and tools print their arguments: every such text is redacted before it
/// is stored or shown.
#[must_use]
pub fn redact_credentials(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut follows_scheme = false;
    for word in text.split_inclusive(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>')) {
        let end = word.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>'));
        let tail = word.get(end.len()..).unwrap_or_default();
        if follows_scheme && !end.is_empty() && !end.contains("realm=") {
            redacted.push_str("[redacted]");
        } else {
            redacted.push_str(&redact_url(end));
        }
        redacted.push_str(tail);
        // Only white space may stand between the scheme and its token.
        follows_scheme = matches!(end.to_ascii_lowercase().as_str(), "bearer" | "basic")
            || (follows_scheme && end.is_empty());
    }
    redacted
}

fn redact_url(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else {
        return word.to_owned();
    };
    let (address, query) = match rest.split_once('?') {
        Some((address, _)) => (address, "?[redacted]"),
        None => (rest, ""),
    };
    let authority = address.find('/').unwrap_or(address.len());
    let (host, path) = address.split_at(authority);
    match host.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://[redacted]@{host}{path}{query}"),
        None => format!("{scheme}://{address}{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_and_tokens_are_redacted() {
        for (text, cleared) in [
            ("Get \"https://u:p@h/v2/\": EOF", "Get \"https://[redacted]@h/v2/\": EOF"),
            ("https://cdn/blob?sig=abc refused", "https://cdn/blob?[redacted] refused"),
            ("header Authorization: Bearer abcdef.x", "header Authorization: Bearer [redacted]"),
            ("Authorization: Basic  dTpw!", "Authorization: Basic  [redacted]"),
            (
                "Www-Authenticate: Bearer realm=\"https://h/auth\"",
                "Www-Authenticate: Bearer realm=\"https://h/auth\"",
            ),
            ("a@b plain\ntext", "a@b plain\ntext"),
        ] {
            assert_eq!(redact_credentials(text), cleared);
        }
    }
}

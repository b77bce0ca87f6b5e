//! Credentials of a kubeconfig's user: tokens that can be sent, and failures told without the output of a plugin.

use std::path::Path;

use kube::client::AuthError;
use kube::config::AuthInfo;
use serde_json::{Value, json};

use crate::cluster::ClusterError;

/// Return the user with its token as it is sent, without white space around it: `token: |` in YAML leaves a line feed behind
/// it. `None` if no header can have the token, which the client library does not expect.
pub(super) fn with_bare_token(user: AuthInfo) -> Option<AuthInfo> {
    let members = serde_json::to_value(&user).ok()?;
    let Some(token) = members.get("token").and_then(Value::as_str) else { return Some(user) };
    let token = Some(token.trim()).filter(|token| is_bare(token))?;
    let bare: AuthInfo = serde_json::from_value(json!({"token": token})).ok()?;
    Some(AuthInfo { token: bare.token, ..user })
}

/// Fail unless the file has a token and nothing else: the client library sends the file as it is.
pub(super) fn ensure_bare_token(file: &Path) -> Result<(), ClusterError> {
    let failed = |reason: String| ClusterError::Token { path: file.to_owned(), reason };
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    if is_bare(&text) {
        return Ok(());
    }
    Err(failed("it must hold a token and nothing else, not even a line feed behind it".to_owned()))
}

fn is_bare(token: &str) -> bool {
    !token.is_empty() && token.chars().all(|character| character.is_ascii_graphic())
}

/// Describe a failure of the credentials. The library's own text has the output of a credential plugin, which is a token where
/// the plugin succeeds.
pub(in crate::cluster) fn failure_of(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(error) => format!("the credential plugin does not start: {error}"),
        AuthError::AuthExecRun { out, .. } => {
            format!("the credential plugin failed with {}; run its command to see why", out.status)
        }
        AuthError::AuthExecParse(_) => "the output of the credential plugin is no ExecCredential".to_owned(),
        AuthError::AuthExec(_) | AuthError::ParseTokenKey(_) => {
            "the output of the credential plugin has no token where it is expected".to_owned()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(token: &str) -> Option<Value> {
        let user = serde_json::from_value(json!({"token": token, "username": "u"})).unwrap();
        let user = with_bare_token(user)?;
        assert_eq!(user.username.as_deref(), Some("u"));
        serde_json::to_value(user).unwrap().get("token").cloned()
    }

    #[test]
    fn token_is_sent_without_white_space_around_it() {
        for token in ["abc.DEF-1_2", "abc.DEF-1_2\n", " abc.DEF-1_2\r\n"] {
            assert_eq!(sent(token), Some(json!("abc.DEF-1_2")), "{token:?}");
        }
        for token in ["", "\n", "a b", "a\nb", "ä"] {
            assert_eq!(sent(token), None, "{token:?}");
        }
        assert!(with_bare_token(AuthInfo::default()).is_some_and(|user| user.token.is_none()));
    }
}

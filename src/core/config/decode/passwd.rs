//! Decoding of `passwd`: users and groups.

use serde_json::{Map, Value};

use crate::core::config::host_config::{PasswdSpec, UserSpec};
use crate::core::config::ignition::ignored_sections::section;
use crate::core::config::ignition::newest;
use crate::core::values::refusal::Refusal;

/// Fields of a user that have a place of their own in [`UserSpec`].
const APPLIED: [&str; 3] = ["name", "passwordHash", "sshAuthorizedKeys"];

/// Decode the section; errors are added to `refused`.
pub(super) fn decode(passwd: Option<&newest::Passwd>, refused: &mut Vec<Refusal>) -> PasswdSpec {
    let users = passwd.and_then(|passwd| passwd.users.as_deref()).unwrap_or_default();
    for (index, user) in users.iter().enumerate() {
        // A colon or a newline would end the field of `/etc/shadow`.
        let hash = user.password_hash.as_deref().unwrap_or_default();
        if hash.contains(':') || hash.chars().any(char::is_control) {
            let field = format!("spec.config.passwd.users[{index}].passwordHash");
            refused.push(Refusal::new(field, "the password hash has a colon or a control character"));
        }
    }
    PasswdSpec {
        users: users.iter().map(user_spec).collect(),
        groups: section(passwd.and_then(|passwd| passwd.groups.as_deref())),
    }
}

fn user_spec(user: &newest::User) -> UserSpec {
    let fields = match section(Some(user)) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let is_other = |(name, value): &(String, Value)| {
        !APPLIED.contains(&name.as_str())
            && !value.is_null()
            && value.as_array().is_none_or(|items| !items.is_empty())
    };
    UserSpec {
        name: user.name.clone(),
        keys: user.ssh_authorized_keys.clone().unwrap_or_default(),
        password_hash: user.password_hash.clone().filter(|hash| !hash.is_empty()),
        other_fields: fields.into_iter().filter(is_other).collect(),
    }
}

//! Decoding of `passwd`: users and groups.

use crate::core::config::host_config::{PasswdSpec, UserSpec};
use crate::core::config::ignition::ignored_sections::section;
use crate::core::config::ignition::newest;
use crate::core::values::refusal::Refusal;

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
    let set = [
        ("gecos", user.gecos.is_some()),
        ("groups", user.groups.as_ref().is_some_and(|groups| !groups.is_empty())),
        ("homeDir", user.home_dir.is_some()),
        ("noCreateHome", user.no_create_home.is_some()),
        ("noLogInit", user.no_log_init.is_some()),
        ("noUserGroup", user.no_user_group.is_some()),
        ("primaryGroup", user.primary_group.is_some()),
        ("shell", user.shell.is_some()),
        ("shouldExist", user.should_exist.is_some()),
        ("system", user.system.is_some()),
        ("uid", user.uid.is_some()),
    ];
    UserSpec {
        name: user.name.clone(),
        keys: user.ssh_authorized_keys.clone().unwrap_or_default(),
        password_hash: user.password_hash.clone().filter(|hash| !hash.is_empty()),
        other_fields: set.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect(),
    }
}

//! The password hash of the user `core`, edited into the target's shadow file.

use super::facts::TreeFacts;
use super::steps::PlanStep;
use crate::core::config::accounts;
use crate::core::config::host_config::{CORE_USER, HostConfig};
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::SHADOW;
use crate::core::values::profile::Profile;

/// The field of a user that nobody can log in to by password.
const LOCKED: &str = "*";

/// What the field should be; `None` where it is not ours to say. A hash that a config stops
/// setting is locked, never emptied. The reference also locks a listed user that never had one, when what is said of users
/// changes; until then an administrator may have set one.
fn wanted<'a>(current: Option<&HostConfig>, desired: &'a HostConfig, profile: Profile) -> Option<&'a str> {
    let was_set = current.is_some_and(|config| config.passwd.password_hash().is_some());
    let has_changed = current.is_none_or(|current| current.passwd != desired.passwd);
    let lists_core = has_changed && desired.passwd.users.iter().any(|user| user.name == CORE_USER);
    match desired.passwd.password_hash() {
        Some(hash) => Some(hash),
        None if was_set || lists_core && profile == Profile::Mcd => Some(LOCKED),
        None => None,
    }
}

/// What has to happen to the shadow file.
#[derive(Debug, PartialEq, Eq)]
pub enum PasswordEdit {
    /// Nothing.
    Unchanged,
    /// This write.
    Write(PlanStep),
    /// The tree has no line for the user.
    NoUser,
}

/// Decides. `today` is in days since 1970, as `shadow(5)` counts.
#[must_use]
pub fn edit(
    facts: &TreeFacts,
    current: Option<&HostConfig>,
    desired: &HostConfig,
    profile: Profile,
    today: u64,
) -> PasswordEdit {
    let Some(hash) = wanted(current, desired, profile) else {
        return PasswordEdit::Unchanged;
    };
    // A config that brings the whole file says in it what the field is.
    if desired.files.contains_key(SHADOW) {
        return PasswordEdit::Unchanged;
    }
    let Some(shadow) = &facts.shadow else {
        return PasswordEdit::NoUser;
    };
    match accounts::password(&shadow.text, CORE_USER) {
        None => PasswordEdit::NoUser,
        Some(found) if found == hash.as_bytes() => PasswordEdit::Unchanged,
        Some(_) => match accounts::with_password(&shadow.text, CORE_USER, hash, today) {
            None => PasswordEdit::NoUser,
            Some(text) => PasswordEdit::Write(PlanStep::Write {
                path: ManagedPath::constant(SHADOW),
                contents: text,
                attributes: shadow.attributes,
            }),
        },
    }
}

/// Whether the field deviates from what `config` says.
#[must_use]
pub fn deviates(facts: &TreeFacts, config: &HostConfig) -> bool {
    let Some(hash) = config.passwd.password_hash() else { return false };
    let found = facts.shadow.as_ref().and_then(|shadow| accounts::password(&shadow.text, CORE_USER));
    // A tree without the user never had the hash; one that lost its line has lost it.
    found.map_or(facts.accounts.user(CORE_USER).is_some(), |found| found != hash.as_bytes())
}

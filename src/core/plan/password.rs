//! Password hash of the user `core`, written into `/etc/shadow`.

use super::facts::TreeFacts;
use super::steps::PlanStep;
use crate::core::config::accounts;
use crate::core::config::host_config::{CORE_USER, HostConfig};
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::SHADOW;
use crate::core::values::profile::Profile;

/// Password field of a user without password login.
const LOCKED: &str = "*";

/// Return the desired password field; `None` where it is not managed. Where a config no longer sets a hash,
/// the password is locked, never emptied. MCD also locks the password of a listed user that never had a hash,
/// but only when the user's entry changes; an administrator may have set a password before that.
fn desired_hash<'a>(
    current: Option<&HostConfig>,
    desired: &'a HostConfig,
    profile: Profile,
) -> Option<&'a str> {
    let was_set = current.is_some_and(|config| config.passwd.password_hash().is_some());
    let has_changed = current.is_none_or(|current| current.passwd != desired.passwd);
    let lists_core = has_changed && desired.passwd.lists_core();
    match desired.passwd.password_hash() {
        Some(hash) => Some(hash),
        None if was_set || lists_core && profile == Profile::Mcd => Some(LOCKED),
        None => None,
    }
}

/// Change to the shadow file.
#[derive(Debug, PartialEq, Eq)]
pub enum PasswordEdit {
    Unchanged,
    /// Set the password.
    Set(PlanStep),
    /// The shadow file has no line for the user.
    NoUser,
}

/// Decide the change to the shadow file. `today` is in days since 1970, as in `shadow(5)`.
#[must_use]
pub fn edit(
    facts: &TreeFacts,
    current: Option<&HostConfig>,
    desired: &HostConfig,
    profile: Profile,
    today: u64,
) -> PasswordEdit {
    let Some(hash) = desired_hash(current, desired, profile) else {
        return PasswordEdit::Unchanged;
    };
    // A config that lists `/etc/shadow` itself decides the field with it.
    if desired.files.contains_key(SHADOW) {
        return PasswordEdit::Unchanged;
    }
    let Some(shadow) = &facts.shadow else {
        return PasswordEdit::NoUser;
    };
    match accounts::password(&shadow.text, CORE_USER) {
        None => PasswordEdit::NoUser,
        Some(found) if found == hash.as_bytes() => PasswordEdit::Unchanged,
        Some(_) => PasswordEdit::Set(PlanStep::SetPassword {
            path: ManagedPath::constant(SHADOW),
            hash: hash.to_owned(),
            today,
        }),
    }
}

/// Return true if the password hash in the tree differs from that of `config`.
#[must_use]
pub fn has_drifted(facts: &TreeFacts, config: &HostConfig) -> bool {
    let Some(hash) = config.passwd.password_hash() else { return false };
    let found = facts.shadow.as_ref().and_then(|shadow| accounts::password(&shadow.text, CORE_USER));
    // A tree that never had the user cannot have drifted; one whose shadow file lost the user's line has.
    found.map_or(facts.accounts.user(CORE_USER).is_some(), |found| found != hash.as_bytes())
}

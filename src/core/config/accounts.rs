//! Users and groups of a tree, and the password field of its shadow file.
//!
//! Names are resolved in the tree's own `passwd` and `group`, never by the running host's NSS: a new image
//! may give a name another number, and a tree that is not running has no NSS.

use std::collections::BTreeMap;

/// The fields of a user's `passwd(5)` line that are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserAccount {
    pub uid: u32,
    /// Number of the primary group.
    pub gid: u32,
    /// Home directory as written; not yet checked to be a path.
    pub home: String,
}

/// Users and groups of one tree, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountTable {
    users: BTreeMap<String, UserAccount>,
    groups: BTreeMap<String, u32>,
}

impl AccountTable {
    /// Parse `passwd` and `group` files; the first entry of a name wins, as in NSS. Malformed lines are
    /// skipped, as in glibc.
    pub fn parse<'a>(
        passwd: impl IntoIterator<Item = &'a str>,
        group: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut accounts = Self::default();
        for line in passwd.into_iter().flat_map(str::lines) {
            let fields: Vec<&str> = line.split(':').collect();
            if let [name, _, uid, gid, _, home, ..] = fields.as_slice()
                && let (Some(uid), Some(gid)) = (number(uid), number(gid))
            {
                let home = (*home).to_owned();
                let account = UserAccount { uid, gid, home };
                accounts.users.entry((*name).to_owned()).or_insert(account);
            }
        }
        for line in group.into_iter().flat_map(str::lines) {
            let fields: Vec<&str> = line.split(':').collect();
            if let [name, _, gid, ..] = fields.as_slice()
                && let Some(gid) = number(gid)
            {
                accounts.groups.entry((*name).to_owned()).or_insert(gid);
            }
        }
        accounts
    }

    #[must_use]
    pub fn user(&self, name: &str) -> Option<&UserAccount> {
        self.users.get(name)
    }

    /// The name of the user with this number; of several names, the first in alphabetical order.
    #[must_use]
    pub fn user_name(&self, uid: u32) -> Option<&str> {
        self.users.iter().find(|(_, account)| account.uid == uid).map(|(name, _)| name.as_str())
    }

    /// The group number of `name`.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<u32> {
        self.groups.get(name).copied()
    }
}

/// Parse a user or group number. The highest one is refused: chown(2) takes it for "no change".
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number != u32::MAX)
}

/// The password field of `user` in a `shadow(5)` file; `None` if the user has no line. The file is read as
/// bytes because other programs need not write UTF-8.
#[must_use]
pub fn password<'a>(shadow: &'a [u8], user: &str) -> Option<&'a [u8]> {
    shadow.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b':');
        (fields.next() == Some(user.as_bytes())).then(|| fields.next().unwrap_or_default())
    })
}

/// Return `shadow` with `user`'s password field set to `hash` and the day of the last change set to `today`
/// (days since 1970, as `usermod -p` records it). `None` if the user has no line.
#[must_use]
pub fn with_password(shadow: &[u8], user: &str, hash: &str, today: u64) -> Option<Vec<u8>> {
    let mut found = false;
    let body = shadow.strip_suffix(b"\n").unwrap_or(shadow);
    let lines: Vec<Vec<u8>> = body
        .split(|byte| *byte == b'\n')
        .map(|line| {
            let mut fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
            if found || fields.first() != Some(&user.as_bytes()) {
                return line.to_owned();
            }
            found = true;
            let day = today.to_string();
            fields.resize(fields.len().max(9), b"");
            if let [_, password, changed, ..] = fields.as_mut_slice() {
                *password = hash.as_bytes();
                *changed = day.as_bytes();
            }
            fields.join(&b':')
        })
        .collect();
    let mut text = lines.join(&b'\n');
    text.push(b'\n');
    found.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_entry_of_a_name_wins() {
        let accounts = AccountTable::parse(
            ["core:x:1000:1001::/var/home/core:/bin/bash\nbroken\n", "core:x:5:5::/:/\n"],
            ["wheel:x:10:core\n", "wheel:x:11:\nadm:x:4:\n"],
        );
        let core = accounts.user("core").unwrap();
        assert_eq!((core.uid, core.gid, core.home.as_str()), (1000, 1001, "/var/home/core"));
        assert_eq!((accounts.group("wheel"), accounts.group("adm")), (Some(10), Some(4)));
        assert_eq!(accounts.group("operators"), None);
    }

    #[test]
    fn password_change_leaves_other_users_unchanged() {
        let shadow = b"root:*:1:0:99999:7:::\n\xf6:x:1\ncore:!!:2:0:99999:7:::\n";
        let edited = with_password(shadow, "core", "$6$x", 20_000).unwrap();
        assert_eq!(edited, b"root:*:1:0:99999:7:::\n\xf6:x:1\ncore:$6$x:20000:0:99999:7:::\n");
        assert_eq!(password(&edited, "core"), Some(b"$6$x".as_slice()));
        assert_eq!(with_password(shadow, "operator", "x", 1), None);
    }
}

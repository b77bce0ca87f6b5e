//! The target's users and groups, and the password field of its shadow file.
//!
//! Names are resolved in the target's own `passwd` and `group`, never by the running host's NSS:
//! an image may give another number to a name, and a tree has no NSS at all.

use std::collections::BTreeMap;

/// What `passwd(5)` says of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// User number.
    pub uid: u32,
    /// Number of the primary group.
    pub gid: u32,
    /// Home directory, absolute.
    pub home: String,
}

/// Users and groups of one tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accounts {
    users: BTreeMap<String, Account>,
    groups: BTreeMap<String, u32>,
}

impl Accounts {
    /// Reads `passwd` and `group` files; the first mention of a name wins, as in NSS. Lines that
    /// are not well formed are passed over, as glibc does.
    pub fn parse<'a>(
        passwd: impl IntoIterator<Item = &'a str>,
        group: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut accounts = Self::default();
        for line in passwd.into_iter().flat_map(str::lines) {
            let fields: Vec<&str> = line.split(':').collect();
            if let [name, _, uid, gid, _, home, ..] = fields.as_slice()
                && let (Ok(uid), Ok(gid)) = (uid.parse(), gid.parse())
            {
                let home = (*home).to_owned();
                let account = Account { uid, gid, home };
                accounts.users.entry((*name).to_owned()).or_insert(account);
            }
        }
        for line in group.into_iter().flat_map(str::lines) {
            let fields: Vec<&str> = line.split(':').collect();
            if let [name, _, gid, ..] = fields.as_slice()
                && let Ok(gid) = gid.parse()
            {
                accounts.groups.entry((*name).to_owned()).or_insert(gid);
            }
        }
        accounts
    }

    /// The account of that name.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&Account> {
        self.users.get(name)
    }

    /// The number of the group of that name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<u32> {
        self.groups.get(name).copied()
    }
}

/// The password field of `user` in a `shadow(5)` text; `None` where the user has no line.
#[must_use]
pub fn password<'a>(shadow: &'a str, user: &str) -> Option<&'a str> {
    shadow.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(user)).then(|| fields.next().unwrap_or_default())
    })
}

/// `shadow` with `user`'s password field set to `hash`, and the day of the change to `today` (days
/// since 1970, as `usermod -p` records it). `None` where the user has no line.
#[must_use]
pub fn with_password(shadow: &str, user: &str, hash: &str, today: u64) -> Option<String> {
    let mut found = false;
    let lines: Vec<String> = shadow
        .lines()
        .map(|line| {
            let mut fields: Vec<&str> = line.split(':').collect();
            let day = today.to_string();
            if found || fields.first() != Some(&user) {
                return line.to_owned();
            }
            found = true;
            fields.resize(fields.len().max(9), "");
            if let [_, password, changed, ..] = fields.as_mut_slice() {
                *password = hash;
                *changed = &day;
            }
            fields.join(":")
        })
        .collect();
    found.then(|| lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_mention_of_a_name_wins() {
        let accounts = Accounts::parse(
            ["core:x:1000:1001::/var/home/core:/bin/bash\nbroken\n", "core:x:5:5::/:/\n"],
            ["wheel:x:10:core\n", "wheel:x:11:\nadm:x:4:\n"],
        );
        let core = accounts.user("core").unwrap();
        assert_eq!((core.uid, core.gid, core.home.as_str()), (1000, 1001, "/var/home/core"));
        assert_eq!((accounts.group("wheel"), accounts.group("adm")), (Some(10), Some(4)));
        assert_eq!(accounts.group("nobody"), None);
    }

    #[test]
    fn only_the_named_password_changes() {
        let shadow = "root:*:1:0:99999:7:::\ncore:!!:2:0:99999:7:::\n";
        let edited = with_password(shadow, "core", "$6$x", 20_000).unwrap();
        assert_eq!(edited, "root:*:1:0:99999:7:::\ncore:$6$x:20000:0:99999:7:::\n");
        assert_eq!(password(&edited, "core"), Some("$6$x"));
        assert_eq!(with_password(shadow, "nobody", "x", 1), None);
    }
}

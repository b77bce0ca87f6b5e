//! Merge of account files into the `/etc` of an older deployment. Users and passwords are those of now; the numbers of
//! system accounts stay those of the older image, whose files they own (where an image has no `/usr/lib/passwd`).

use std::collections::{BTreeMap, BTreeSet};

use crate::core::values::names::ManagedPath;

/// First number that is not of a system account (`login.defs(5)`).
const FIRST_REGULAR: u32 = 1000;
/// Field of `passwd` and `group` with the number.
const NUMBER: usize = 2;

/// Kind of an account file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccountFile {
    Passwd,
    Group,
    /// `shadow` and `gshadow`, which have no numbers.
    Shadow,
}

/// Merge the account file at `path` from its text in the older deployment and the one of now; `None` if `path` is none.
#[must_use]
pub fn merge(path: &ManagedPath, older: &[u8], now: &[u8]) -> Option<Vec<u8>> {
    let file = match path.as_str() {
        "/etc/passwd" => AccountFile::Passwd,
        "/etc/group" => AccountFile::Group,
        "/etc/shadow" | "/etc/gshadow" => AccountFile::Shadow,
        _ => return None,
    };
    let of_older: BTreeMap<&[u8], &[u8]> = lines(older).map(|line| (name(line), line)).collect();
    let known: BTreeSet<&[u8]> = lines(now).map(name).collect();
    let taken: BTreeSet<u32> = lines(older).filter_map(|line| system_number(file, line)).collect();
    let collides = |line: &[u8]| {
        !of_older.contains_key(name(line))
            && system_number(file, line).is_some_and(|number| taken.contains(&number))
    };
    let mut merged: Vec<Vec<u8>> = lines(now)
        // A system account of the newer image, whose number has another owner here.
        .filter(|line| !collides(line))
        .map(|line| match of_older.get(name(line)).filter(|old| is_of_system(file, old)) {
            Some(old) => system_line(file, old, line),
            None => line.to_vec(),
        })
        .collect();
    let gone = lines(older).filter(|line| !known.contains(name(line)) && is_of_system(file, line));
    merged.extend(gone.map(<[u8]>::to_vec));
    Some(merged.into_iter().flat_map(|line| [line, vec![b'\n']].concat()).collect())
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn fields(line: &[u8]) -> Vec<&[u8]> {
    line.split(|byte| *byte == b':').collect()
}

fn name(line: &[u8]) -> &[u8] {
    line.split(|byte| *byte == b':').next().unwrap_or_default()
}

/// Return true for the line of a system account: by its number, or in shadow files by a locked password.
fn is_of_system(file: AccountFile, line: &[u8]) -> bool {
    if file == AccountFile::Shadow {
        return fields(line).get(1).is_some_and(|password| password.starts_with(b"!") || *password == b"*");
    }
    system_number(file, line).is_some()
}

/// Return the number of a system account.
fn system_number(file: AccountFile, line: &[u8]) -> Option<u32> {
    let fields = fields(line);
    let number = fields.get(NUMBER).filter(|_| file != AccountFile::Shadow)?;
    let number: u32 = std::str::from_utf8(number).ok()?.parse().ok()?;
    (number < FIRST_REGULAR).then_some(number)
}

/// Return the line of a system account that both have: the older one, with the members or the password of now.
fn system_line(file: AccountFile, older: &[u8], now: &[u8]) -> Vec<u8> {
    match file {
        AccountFile::Passwd => older.to_vec(),
        AccountFile::Shadow => now.to_vec(),
        AccountFile::Group => {
            let (mut merged, members) = (fields(older), fields(now));
            if let (Some(last), Some(members)) = (merged.last_mut(), members.last()) {
                *last = members;
            }
            merged.join(&b':')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(path: &str, older: &str, now: &str) -> String {
        let merged = merge(&ManagedPath::constant(path), older.as_bytes(), now.as_bytes()).unwrap();
        String::from_utf8(merged).unwrap()
    }

    #[test]
    fn system_accounts_keep_the_numbers_of_the_older_image_and_users_are_those_of_now() {
        let older = "root:x:0:0::/root:/bin/sh\nchrony:x:990:990::/:/bin/false\nold:x:991:991::/:/bin/false\n\
                     core:x:1000:1000::/:/bin/sh\nleft:x:1001:1001::/:/bin/sh\n";
        let now = "root:x:0:0::/root:/bin/bash\nchrony:x:985:985::/:/bin/false\nnew:x:990:990::/:/bin/false\n\
                   core:x:1000:1000::/home/core:/bin/sh\nadded:x:1002:1002::/:/bin/sh\n";
        let expected = "root:x:0:0::/root:/bin/sh\nchrony:x:990:990::/:/bin/false\n\
                        core:x:1000:1000::/home/core:/bin/sh\nadded:x:1002:1002::/:/bin/sh\n\
                        old:x:991:991::/:/bin/false\n";
        assert_eq!(merged("/etc/passwd", older, now), expected);
        assert_eq!(merged("/etc/passwd", now, now), now);
    }

    #[test]
    fn members_of_a_system_group_and_passwords_are_those_of_now() {
        let (older, now) = ("wheel:x:10:core\ncore:x:1000:\n", "wheel:x:11:core,added\ncore:x:1000:\n");
        assert_eq!(merged("/etc/group", older, now), "wheel:x:10:core,added\ncore:x:1000:\n");
        let older = "root:*:1::::::\nold:!!:1::::::\nleft:$6$a:1::::::\ncore:$6$old:1::::::\n";
        let now = "root:$6$set:2::::::\ncore:$6$new:2::::::\n";
        let expected = "root:$6$set:2::::::\ncore:$6$new:2::::::\nold:!!:1::::::\n";
        assert_eq!(merged("/etc/shadow", older, now), expected);
        assert_eq!(merge(&ManagedPath::constant("/etc/machine-id"), b"a", b"b"), None);
    }
}

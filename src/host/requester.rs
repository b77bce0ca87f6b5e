//! The party behind this process: the command, and the user who logged in.

use std::fs;

use crate::core::config::accounts::AccountTable;
use crate::core::history::EntryRequester;

/// Login user ID of processes that no user started.
const NO_USER: u32 = u32::MAX;

/// Return the command of this process and the user who logged in to start it, who stays the same through `sudo`.
#[must_use]
pub fn of_this_process() -> EntryRequester {
    let command = std::env::args().nth(1).unwrap_or_default();
    // Jobs are processes of the daemon.
    let command = if command == "work" { "daemon".to_owned() } else { command };
    let user = fs::read_to_string("/proc/self/loginuid").ok().and_then(|text| text.trim().parse().ok());
    let user = user.filter(|user| *user != NO_USER).map(|user: u32| {
        let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
        name_of(&accounts, user).unwrap_or_else(|| user.to_string())
    });
    EntryRequester { command, user }
}

fn name_of(accounts: &str, user: u32) -> Option<String> {
    AccountTable::parse([accounts], []).user_name(user).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_named_by_the_accounts_of_the_host() {
        let accounts =
            "root:x:0:0:root:/root:/bin/bash\nbroken\ncore:x:1000:1000::/var/home/core:/bin/bash\n";
        assert_eq!(name_of(accounts, 1000).as_deref(), Some("core"));
        assert_eq!(name_of(accounts, 0).as_deref(), Some("root"));
        assert_eq!(name_of(accounts, 7), None);
    }
}

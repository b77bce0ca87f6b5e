//! Users and groups of a tree.

use crate::core::config::accounts::AccountTable;
use crate::core::values::names::ManagedPath;
use crate::host::fs::error::HostError;
use crate::host::fs::root::Root;

/// Maximum size of an account file, in bytes.
pub const ACCOUNT_FILE_BYTES: usize = 8 << 20;

/// Load users and groups: those added by an administrator in `/etc`, then those of the image in `/usr/lib`
/// (`nss-altfiles`).
pub fn load_accounts(root: &Root) -> Result<AccountTable, HostError> {
    let load = |file: &str| -> Result<Vec<String>, HostError> {
        let mut texts = Vec::new();
        for directory in ["/etc", "/usr/lib"] {
            let path = ManagedPath::constant(directory).join(file);
            let bytes = root.read(&path, ACCOUNT_FILE_BYTES)?;
            // Names and IDs are ASCII; comments in another encoding do not matter.
            texts.extend(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        }
        Ok(texts)
    };
    let (passwd, group) = (load("passwd")?, load("group")?);
    Ok(AccountTable::parse(passwd.iter().map(String::as_str), group.iter().map(String::as_str)))
}

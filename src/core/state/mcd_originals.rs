//! Pre-images that the machine-config-daemon (MCD) keeps of files before it writes them.

use crate::core::values::names::ManagedPath;

/// Directory of MCD's copies of the shipped files.
pub const ORIG: &str = "/etc/machine-config-daemon/orig";
/// Directory of MCD's stamps for paths at which no file existed.
pub const NOORIG: &str = "/etc/machine-config-daemon/noorig";

const COPY: &str = ".mcdorig";
const STAMP: &str = ".mcdnoorig";

/// Return the path of MCD's copy of `path`.
#[must_use]
pub fn orig_copy_of(path: &ManagedPath) -> ManagedPath {
    ManagedPath::constant(&format!("{ORIG}/{}{COPY}", path.relative()))
}

/// Return the path of MCD's stamp for `path`.
#[must_use]
pub fn noorig_stamp_of(path: &ManagedPath) -> ManagedPath {
    ManagedPath::constant(&format!("{NOORIG}/{}{STAMP}", path.relative()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_stamps_contain_the_whole_path() {
        let path = ManagedPath::constant("/etc/app/a.conf");
        assert_eq!(orig_copy_of(&path).as_str(), "/etc/machine-config-daemon/orig/etc/app/a.conf.mcdorig");
        assert_eq!(
            noorig_stamp_of(&path).as_str(),
            "/etc/machine-config-daemon/noorig/etc/app/a.conf.mcdnoorig"
        );
    }
}

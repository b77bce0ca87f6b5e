//! Where the machine-config-daemon keeps what stood at a path before it wrote there.

use crate::core::values::names::ManagedPath;

/// Copies of what was shipped there.
pub const ORIG: &str = "/etc/machine-config-daemon/orig";
/// Stamps that say that nothing was.
pub const NOORIG: &str = "/etc/machine-config-daemon/noorig";

const COPY: &str = ".mcdorig";
const STAMP: &str = ".mcdnoorig";

/// Where the copy of `path` is.
#[must_use]
pub fn copy_of(path: &ManagedPath) -> ManagedPath {
    ManagedPath::constant(&format!("{ORIG}/{}{COPY}", path.relative()))
}

/// Where the stamp of `path` is.
#[must_use]
pub fn stamp_of(path: &ManagedPath) -> ManagedPath {
    ManagedPath::constant(&format!("{NOORIG}/{}{STAMP}", path.relative()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_stamps_have_the_whole_path() {
        let path = ManagedPath::constant("/etc/app/a.conf");
        assert_eq!(copy_of(&path).as_str(), "/etc/machine-config-daemon/orig/etc/app/a.conf.mcdorig");
        assert_eq!(stamp_of(&path).as_str(), "/etc/machine-config-daemon/noorig/etc/app/a.conf.mcdnoorig");
    }
}

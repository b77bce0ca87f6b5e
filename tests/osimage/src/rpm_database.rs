//! RPM database of a generated OS, which the real rpm-ostreed needs to layer packages.

use std::path::Path;

use anyhow::Context as _;

use crate::tree::write;

/// Made as `rpmdb/README.md` describes.
const COMPRESSED: &[u8] = include_bytes!("../rpmdb/rpmdb.sqlite.zst");

/// Write the database where rpm-ostree has it, and where RPM looks for it.
pub(crate) fn write_database(root: &Path) -> anyhow::Result<()> {
    let database = zstd::decode_all(COMPRESSED).context("decompressing the RPM database")?;
    write(root, "usr/share/rpm/rpmdb.sqlite", &database, 0o644)?;
    write(root, "usr/lib/sysimage/rpm-ostree-base-db/rpmdb.sqlite", &database, 0o644)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::PACKAGES;

    #[test]
    fn database_has_the_packages_of_the_list() {
        let database = zstd::decode_all(COMPRESSED).unwrap();
        assert!(database.starts_with(b"SQLite format 3\0"));
        for name in PACKAGES.1.lines() {
            let header = format!("\0{name}\01\01\0");
            let mut places = database.windows(header.len());
            assert!(places.any(|bytes| bytes == header.as_bytes()), "{name}");
        }
    }
}

//! Reading of extended attributes: lists their names, and reads the SELinux label if there is one.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;

use crate::core::values::tree::ContentDigest;
use crate::core::values::xattrs::{XattrSummary, is_foreign};
use crate::host::fs::path_state::LABEL;

/// Buffer size in bytes that fits nearly every list and label.
const USUAL: usize = 512;
/// Maximum size in bytes of a list or value on Linux.
const MOST: usize = 64 << 10;

/// Inode to read: an open file, or a path whose last component is not followed.
pub(crate) enum XattrSource<'a> {
    File(&'a OwnedFd),
    Path(String),
}

impl XattrSource<'_> {
    /// Summarize the attributes; empty if the file system does not support them or the file was removed.
    pub(crate) fn extended(&self) -> Result<XattrSummary, Errno> {
        let mut found = XattrSummary::default();
        for name in self.list()?.split(|byte| *byte == 0) {
            found.foreign |= is_foreign(name);
            if name == LABEL.as_bytes() {
                found.label = self.label()?;
            }
        }
        Ok(found)
    }

    fn list(&self) -> Result<Vec<u8>, Errno> {
        let listed = grown(|buffer| match self {
            Self::File(file) => rustix::fs::flistxattr(file, buffer),
            Self::Path(path) => rustix::fs::llistxattr(path.as_str(), buffer),
        });
        match listed {
            Err(Errno::OPNOTSUPP | Errno::NOENT) => Ok(Vec::new()),
            listed => listed,
        }
    }

    fn label(&self) -> Result<Option<String>, Errno> {
        let label = grown(|buffer| match self {
            Self::File(file) => rustix::fs::fgetxattr(file, LABEL, buffer),
            Self::Path(path) => rustix::fs::lgetxattr(path.as_str(), LABEL, buffer),
        });
        match label {
            Ok(label) => Ok(Some(String::from_utf8_lossy(&label).trim_end_matches('\0').to_owned())),
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

/// Compute the digests of all attributes set by other programs ([`is_foreign`]); empty if the file system
/// does not support attributes or the file was removed.
pub(crate) fn given(path: &Path) -> Result<BTreeMap<Vec<u8>, ContentDigest>, Errno> {
    let mut found = BTreeMap::new();
    let names = match grown(|buffer| rustix::fs::llistxattr(path, buffer)) {
        Err(Errno::OPNOTSUPP | Errno::NOENT) => return Ok(found),
        names => names?,
    };
    for name in names.split(|byte| *byte == 0).filter(|name| is_foreign(name)) {
        match grown(|buffer| rustix::fs::lgetxattr(path, name, buffer)) {
            Ok(value) => drop(found.insert(name.to_owned(), ContentDigest::of(&value))),
            Err(Errno::NODATA | Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(found)
}

/// Call `ask` with a small buffer, and again with the maximum size if that is too small.
fn grown(ask: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; USUAL];
    let length = match ask(&mut buffer) {
        Err(Errno::RANGE) => {
            buffer.resize(MOST, 0);
            ask(&mut buffer)?
        }
        length => length?,
    };
    buffer.truncate(length);
    Ok(buffer)
}

//! Reads extended attributes: one listing per node, and the label where the listing names one.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;

use crate::core::values::tree::ContentDigest;
use crate::core::values::xattrs::{XattrSummary, is_foreign};
use crate::host::fs::path_state::LABEL;

/// Bytes that nearly every listing and label fits into.
const USUAL: usize = 512;
/// The most that the kernel lists or returns, in bytes.
const MOST: usize = 64 << 10;

/// What is asked: an open file, or a path whose last component is not followed.
pub(crate) enum XattrSource<'a> {
    File(&'a OwnedFd),
    Path(String),
}

impl XattrSource<'_> {
    /// Its attributes; none where the file system has no such thing, or the node has just gone.
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

/// The digests of all attributes that somebody gave to what stands at `path`; none where the file system has no
/// such thing, or the node has just gone.
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

/// Asks with a small buffer first.
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

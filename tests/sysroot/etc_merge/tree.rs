//! A randomly drawn tree, and its form in the product's model.

use std::collections::BTreeMap;

use flameholder::core::etc_merge::{EtcBody, EtcNode, FileContent};
use flameholder::core::values::tree::{ContentDigest, FileAttributes};

/// Entries of a directory by name.
pub(crate) type Drawn = BTreeMap<String, Plant>;

/// A node to create at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plant {
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) xattrs: BTreeMap<&'static str, &'static str>,
    pub(crate) kind: Kind,
}

/// The type and content of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    File(&'static str),
    Symlink(String),
    Directory(Drawn),
    Fifo,
    Socket,
}

impl Plant {
    /// The corresponding node of the product's model.
    pub(crate) fn node(&self) -> EtcNode {
        let body = match &self.kind {
            Kind::File(text) => {
                let digest = Some(ContentDigest::of(text.as_bytes()));
                EtcBody::File(FileContent { size: text.len() as u64, digest })
            }
            Kind::Symlink(target) => EtcBody::Symlink(target.into()),
            Kind::Directory(entries) => {
                EtcBody::Directory(entries.iter().map(|(name, plant)| (name.into(), plant.node())).collect())
            }
            Kind::Fifo => EtcBody::Special(0o010_000),
            Kind::Socket => EtcBody::Special(0o140_000),
        };
        let xattrs = self
            .xattrs
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), ContentDigest::of(value.as_bytes())));
        let (uid, gid) = self.owner;
        EtcNode { attributes: FileAttributes { mode: self.mode, uid, gid }, xattrs: xattrs.collect(), body }
    }
}

/// The top directory of an `/etc` with these entries.
pub(crate) fn top(entries: &Drawn) -> EtcNode {
    let kind = Kind::Directory(entries.clone());
    Plant { mode: 0o755, owner: (0, 0), xattrs: BTreeMap::new(), kind }.node()
}

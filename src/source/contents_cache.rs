//! Contents that configs name by URL and hash, kept on the disk by their hash: the server is asked once. They are of use until the
//! config that names them is applied; its generation has them itself.

use crate::core::config::ignition::content_hash::ContentHash;
use crate::core::config::ignition::remote_contents::RemoteContents;
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{CURRENT_CONFIG, FETCHED_CONTENTS};
use crate::core::values::tree::FileAttributes;
use crate::host::{HostDisk as _, HostError, Root};

/// Root only: contents can be secret.
const DIRECTORY: FileAttributes = FileAttributes { mode: 0o700, uid: 0, gid: 0 };
const FILE: FileAttributes = FileAttributes { mode: 0o600, uid: 0, gid: 0 };
/// Mode of directories above.
const READABLE: FileAttributes = FileAttributes { mode: 0o755, ..DIRECTORY };

/// Cache of a host.
#[derive(Debug)]
pub struct ContentsCache {
    root: Root,
}

impl ContentsCache {
    #[must_use]
    pub fn of(root: Root) -> Self {
        Self { root }
    }

    fn directory() -> ManagedPath {
        ManagedPath::constant(FETCHED_CONTENTS)
    }

    /// Load the contents with this hash. Where that is not possible, as for users other than root, they are fetched.
    #[must_use]
    pub fn load(&self, hash: &ContentHash) -> Option<Vec<u8>> {
        let path = Self::directory().join(&hash.to_string());
        let contents = match self.root.read(&path, limits::REMOTE_BYTES) {
            Ok(contents) => contents?,
            Err(error) => {
                log::debug!("{}", chain(&error));
                return None;
            }
        };
        match hash.verify(&contents) {
            Ok(()) => Some(contents),
            Err(error) => {
                log::warn!("{path} is damaged, and is fetched again: {error}", error = chain(&error));
                None
            }
        }
    }

    /// Keep contents, durably, in place of damaged ones. They are complete where they have their name.
    pub fn store(&self, hash: &ContentHash, contents: &[u8]) -> Result<(), HostError> {
        let directory = Self::directory();
        self.make_directory(&directory)?;
        let path = directory.join(&hash.to_string());
        // Another process may store the same.
        let new = directory.join(&format!("{hash}.{}", std::process::id()));
        self.remove(&new)?;
        self.root.create_file(&new, contents, FILE, None)?;
        self.root.sync(&[Some(new.clone())])?;
        self.remove(&path)?;
        self.root.rename(&new, &path)?;
        self.root.sync(&[Some(directory)])
    }

    /// Remove all contents but those that are `used`, or that the current config names.
    pub fn retain(&self, used: &RemoteContents) -> Result<(), HostError> {
        let used: Vec<String> = used.hashes().map(ToString::to_string).collect();
        let mut others = self.root.list(&Self::directory())?;
        others.retain(|name| !used.contains(name));
        if others.is_empty() {
            return Ok(());
        }
        let current = self.root.read(&ManagedPath::constant(CURRENT_CONFIG), limits::DOCUMENT_BYTES)?;
        let current = current.unwrap_or_default();
        let current = String::from_utf8_lossy(&current);
        others.retain(|name| !current.contains(name.as_str()));
        let paths: Vec<ManagedPath> = others.iter().map(|name| Self::directory().join(name)).collect();
        self.root.remove_files(&paths)
    }

    fn make_directory(&self, directory: &ManagedPath) -> Result<(), HostError> {
        for above in directory.ancestors().collect::<Vec<_>>().into_iter().rev() {
            if !self.root.exists(&above)? {
                self.root.make_directory(&above, READABLE, None)?;
            }
        }
        if self.root.exists(directory)? {
            return Ok(());
        }
        self.root.make_directory(directory, DIRECTORY, None)?;
        self.root.sync(&[directory.parent()])
    }

    fn remove(&self, path: &ManagedPath) -> Result<(), HostError> {
        if self.root.exists(path)? { self.root.remove_file(path) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const ABC: &str = "sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const EMPTY: &str = "sha256-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn contents_are_kept_for_root_until_no_config_names_them() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ContentsCache::of(Root::open(folder.path()).unwrap());
        let (abc, empty): (ContentHash, ContentHash) = (ABC.parse().unwrap(), EMPTY.parse().unwrap());
        assert_eq!(cache.load(&abc), None);
        cache.retain(&RemoteContents::default()).unwrap();
        for (hash, contents) in [(&abc, &b"abc"[..]), (&empty, b""), (&abc, b"abc")] {
            cache.store(hash, contents).unwrap();
            assert_eq!(cache.load(hash).as_deref(), Some(contents));
        }
        let directory = folder.path().join(&FETCHED_CONTENTS[1..]);
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&directory), mode(&directory.join(ABC))), (0o700, 0o600));
        // Damaged contents, and files that a killed process left.
        fs::write(directory.join(ABC), "abd").unwrap();
        assert_eq!(cache.load(&abc), None);
        cache.store(&abc, b"abc").unwrap();
        fs::write(directory.join(format!("{ABC}.1")), "a").unwrap();
        let current = folder.path().join(&CURRENT_CONFIG[1..]);
        fs::create_dir_all(current.parent().unwrap()).unwrap();
        fs::write(&current, format!("{{\"hash\": \"{EMPTY}\"}}")).unwrap();
        let mut used = RemoteContents::default();
        used.insert(abc.clone(), b"abc".to_vec());
        cache.retain(&used).unwrap();
        assert_eq!((cache.load(&abc).is_some(), cache.load(&empty).is_some()), (true, true));
        assert!(!directory.join(format!("{ABC}.1")).exists());
        cache.retain(&RemoteContents::default()).unwrap();
        assert_eq!((cache.load(&abc), cache.load(&empty).is_some()), (None, true));
    }
}

//! Validated paths and file names: a [`ManagedPath`] cannot leave the root, whichever config it came from.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest file name on a Linux file system, in bytes.
pub(crate) const NAME_MAX: usize = 255;
/// Longest path that a system call accepts, in bytes, with its terminating NUL.
const PATH_MAX: usize = 4096;
/// Deepest managed path, in components; bounded because every parent directory is opened and checked.
const DEPTH_MAX: usize = 64;

/// An absolute path below the managed root: normalized, without `..`, never `/` itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", extend("pattern" = "^/[^/]"))]
pub struct ManagedPath(String);

/// The reason why a path cannot be managed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("the path is not absolute")]
    Relative,
    #[error("the path has a `..` component and could leave the root")]
    ParentComponent,
    #[error("the path is the root directory itself")]
    Root,
    /// A `.` or empty component.
    #[error("the path is not normalized: it has a `.`, a double slash or a trailing slash")]
    NotNormalized,
    #[error("the path has a control character")]
    Control,
    /// Longer or deeper than Linux or the limits above allow.
    #[error("the path or one of its components is too long, or it has more than 64 components")]
    TooLong,
}

impl ManagedPath {
    /// Parse a path that must be normalized already, as Ignition requires of a config.
    pub fn parse(spelled: &str) -> Result<Self, PathError> {
        let path = Self::simplified(spelled)?;
        if path.as_str() == spelled { Ok(path) } else { Err(PathError::NotNormalized) }
    }

    /// Parse a path from another source, such as a home directory in `passwd`: empty and `.` components are
    /// dropped.
    pub fn simplified(spelled: &str) -> Result<Self, PathError> {
        if !spelled.starts_with('/') {
            return Err(PathError::Relative);
        }
        if spelled.chars().any(char::is_control) {
            return Err(PathError::Control);
        }
        let mut path = String::with_capacity(spelled.len());
        for component in spelled.split('/') {
            match component {
                "" | "." => {}
                ".." => return Err(PathError::ParentComponent),
                name if name.len() > NAME_MAX => return Err(PathError::TooLong),
                name => {
                    path.push('/');
                    path.push_str(name);
                }
            }
        }
        if path.is_empty() {
            return Err(PathError::Root);
        }
        if path.len() >= PATH_MAX || path.matches('/').count() > DEPTH_MAX {
            return Err(PathError::TooLong);
        }
        Ok(Self(path))
    }

    /// Parse a path that is a literal of the program.
    ///
    /// # Panics
    /// If the literal is not a normalized absolute path.
    #[must_use]
    pub fn constant(spelled: &str) -> Self {
        Self::parse(spelled).expect("path literals of the program are normalized")
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path relative to the root, without the leading slash.
    #[must_use]
    pub fn relative(&self) -> &str {
        self.0.trim_start_matches('/')
    }

    #[must_use]
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The parent directory; `None` if that is the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let (parent, _) = self.0.rsplit_once('/')?;
        (!parent.is_empty()).then(|| Self(parent.to_owned()))
    }

    /// All parent directories, nearest first, without the root.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// Append one component. `name` must not contain a slash.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        Self(format!("{}/{name}", self.0))
    }

    /// Resolve the `target` of a symbolic link at this path by name alone, without reading the tree. `None`
    /// if the target is absolute or leaves the root.
    #[must_use]
    pub fn leads_to(&self, target: &str) -> Option<Self> {
        let mut names: Vec<&str> = self.0.split('/').filter(|name| !name.is_empty()).collect();
        names.pop();
        for name in target.split('/') {
            match name {
                "" | "." => {}
                ".." => drop(names.pop()?),
                name => names.push(name),
            }
        }
        let is_relative = !target.starts_with('/');
        is_relative.then(|| Self::parse(&format!("/{}", names.join("/"))).ok())?
    }

    /// True if the path is `directory` or lies below it, compared by components.
    #[must_use]
    pub fn is_within(&self, directory: &str) -> bool {
        self.0
            .strip_prefix(directory.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Iterate over the items of a map whose paths lie below `directory`, as a range: cheap for a large map.
pub fn below<'a, V>(
    map: &'a BTreeMap<ManagedPath, V>,
    directory: &str,
) -> impl Iterator<Item = (&'a ManagedPath, &'a V)> + use<'a, V> {
    let inside = format!("{}/", directory.trim_end_matches('/'));
    let from = (Bound::Excluded(inside.as_str()), Bound::Unbounded);
    let behind = map.range::<str, _>(from);
    behind.take_while(move |(path, _)| path.as_str().starts_with(&inside))
}

impl TryFrom<String> for ManagedPath {
    type Error = PathError;
    fn try_from(path: String) -> Result<Self, PathError> {
        Self::parse(&path)
    }
}

impl From<ManagedPath> for PathBuf {
    fn from(path: ManagedPath) -> Self {
        String::from(path).into()
    }
}

impl From<ManagedPath> for String {
    fn from(path: ManagedPath) -> Self {
        path.0
    }
}

impl Borrow<str> for ManagedPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ManagedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Check that `name` is a drop-in's file name: one component that ends in `.conf`.
pub fn ensure_drop_in_name(name: &str) -> Result<(), String> {
    if name.contains('/') || name.chars().any(char::is_control) || name.len() > NAME_MAX {
        return Err("the drop-in name is not a file name".into());
    }
    match name.strip_suffix(".conf") {
        Some(stem) if !stem.is_empty() => Ok(()),
        _ => Err("the drop-in name does not end in `.conf`".into()),
    }
}

/// Return true if `text` is a label of a DNS name (RFC 1123) in the spelling of Kubernetes: small letters, digits and `-`, which is
/// neither the first nor the last.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_valid) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_normalized_or_refused() {
        for (spelled, expected) in [
            ("/etc/x/y", Ok("/etc/x/y")),
            ("/etc//x", Err(PathError::NotNormalized)),
            ("/etc/./x", Err(PathError::NotNormalized)),
            ("/etc/x/", Err(PathError::NotNormalized)),
            ("etc/x", Err(PathError::Relative)),
            ("", Err(PathError::Relative)),
            ("/etc/../../x", Err(PathError::ParentComponent)),
            ("//", Err(PathError::Root)),
            ("/etc/a\0b", Err(PathError::Control)),
            ("/etc/..x", Ok("/etc/..x")),
        ] {
            assert_eq!(
                ManagedPath::parse(spelled).as_ref().map(ManagedPath::as_str),
                expected.as_ref().copied(),
                "{spelled:?}"
            );
        }
    }

    #[test]
    fn link_target_outside_the_root_does_not_resolve() {
        let link = ManagedPath::parse("/usr/local").unwrap();
        for (target, expected) in [
            ("../var/usrlocal", Some("/var/usrlocal")),
            ("./elsewhere/", Some("/usr/elsewhere")),
            ("../../var", None),
            ("/var/usrlocal", None),
            ("..", None),
        ] {
            assert_eq!(link.leads_to(target).as_ref().map(ManagedPath::as_str), expected, "{target:?}");
        }
    }

    #[test]
    fn containment_is_by_component() {
        let path = ManagedPath::parse("/etc/foo/bar").unwrap();
        assert!(path.is_within("/etc/foo") && path.is_within("/etc/foo/bar") && path.is_within("/"));
        assert!(!path.is_within("/etc/fo"));
    }

    #[test]
    fn drop_in_name_is_a_file_name_with_suffix_conf() {
        assert!(ensure_drop_in_name("10-x.conf").is_ok());
        for bad in [".conf", "x", "a/b.conf"] {
            assert!(ensure_drop_in_name(bad).is_err(), "{bad}");
        }
    }
}

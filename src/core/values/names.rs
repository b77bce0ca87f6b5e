//! Names that cannot be wrong once they exist: paths, units, drop-ins, users.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use serde::{Deserialize, Serialize};

/// Longest file name that Linux file systems take, in bytes.
const NAME_MAX: usize = 255;
/// Longest path that a system call takes, in bytes, its terminator included.
const PATH_MAX: usize = 4096;
/// Deepest path that is managed, in components: each directory above it is looked at.
const DEPTH_MAX: usize = 64;

/// An absolute path below the managed root: normal, without `..`, never `/` itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ManagedPath(String);

/// Why a path cannot be managed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It does not start with `/`.
    #[error("the path is not absolute")]
    Relative,
    /// It has a `..` component.
    #[error("the path has a `..` component and could leave the root")]
    ParentComponent,
    /// It is `/`.
    #[error("the path is the root directory itself")]
    Root,
    /// It has a component that says nothing: `.`, or one that is empty.
    #[error("the path is not fully simplified: it has a `.`, a doubled slash or one at its end")]
    NotNormalized,
    /// It has a NUL byte or a control character.
    #[error("the path has a control character")]
    Control,
    /// It, or one of its components, is longer than Linux takes.
    #[error("the path or one of its components is too long, or it has more than 64 components")]
    TooLong,
}

impl ManagedPath {
    /// Parses a path that must be spelt as it is kept, as Ignition demands of a config.
    pub fn parse(spelled: &str) -> Result<Self, PathError> {
        let path = Self::simplified(spelled)?;
        if path.as_str() == spelled { Ok(path) } else { Err(PathError::NotNormalized) }
    }

    /// Parses a path of somebody else's, such as a home directory: what says nothing is dropped.
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

    /// A path that stands in the program.
    ///
    /// # Panics
    /// Where the program spells it wrong.
    #[must_use]
    pub fn constant(spelled: &str) -> Self {
        Self::parse(spelled).expect("the program spells its own paths right")
    }

    /// The absolute path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path relative to the root: without its leading slash.
    #[must_use]
    pub fn relative(&self) -> &str {
        self.0.trim_start_matches('/')
    }

    /// The last component.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The directory that holds it; `None` where that is the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let (parent, _) = self.0.rsplit_once('/')?;
        (!parent.is_empty()).then(|| Self(parent.to_owned()))
    }

    /// The directories above it, nearest first, without the root.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// `self/name`. `name` must be a single component, as all callers' names are.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        Self(format!("{}/{name}", self.0))
    }

    /// Where a symbolic link at this path leads by its name alone, if `target` is relative and stays
    /// below the root.
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

    /// Whether it is `directory` or lies below it, by components.
    #[must_use]
    pub fn is_within(&self, directory: &str) -> bool {
        self.0
            .strip_prefix(directory.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// The items of a map whose paths lie below `directory`: a short walk, however large the map is.
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

/// Whether `name` is a drop-in's file name: one component that ends in `.conf`.
pub fn ensure_drop_in_name(name: &str) -> Result<(), String> {
    if name.contains('/') || name.chars().any(char::is_control) || name.len() > NAME_MAX {
        return Err("the drop-in name is not a file name".into());
    }
    match name.strip_suffix(".conf") {
        Some(stem) if !stem.is_empty() => Ok(()),
        _ => Err("the drop-in name does not end in `.conf`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normal_or_refused() {
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
    fn links_lead_below_the_root_or_nowhere() {
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
    fn drop_in_names() {
        assert!(ensure_drop_in_name("10-x.conf").is_ok());
        for bad in [".conf", "x", "a/b.conf"] {
            assert!(ensure_drop_in_name(bad).is_err(), "{bad}");
        }
    }
}

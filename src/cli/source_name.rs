//! Parser of `--source`: `kube` or `dir:PATH`.

use std::path::PathBuf;
use std::str::FromStr;

/// Source of the desired config that the daemon follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SourceName {
    Kube,
    Directory(PathBuf),
}

impl std::fmt::Display for SourceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kube => f.write_str("kube"),
            Self::Directory(path) => write!(f, "dir:{}", path.display()),
        }
    }
}

impl FromStr for SourceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "kube" => Ok(Self::Kube),
            Some(("dir", path)) if !path.is_empty() => Ok(Self::Directory(path.into())),
            _ => Err("expected `kube` or `dir:PATH`".to_owned()),
        }
    }
}

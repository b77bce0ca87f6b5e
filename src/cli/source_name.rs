//! The source of the desired config, as an operator spells it.

use std::path::PathBuf;
use std::str::FromStr;

/// The source of the desired config: `kube` or `dir:PATH`.
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
            _ => Err("name it as `kube` or as `dir:PATH`".to_owned()),
        }
    }
}

//! What distributions call things, and how they install them.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::invocation;

/// How a missing requirement shows.
#[derive(Debug, Clone, Copy)]
pub enum Probe {
    /// An executable file of this name.
    Program(&'static str),
    /// A library that pkg-config, which the build asks as well, knows by this name.
    Library(&'static str),
}

/// One thing that building or testing needs from the distribution.
#[derive(Debug)]
pub struct Requirement {
    pub probe: Probe,
    pub debian: &'static str,
    pub fedora: &'static str,
    pub purpose: &'static str,
}

/// A family of distributions that share package names and an installer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Debian,
    Fedora,
}

impl Family {
    /// Reads the family from the text of os-release(5).
    ///
    /// # Errors
    /// The distribution is neither of Debian's nor of Fedora's family.
    pub fn parse(os_release: &str) -> Result<Self> {
        let value = |key: &str| {
            let line = os_release.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.trim().trim_matches(['"', '\'']))
        };
        let id = value("ID=").unwrap_or_default();
        let like = value("ID_LIKE=").unwrap_or_default();
        for name in std::iter::once(id).chain(like.split_whitespace()) {
            match name {
                "debian" | "ubuntu" => return Ok(Self::Debian),
                "fedora" | "rhel" | "centos" => return Ok(Self::Fedora),
                _ => {}
            }
        }
        bail!("package names are known for Debian and Fedora, and what descends from them; this is `{id}`")
    }

    /// The family of the running system.
    ///
    /// # Errors
    /// As for [`Family::parse`], or os-release cannot be read.
    pub fn load() -> Result<Self> {
        let path = "/etc/os-release";
        Self::parse(&std::fs::read_to_string(path).with_context(|| format!("reading {path}"))?)
    }

    /// What this family calls the package.
    pub fn package(self, requirement: &Requirement) -> &'static str {
        match self {
            Self::Debian => requirement.debian,
            Self::Fedora => requirement.fedora,
        }
    }

    /// The commands that install `packages`, in order.
    pub fn installation(self, packages: &[&str]) -> Vec<Command> {
        let words: &[&[&str]] = match self {
            Self::Debian => &[
                &["apt-get", "update"],
                &[
                    "env",
                    "DEBIAN_FRONTEND=noninteractive",
                    "apt-get",
                    "install",
                    "--yes",
                    "--no-install-recommends",
                ],
            ],
            Self::Fedora => &[&["dnf", "install", "--assumeyes", "--setopt=install_weak_deps=False"]],
        };
        let mut commands: Vec<_> = words.iter().filter_map(|words| from_words(words)).collect();
        if let Some(install) = commands.last_mut() {
            install.args(packages);
        }
        commands
    }
}

fn from_words(words: &[&str]) -> Option<Command> {
    let (program, arguments) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments);
    Some(command)
}

/// The commands, one indented line each, for somebody to type.
pub fn listing(commands: &[Command], prefix: &str) -> String {
    let lines = commands.iter().map(|command| format!("  {prefix}{}", invocation::shown(command)));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_is_the_id_or_what_it_is_like() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12\"\nVERSION_ID=\"12\"\nID=debian\n";
        assert_eq!(Family::parse(debian).unwrap(), Family::Debian);
        let mint = "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n";
        assert_eq!(Family::parse(mint).unwrap(), Family::Debian);
        let centos = "ID=\"centos\"\nID_LIKE=\"rhel fedora\"\n";
        assert_eq!(Family::parse(centos).unwrap(), Family::Fedora);
        let error = Family::parse("ID=arch\n").unwrap_err();
        assert!(error.to_string().contains("`arch`"));
    }

    #[test]
    fn apt_is_updated_first_and_asks_nothing() {
        assert_eq!(
            listing(&Family::Debian.installation(&["skopeo", "strace"]), "sudo "),
            "  sudo apt-get update\n  sudo env DEBIAN_FRONTEND=noninteractive \
             apt-get install --yes --no-install-recommends skopeo strace"
        );
    }

    #[test]
    fn dnf_asks_nothing() {
        assert_eq!(
            listing(&Family::Fedora.installation(&["ostree-devel"]), ""),
            "  dnf install --assumeyes --setopt=install_weak_deps=False ostree-devel"
        );
    }
}

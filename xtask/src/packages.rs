//! Package names and installation commands of distributions.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::invocation;

/// The evidence that a requirement is installed.
#[derive(Debug, Clone, Copy)]
pub enum RequirementProbe {
    /// An executable file of this name.
    Program(&'static str),
    /// A file at this path.
    File(&'static str),
    /// A library that pkg-config knows by this name, as the build scripts look for it.
    Library(&'static str),
}

/// A program or library from the distribution that a build or test needs.
#[derive(Debug)]
pub struct PackageRequirement {
    pub probe: RequirementProbe,
    pub debian: &'static str,
    pub fedora: &'static str,
    pub purpose: &'static str,
}

/// A family of distributions that share package names and an installer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageFamily {
    Debian,
    Fedora,
}

impl PackageFamily {
    /// Determine the family from the text of os-release(5).
    ///
    /// # Errors
    /// The distribution belongs neither to Debian's nor to Fedora's family.
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
        bail!("package names are known for Debian, Fedora and their derivatives; os-release has ID `{id}`")
    }

    /// Determine the family of the running system.
    ///
    /// # Errors
    /// As for [`PackageFamily::parse`], or os-release cannot be read.
    pub fn load() -> Result<Self> {
        let path = "/etc/os-release";
        Self::parse(&std::fs::read_to_string(path).with_context(|| format!("reading {path}"))?)
    }

    /// The package's name in this family.
    pub fn package(self, requirement: &PackageRequirement) -> &'static str {
        match self {
            Self::Debian => requirement.debian,
            Self::Fedora => requirement.fedora,
        }
    }

    /// Return the commands that install `packages`, in order.
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

/// Render the commands as indented lines, to be copied into a shell.
pub fn listing(commands: &[Command], prefix: &str) -> String {
    let lines = commands.iter().map(|command| format!("  {prefix}{}", invocation::shown(command)));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_is_taken_from_id_or_id_like() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12\"\nVERSION_ID=\"12\"\nID=debian\n";
        assert_eq!(PackageFamily::parse(debian).unwrap(), PackageFamily::Debian);
        let mint = "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n";
        assert_eq!(PackageFamily::parse(mint).unwrap(), PackageFamily::Debian);
        let centos = "ID=\"centos\"\nID_LIKE=\"rhel fedora\"\n";
        assert_eq!(PackageFamily::parse(centos).unwrap(), PackageFamily::Fedora);
        let error = PackageFamily::parse("ID=arch\n").unwrap_err();
        assert!(error.to_string().contains("`arch`"));
    }

    #[test]
    fn apt_updates_first_and_asks_no_question() {
        assert_eq!(
            listing(&PackageFamily::Debian.installation(&["skopeo", "strace"]), "sudo "),
            "  sudo apt-get update\n  sudo env DEBIAN_FRONTEND=noninteractive \
             apt-get install --yes --no-install-recommends skopeo strace"
        );
    }

    #[test]
    fn dnf_asks_no_question() {
        assert_eq!(
            listing(&PackageFamily::Fedora.installation(&["ostree-devel"]), ""),
            "  dnf install --assumeyes --setopt=install_weak_deps=False ostree-devel"
        );
    }
}

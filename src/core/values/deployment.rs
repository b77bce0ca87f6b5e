//! The identity of a deployment in an OSTree sysroot.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Stateroot, commit and serial of a deployment. OSTree reuses serials after a cleanup, so the identity is
/// unique only among the deployments that exist now.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeploymentId {
    /// The stateroot ("osname"); its deployments share one `/var`.
    pub stateroot: String,
    /// The checksum of the OSTree commit, 64 hexadecimal digits.
    pub commit: String,
    /// Distinguishes deployments of the same commit.
    pub serial: u32,
}

impl DeploymentId {
    /// The deployment's root directory, relative to the sysroot.
    #[must_use]
    pub fn path(&self) -> String {
        let Self { stateroot, commit, serial } = self;
        format!("ostree/deploy/{stateroot}/deploy/{commit}.{serial}")
    }
}

impl fmt::Display for DeploymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{}", self.stateroot, self.commit, self.serial)
    }
}

impl DeploymentId {
    /// Parse the name of a deployment's directory, `COMMIT.SERIAL`; `None` for any other name, such as an
    /// origin file's.
    #[must_use]
    pub fn from_directory(stateroot: &str, directory: &str) -> Option<Self> {
        let (commit, serial) = directory.rsplit_once('.')?;
        let is_commit = commit.len() == 64 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        let serial = serial.parse().ok().filter(|_| is_commit)?;
        Some(Self { stateroot: stateroot.to_owned(), commit: commit.to_owned(), serial })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployment_directory_name_parses_to_its_identity() {
        let commit = "0".repeat(64);
        let id = DeploymentId { stateroot: "os".into(), commit: commit.clone(), serial: 3 };
        assert_eq!(DeploymentId::from_directory("os", &format!("{commit}.3")), Some(id.clone()));
        assert_eq!(id.path(), format!("ostree/deploy/os/deploy/{commit}.3"));
        for other in [format!("{commit}.3.origin"), commit.clone(), "x.1".into(), format!("{commit}.-1")] {
            assert_eq!(DeploymentId::from_directory("os", &other), None, "{other}");
        }
    }
}

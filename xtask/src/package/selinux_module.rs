//! The compiled SELinux module, for a package of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::invocation;
use crate::project_tree::ProjectTree;

/// Makefile of the development files of the distribution's policy, which compiles modules for it.
pub const MAKEFILE: &str = "/usr/share/selinux/devel/Makefile";
/// Sources of the module in the repository.
const SOURCES: [&str; 3] = ["flameholder.te", "flameholder.fc", "flameholder.if"];

/// Compile the module for the policy of this distribution.
///
/// # Errors
/// A source cannot be copied, or the module does not compile.
pub(super) fn build(tree: &ProjectTree, scratch: &Path) -> Result<PathBuf> {
    let folder = scratch.join("selinux");
    fs::create_dir(&folder).with_context(|| format!("creating {}", folder.display()))?;
    for name in SOURCES {
        let source = tree.root().join("selinux").join(name);
        fs::copy(&source, folder.join(name)).with_context(|| format!("copying {}", source.display()))?;
    }
    let mut make = Command::new("make");
    make.args(["--quiet", "--makefile", MAKEFILE, "flameholder.pp"]).current_dir(&folder);
    invocation::run(&mut make)?;
    Ok(folder.join("flameholder.pp"))
}

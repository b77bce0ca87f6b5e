//! Checks of packages without a host: installed into an empty root, and read by the distributions' own critics.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::{DESCRIPTIONS, SUMS, system_extension};
use crate::invocation;
use crate::project_tree::ProjectTree;

/// Files that each package brings, relative to the root.
const BROUGHT: [&str; 8] = [
    "usr/bin/flameholder",
    "usr/libexec/flameholder/flameholder-ostree",
    "usr/lib/systemd/system/flameholder-daemon.service",
    "usr/lib/systemd/system/ostree-finalize-staged.service.d/50-flameholder.conf",
    "usr/share/man/man8/flameholder-plan.8.gz",
    "usr/share/licenses/flameholder/LICENSE.dependencies",
    "usr/share/doc/flameholder/runbook.md",
    "usr/share/flameholder/monitoring/rules.yaml",
];

/// Verify the packages with these names in a directory.
pub(super) fn verify(tree: &ProjectTree, directory: &Path, names: &[String]) -> Result<()> {
    let find = |ending: &str| {
        let found: Vec<_> =
            names.iter().filter(|name| name.ends_with(ending)).map(|name| directory.join(name)).collect();
        ensure!(!found.is_empty(), "no {ending} was built");
        Ok(found)
    };
    let (debs, rpms) = (find(".deb")?, find(".rpm")?);
    for image in find(".raw")? {
        system_extension::verify(&image)?;
    }
    invocation::run(Command::new("sha256sum").args(["--check", "--quiet", SUMS]).current_dir(directory))?;
    invocation::run(
        Command::new("lintian").args(["--fail-on", "error,warning", "--allow-root"]).args(&debs),
    )?;
    let settings = tree.root().join(DESCRIPTIONS).join("rpm/rpmlint.toml");
    invocation::run(Command::new("rpmlint").arg("--strict").arg("--config").arg(settings).args(&rpms))?;
    check_scripts(tree, &rpms)?;

    let scratch = tempfile::tempdir().context("making a directory for a root")?;
    let roots = ["deb", "rpm"].map(|name| scratch.path().join(name));
    let [deb_root, rpm_root] = &roots;
    fs::create_dir_all(deb_root.join("var/lib/dpkg/updates"))?;
    fs::create_dir_all(rpm_root)?;
    fs::write(deb_root.join("var/lib/dpkg/status"), "")?;
    // Without the configuration, which would run a script on this machine.
    let mut unpack = Command::new("dpkg");
    unpack.arg("--root").arg(deb_root).args(["--force-depends", "--unpack"]).args(&debs);
    invocation::run(unpack.stdout(Stdio::null()))?;
    let mut install = Command::new("rpm");
    install.arg("--root").arg(rpm_root).args(["--nodeps", "--noscripts", "--install"]).args(&rpms);
    invocation::run(&mut install)?;
    for root in &roots {
        for path in BROUGHT {
            ensure!(root.join(path).is_file(), "{} is missing in {}", path, root.display());
        }
    }
    // Nothing is left: an OS image would keep it for ever.
    let mut erase = Command::new("rpm");
    erase.arg("--root").arg(rpm_root).args([
        "--nodeps",
        "--noscripts",
        "--erase",
        "flameholder",
        "flameholder-monitoring",
        "flameholder-selinux",
    ]);
    invocation::run(&mut erase)?;
    let left: BTreeSet<_> = BROUGHT.iter().filter(|path| rpm_root.join(path).exists()).collect();
    ensure!(left.is_empty(), "the removal of the package leaves {left:?}");
    Ok(())
}

/// Let shellcheck read the scripts of the packages.
fn check_scripts(tree: &ProjectTree, rpms: &[PathBuf]) -> Result<()> {
    let folder = tree.root().join(DESCRIPTIONS).join("debian");
    invocation::run(Command::new("shellcheck").args(super::SCRIPTS.map(|name| folder.join(name))))?;
    let scratch = tempfile::tempdir().context("making a scratch directory")?;
    for rpm in rpms {
        for tag in ["POSTIN", "PREUN", "POSTUN"] {
            let format = format!("%|{tag}?{{%{{{tag}}}}}|");
            let mut query = Command::new("rpm");
            query.args(["--query", "--queryformat", &format, "--package"]).arg(rpm);
            let path = scratch.path().join(tag);
            fs::write(&path, format!("#!/bin/sh\n{}\n", invocation::read(&mut query)?))?;
            invocation::run(Command::new("shellcheck").arg(path))?;
        }
    }
    Ok(())
}

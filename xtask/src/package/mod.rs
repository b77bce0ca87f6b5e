//! `cargo xtask package`: packages of Debian and Fedora and a system extension from the tree of `cargo xtask install`, with the
//! licenses of the linked crates, a bill of materials and check sums.
//!
//! dpkg and rpmbuild pack the tree as it is. cargo-deb and cargo-generate-rpm would need another list of the files.

mod bill_of_materials;
mod dependency_licenses;
mod linked_crates;
mod selinux_module;
mod system_extension;
mod verification;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;
use sha2::{Digest as _, Sha256};

use self::linked_crates::LinkedCrate;
pub use self::selinux_module::MAKEFILE as SELINUX_MAKEFILE;
use crate::consent::InstallConsent;
use crate::install::{self, InstallArgs};
use crate::project_tree::{ProjectTree, TlsLibrary};
use crate::setup;
use crate::{folder, invocation};

/// Version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Folder of the packages' descriptions and scripts in the repository.
const DESCRIPTIONS: &str = "packaging";
/// File with the check sums of the others.
const SUMS: &str = "SHA256SUMS";
/// Scripts that dpkg runs.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// Files that a Debian package has no use for: units are not enabled by presets there.
const NOT_ON_DEBIAN: [&str; 2] =
    ["usr/lib/systemd/system-preset", "usr/share/licenses/flameholder/LICENSE-APACHE"];

#[derive(Debug, Args)]
pub struct PackageArgs {
    /// Directory for the packages; created if it does not exist.
    #[arg(long, value_name = "DIR", default_value = "target/package")]
    pub output: PathBuf,
    /// Library that speaks TLS in the executables: packages take the host's.
    #[arg(long, value_enum, default_value = "openssl")]
    pub tls: TlsLibrary,
    /// Take the executables of the last release build as they are.
    #[arg(long, conflicts_with = "tls")]
    pub no_build: bool,
    /// Check the packages as far as that is possible without a host: an empty root, lintian, rpmlint and shellcheck.
    #[arg(long)]
    pub check: bool,
}

/// Build the packages.
///
/// # Errors
/// A program is missing, or fails.
pub fn run(tree: &ProjectTree, consent: InstallConsent, args: &PackageArgs) -> Result<()> {
    setup::ensure_packaging_installed(consent)?;
    build(tree, consent, args)?;
    let names = folder::names(&args.output)?;
    if args.check {
        verification::verify(tree, &args.output, &names)?;
    }
    for name in names {
        println!("{}", args.output.join(name).display());
    }
    Ok(())
}

/// Build the packages of the last release build in a temporary directory, and check them.
///
/// # Errors
/// A package cannot be built, or has a fault.
pub fn check(tree: &ProjectTree, consent: InstallConsent) -> Result<()> {
    let output = tempfile::tempdir().context("making a directory for packages")?;
    let args = PackageArgs { output: output.path().to_owned(), tls: tree.tls(), no_build: true, check: true };
    run(tree, consent, &args)
}

/// Build the packages of the last release build below the target directory, and return their directory.
///
/// # Errors
/// A package cannot be built.
pub fn build_for_tests(tree: &ProjectTree, consent: InstallConsent) -> Result<PathBuf> {
    let output = tree.target().join("vm/packages");
    folder::remove(&output)?;
    let args = PackageArgs { output: output.clone(), tls: tree.tls(), no_build: true, check: false };
    run(tree, consent, &args)?;
    Ok(output)
}

fn build(tree: &ProjectTree, consent: InstallConsent, args: &PackageArgs) -> Result<()> {
    let output = &args.output;
    fs::create_dir_all(output).with_context(|| format!("creating {}", output.display()))?;
    let scratch = tempfile::tempdir().context("making a scratch directory")?;
    let laid_out = scratch.path().join("tree");
    install::run(tree, consent, &InstallArgs::below(&laid_out, args.tls, args.no_build))?;
    let crates = linked_crates::list(tree)?;
    let licenses = laid_out.join("usr/share/licenses/flameholder/LICENSE.dependencies");
    install::replace(&licenses, dependency_licenses::render(&crates)?.as_bytes(), 0o644)?;
    let bill = output.join(format!("flameholder-{VERSION}.cdx.json"));
    install::replace(&bill, bill_of_materials::render(&crates)?.as_bytes(), 0o644)?;
    build_rpm(tree, &laid_out, scratch.path(), output)?;
    system_extension::build(&laid_out, scratch.path(), output)?;
    build_deb(tree, &laid_out, output)?;
    let sums = sums(output)?;
    install::replace(&output.join(SUMS), sums.as_bytes(), 0o644)
}

fn build_rpm(tree: &ProjectTree, laid_out: &Path, scratch: &Path, output: &Path) -> Result<()> {
    let module = selinux_module::build(tree, scratch)?;
    let define = |name: &str, value: &str| ["--define".to_owned(), format!("{name} {value}")];
    let mut rpmbuild = Command::new("rpmbuild");
    rpmbuild.args(["-bb", "--quiet"]);
    rpmbuild.args(define("_topdir", &scratch.join("rpmbuild").display().to_string()));
    rpmbuild.args(define("_rpmdir", &output.display().to_string()));
    rpmbuild.args(define("_build_name_fmt", "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm"));
    rpmbuild.args(define("version_", VERSION)).args(define("tree", &laid_out.display().to_string()));
    rpmbuild.args(define("selinux_module", &module.display().to_string()));
    invocation::run(rpmbuild.arg(tree.root().join(DESCRIPTIONS).join("rpm/flameholder.spec")))
}

/// Pack the tree as a Debian package. Changes the tree.
fn build_deb(tree: &ProjectTree, laid_out: &Path, output: &Path) -> Result<()> {
    for path in NOT_ON_DEBIAN {
        let path = laid_out.join(path);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("removing {}", path.display()))?;
    }
    let share = laid_out.join("usr/share");
    fs::rename(share.join("zsh/site-functions"), share.join("zsh/vendor-completions"))
        .context("moving the completion for zsh")?;
    let description = tree.root().join(DESCRIPTIONS).join("debian");
    let read = |name: &str| {
        let path = description.join(name);
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let architecture = invocation::read(Command::new("dpkg").arg("--print-architecture"))?;
    // The time that the environment names, so that the same sources give the same package.
    let time =
        std::env::var("SOURCE_DATE_EPOCH").map_or_else(|_| "now".to_owned(), |time| format!("@{time}"));
    let date = invocation::read(Command::new("date").args(["--utc", "--rfc-email", "--date", &time]))?;
    let documentation = share.join("doc/flameholder");
    let license = fs::read_to_string(tree.root().join("LICENSE-MIT"))?;
    let copyright = read("copyright")?.replace("@MIT@", &as_field(&license));
    install::replace(&documentation.join("copyright"), copyright.as_bytes(), 0o644)?;
    let changelog = read("changelog")?.replace("@VERSION@", VERSION).replace("@DATE@", date.trim());
    install::replace(
        &documentation.join("changelog.gz"),
        &install::compressed(changelog.as_bytes())?,
        0o644,
    )?;
    let overrides = read("lintian-overrides")?;
    install::replace(&share.join("lintian/overrides/flameholder"), overrides.as_bytes(), 0o644)?;

    let control = read("control")?
        .replace("@VERSION@", VERSION)
        .replace("@ARCHITECTURE@", architecture.trim())
        .replace("@SIZE@", &kibibytes(laid_out)?)
        .replace("@LIBRARIES@", &libraries(laid_out)?);
    install::replace(&laid_out.join("DEBIAN/control"), control.as_bytes(), 0o644)?;
    for name in SCRIPTS {
        install::replace(&laid_out.join("DEBIAN").join(name), read(name)?.as_bytes(), 0o755)?;
    }
    let name = format!("flameholder_{VERSION}_{}.deb", architecture.trim());
    let mut deb = Command::new("dpkg-deb");
    deb.args(["--root-owner-group", "-Zxz", "--build"]).arg(laid_out).arg(output.join(name));
    invocation::run(deb.stdout(std::process::Stdio::null()))
}

/// Ask for the packages of the libraries that the executables link.
fn libraries(laid_out: &Path) -> Result<String> {
    let scratch = tempfile::tempdir().context("making a scratch directory")?;
    // It looks for a source package in its directory.
    install::replace(
        &scratch.path().join("debian/control"),
        b"Source: flameholder\n\nPackage: flameholder\nArchitecture: any\n",
        0o644,
    )?;
    let mut asked = Command::new("dpkg-shlibdeps");
    asked.current_dir(scratch.path()).arg("-O");
    for path in ["usr/bin/flameholder", "usr/libexec/flameholder/flameholder-ostree"] {
        asked.arg(laid_out.join(path));
    }
    let answer = invocation::read(&mut asked)?;
    let list = answer.trim().strip_prefix("shlibs:Depends=").context("dpkg-shlibdeps names no libraries")?;
    Ok(list.to_owned())
}

fn kibibytes(directory: &Path) -> Result<String> {
    let size = invocation::read(Command::new("du").args(["--summarize", "--block-size=1K"]).arg(directory))?;
    Ok(size.split_whitespace().next().unwrap_or_default().to_owned())
}

/// Format a text as the continuation of a field of deb822.
fn as_field(text: &str) -> String {
    let lines = text.lines().map(|line| if line.is_empty() { " .".to_owned() } else { format!(" {line}") });
    lines.collect::<Vec<_>>().join("\n")
}

fn sums(directory: &Path) -> Result<String> {
    let mut text = String::new();
    for name in folder::names(directory)?.iter().filter(|name| *name != SUMS) {
        let bytes = fs::read(directory.join(name)).with_context(|| format!("reading {name}"))?;
        writeln!(text, "{:x}  {name}", Sha256::digest(bytes))?;
    }
    Ok(text)
}

/// Return name and version of a crate.
fn named(linked: &LinkedCrate) -> String {
    format!("{} {}", linked.name, linked.version)
}

//! `osimage`: create small OSTree hosts and OS images for experiments.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Parser};
use osimage::{Os, Release, SysrootBuilder};

/// Create small OSTree hosts and OS images for experiments. Generated operating systems do not boot.
#[derive(Debug, Parser)]
enum Command {
    /// Write an image labelled bootable to an OCI layout and print the digest of its manifest.
    Image {
        #[command(flatten)]
        os: OsArgs,
        /// OCI layout; created if it does not exist.
        #[arg(long, value_name = "oci:DIR[:TAG]")]
        output: String,
    },
    /// Write an image of an existing tree, in the layout of OSTree and with a kernel, to an OCI layout.
    Encapsulate(EncapsulateArgs),
    /// Create a sysroot with one deployment, as an installer does on a disk.
    Sysroot(SysrootArgs),
    /// Remove a directory with sysroots, including their immutable deployments.
    Remove {
        /// Directory; need not exist.
        directory: PathBuf,
    },
}

#[derive(Debug, Args)]
struct OsArgs {
    /// Version of the OS: any number. Versions differ in the kernel, `os-release` and `/usr/etc`.
    #[arg(long, value_name = "N")]
    version: u32,
    /// Add a small SELinux policy, sufficient to look up labels.
    #[arg(long)]
    selinux: bool,
    /// Add an RPM database, for packages with the real rpm-ostreed.
    #[arg(long)]
    rpm_database: bool,
}

#[derive(Debug, Args)]
struct EncapsulateArgs {
    /// Root of the tree.
    tree: PathBuf,
    /// Version of the OS: any number.
    #[arg(long, value_name = "N")]
    version: u32,
    /// OCI layout; created if it does not exist.
    #[arg(long, value_name = "oci:DIR[:TAG]")]
    output: String,
}

#[derive(Debug, Args)]
struct SysrootArgs {
    /// Sysroot; created if it does not exist.
    directory: PathBuf,
    #[command(flatten)]
    os: OsArgs,
    /// Kernel argument after `root=LABEL=root rw console=ttyS0`; may be repeated.
    #[arg(long = "karg", value_name = "ARGUMENT")]
    kernel_arguments: Vec<String>,
    /// Image to deploy instead of a generated one, for example `ostree-unverified-image:oci:DIR`.
    #[arg(long, value_name = "REFERENCE")]
    image: Option<String>,
    /// Image reference in the deployment's origin, if it differs from `--image`.
    #[arg(long, value_name = "REFERENCE", requires = "image")]
    origin: Option<String>,
    /// Bootloader whose configuration libostree writes besides the boot entries: a value of
    /// `sysroot.bootloader`.
    #[arg(long, default_value = "none")]
    bootloader: String,
    /// Name of the stateroot.
    #[arg(long, default_value = "fedora-coreos")]
    stateroot: String,
}

impl OsArgs {
    fn os(&self) -> Os {
        let os = Os::new(self.version);
        let os = if self.selinux { os.with_selinux() } else { os };
        if self.rpm_database { os.with_rpm_database() } else { os }
    }
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Image { os, output } => {
            let (directory, tag) = split_output(&output)?;
            println!("{}", osimage::write_image(&os.os(), directory, tag)?);
            Ok(())
        }
        Command::Encapsulate(args) => encapsulate(&args),
        Command::Sysroot(args) => create_sysroot(&args),
        Command::Remove { directory } => osimage::remove(&directory),
    }
}

fn split_output(output: &str) -> anyhow::Result<(&Path, Option<&str>)> {
    let layout = output
        .strip_prefix("oci:")
        .with_context(|| format!("{output:?} is not an OCI layout: expected oci:DIR or oci:DIR:TAG"))?;
    Ok(match layout.split_once(':') {
        Some((directory, tag)) => (Path::new(directory), Some(tag)),
        None => (Path::new(layout), None),
    })
}

/// Write an image of an existing tree. Files that change together share a layer, so that an update fetches
/// little.
fn encapsulate(args: &EncapsulateArgs) -> anyhow::Result<()> {
    let modules = args.tree.join("usr/lib/modules");
    let kernel = std::fs::read_dir(&modules)
        .and_then(|mut entries| entries.next().transpose())
        .with_context(|| format!("listing {}", modules.display()))?
        .with_context(|| format!("{} has no kernel", modules.display()))?;
    let kernel = kernel.file_name().into_string().ok().context("a kernel release is UTF-8")?;
    let layers = [
        (format!("/usr/lib/modules/{kernel}/initramfs.img"), "initramfs"),
        (format!("/usr/lib/modules/{kernel}/vmlinuz"), "kernel"),
        ("/usr/lib/modules/".to_owned(), "modules"),
        ("/usr/bin/flameholder".to_owned(), "flameholder"),
        ("/usr/libexec/flameholder/".to_owned(), "flameholder"),
        ("/usr/lib/systemd/".to_owned(), "systemd"),
        ("/usr/lib/os-".to_owned(), "release"),
        ("/usr/etc/".to_owned(), "configuration"),
        ("/usr/bin/".to_owned(), "programs"),
        ("/".to_owned(), "base"),
    ];
    let release = Release {
        version: args.version.to_string(),
        number: args.version,
        kernel: Some(kernel),
        selinux: args.tree.join("usr/etc/selinux/config").exists(),
        layers: layers.into(),
    };
    let (directory, tag) = split_output(&args.output)?;
    println!("{}", osimage::write_tree_image(&args.tree, &release, directory, tag)?);
    Ok(())
}

fn create_sysroot(args: &SysrootArgs) -> anyhow::Result<()> {
    let mut builder = SysrootBuilder::new(args.os.os()).stateroot(&args.stateroot);
    for argument in &args.kernel_arguments {
        builder = builder.kernel_argument(argument);
    }
    if let Some(image) = &args.image {
        builder = builder.image(image);
    }
    if let Some(origin) = &args.origin {
        builder = builder.origin(origin);
    }
    builder = builder.bootloader(&args.bootloader);
    builder.create(&args.directory)
}

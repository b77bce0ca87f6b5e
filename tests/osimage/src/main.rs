//! `osimage`: makes small OSTree hosts and OS images to try things on.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Parser};
use osimage::{Os, Release, SysrootBuilder};

/// Makes small OSTree hosts and OS images to try things on. Nothing that it generates boots.
#[derive(Debug, Parser)]
enum Command {
    /// Writes a bootable container image into an OCI layout and prints its manifest's digest.
    Image {
        #[command(flatten)]
        os: OsArgs,
        /// Where to; the layout is made where it is missing.
        #[arg(long, value_name = "oci:DIR[:TAG]")]
        output: String,
    },
    /// Writes a tree that is there, laid out for OSTree and with a kernel in it, into an OCI layout as an image.
    Encapsulate(EncapsulateArgs),
    /// Makes a sysroot with one deployment, as an installer leaves it on a disk.
    Sysroot(SysrootArgs),
    /// Removes a directory that holds sysroots, immutable deployments included.
    Remove {
        /// What to remove; it may be missing.
        directory: PathBuf,
    },
}

#[derive(Debug, Args)]
struct OsArgs {
    /// The version of the OS: any number, each is a little different.
    #[arg(long, value_name = "N")]
    version: u32,
    /// Adds a small SELinux policy, enough to look labels up.
    #[arg(long)]
    selinux: bool,
}

#[derive(Debug, Args)]
struct EncapsulateArgs {
    /// The tree.
    tree: PathBuf,
    /// The version of the OS: any number.
    #[arg(long, value_name = "N")]
    version: u32,
    /// Where to; the layout is made where it is missing.
    #[arg(long, value_name = "oci:DIR[:TAG]")]
    output: String,
}

#[derive(Debug, Args)]
struct SysrootArgs {
    /// The sysroot; made where it is missing.
    directory: PathBuf,
    #[command(flatten)]
    os: OsArgs,
    /// A kernel argument to follow `root=LABEL=root rw console=ttyS0`; may be repeated.
    #[arg(long = "karg", value_name = "ARGUMENT")]
    kernel_arguments: Vec<String>,
    /// Deploys this image, for example `ostree-unverified-image:oci:DIR`, instead of a generated one.
    #[arg(long, value_name = "REFERENCE")]
    image: Option<String>,
    /// The reference that the origin names, where that is not where the image is read from.
    #[arg(long, value_name = "REFERENCE", requires = "image")]
    origin: Option<String>,
    /// The bootloader whose configuration is written too, as libostree calls it.
    #[arg(long, default_value = "none")]
    bootloader: String,
    /// The name of the stateroot.
    #[arg(long, default_value = "fedora-coreos")]
    stateroot: String,
}

impl OsArgs {
    fn os(&self) -> Os {
        let os = Os::new(self.version);
        if self.selinux { os.with_selinux() } else { os }
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
    let place = output
        .strip_prefix("oci:")
        .with_context(|| format!("{output:?} is no OCI layout; expected oci:DIR or oci:DIR:TAG"))?;
    Ok(match place.split_once(':') {
        Some((directory, tag)) => (Path::new(directory), Some(tag)),
        None => (Path::new(place), None),
    })
}

/// What changes at different times is in different layers, so that an update fetches little.
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
        selinux: false,
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

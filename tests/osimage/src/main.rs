//! `osimage`: makes small OSTree hosts and OS images to try things on.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Parser};
use osimage::{Os, SysrootBuilder};

/// Makes small OSTree hosts and OS images to try things on. Nothing of it boots.
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

fn create_sysroot(args: &SysrootArgs) -> anyhow::Result<()> {
    let mut builder = SysrootBuilder::new(args.os.os()).stateroot(&args.stateroot);
    for argument in &args.kernel_arguments {
        builder = builder.kernel_argument(argument);
    }
    if let Some(image) = &args.image {
        builder = builder.image(image);
    }
    builder.create(&args.directory)
}

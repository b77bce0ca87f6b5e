//! `vm`: builds the hosts that the scenarios boot, and boots one on this terminal.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser};
use vm::build::{Sources, build, builder, policy, run};
use vm::{Forward, GuestOs, HostOrigin, kola, scenario, story};

/// Build and boot OSTree hosts in QEMU.
#[derive(Debug, Parser)]
enum Command {
    /// Build missing and outdated stages, and print the seconds that each takes.
    Build(SourcesArgs),
    /// Build the Debian tree with registry, skopeo and QEMU, which tests without a virtual machine use as well.
    Builder,
    /// Compile the SELinux modules and link them with the policies of Debian 12 and 13.
    Policy,
    /// Play the demo on a booted host.
    Demo,
    /// Build the guest that kola asks for, and have kola run its tests there.
    Kola {
        #[command(flatten)]
        sources: SourcesArgs,
        /// The executable of kola.
        #[arg(long, value_name = "FILE")]
        kola: PathBuf,
        /// Names of the tests, with `*` for any part.
        pattern: String,
    },
    /// Boot a host on this terminal, on a temporary disk.
    Run {
        #[command(flatten)]
        sources: SourcesArgs,
        /// Version of the OS to boot.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3))]
        os: u32,
        /// Forward a port of this machine's loopback to a port of the guest.
        #[arg(long, value_name = "HERE:GUEST")]
        forward: Vec<Forward>,
    },
}

#[derive(Debug, Args)]
struct SourcesArgs {
    /// Folder with the executables `flameholder` and `flameholder-ostree`.
    #[arg(long, value_name = "DIR", env = "FLAMEHOLDER_BINARIES")]
    binaries: PathBuf,
    /// Path of the `osimage` executable (tests/osimage).
    #[arg(long, value_name = "FILE")]
    osimage: PathBuf,
    /// Build the host with SELinux enforcing.
    #[arg(long)]
    selinux: bool,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn main() -> Result<ExitCode> {
    let done = match Command::parse() {
        Command::Build(args) => build(&args.sources(), args.os()).map(drop),
        Command::Builder => builder().map(drop),
        Command::Policy => policy::check(&repository()),
        Command::Demo => scenario(HostOrigin::Fresh, story::tell),
        Command::Kola { sources, kola, pattern } => {
            let status = kola::run(&sources.sources(), &kola, &pattern)?;
            return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Run { sources, os, forward } => run(&sources.sources(), sources.os(), os, &forward),
    };
    done.map(|()| ExitCode::SUCCESS)
}

impl SourcesArgs {
    fn sources(&self) -> Sources {
        let (binaries, osimage) = (self.binaries.clone(), self.osimage.clone());
        Sources { repository: repository(), binaries, osimage }
    }

    fn os(&self) -> GuestOs {
        if self.selinux { GuestOs::Selinux } else { GuestOs::Plain }
    }
}

//! `vm`: builds the hosts that the scenarios boot, and boots one for somebody to look around.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Parser};
use vm::Forward;
use vm::build::{Sources, build, run};

/// Builds and boots OSTree hosts in QEMU.
#[derive(Debug, Parser)]
enum Command {
    /// Makes whatever is missing or out of date, and prints how long each stage took.
    Build(SourcesArgs),
    /// Boots a host on this terminal, on a disk that is thrown away afterwards.
    Run {
        #[command(flatten)]
        sources: SourcesArgs,
        /// The version of the OS that it boots.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3))]
        os: u32,
        /// A port on loopback that leads to one of the guest's, which is given after a colon.
        #[arg(long, value_name = "HERE:GUEST")]
        forward: Vec<Forward>,
    },
}

#[derive(Debug, Args)]
struct SourcesArgs {
    /// The folder of `flameholder` and `flameholder-ostree`.
    #[arg(long, value_name = "DIR", env = "FLAMEHOLDER_BINARIES")]
    binaries: PathBuf,
    /// The executable of tests/osimage.
    #[arg(long, value_name = "FILE")]
    osimage: PathBuf,
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Build(args) => build(&args.sources()).map(drop),
        Command::Run { sources, os, forward } => run(&sources.sources(), os, &forward),
    }
}

impl SourcesArgs {
    fn sources(self) -> Sources {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Sources { repository, binaries: self.binaries, osimage: self.osimage }
    }
}

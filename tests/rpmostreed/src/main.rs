//! The stand-in as a program, for a host that has a system bus.

use clap::Parser as _;
use nix::mount::MsFlags;
use nix::sched::CloneFlags;

fn main() -> anyhow::Result<()> {
    let options = rpmostreed::Options::parse();
    // libostree makes /sysroot writable where nobody else sees it; before there are threads.
    nix::sched::unshare(CloneFlags::CLONE_NEWNS)?;
    nix::mount::mount(None::<&str>, "/", None::<&str>, MsFlags::MS_SLAVE | MsFlags::MS_REC, None::<&str>)?;
    rpmostreed::serve(&options)
}

//! Program of the stand-in, for a host with a system bus.

use clap::Parser as _;
use nix::mount::MsFlags;
use nix::sched::CloneFlags;

fn main() -> anyhow::Result<()> {
    let options = rpmostreed::Options::parse();
    // libostree remounts /sysroot writable, which must stay invisible outside; unshare before threads are
    // started.
    nix::sched::unshare(CloneFlags::CLONE_NEWNS)?;
    nix::mount::mount(None::<&str>, "/", None::<&str>, MsFlags::MS_SLAVE | MsFlags::MS_REC, None::<&str>)?;
    rpmostreed::serve(&options)
}

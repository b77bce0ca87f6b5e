//! `flameholder-ostree`: changes OSTree sysroots on behalf of `flameholder`, which never links libostree.
//!
//! It lives for one transaction, speaks [`flameholder::os::protocol`] on its standard input and output, and ends when its
//! input does. It is a program of its own because libostree costs an idle daemon memory, sets the SELinux policy of a new
//! deployment for the whole process, and has types that stay on one thread.

mod classify;
mod deploy;
mod deployments;
mod etc;
mod import;
mod options;
mod packages;
mod session;
mod stage;
mod unpack;
mod wire;

use std::process::ExitCode;

use anyhow::Context as _;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flameholder-ostree: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    stage::enter_mount_namespace()?;
    let wire = wire::WorkerPipe::take_over_stdio().context("taking over standard output")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the event loop")?;
    let outcome = runtime.block_on(session::serve(wire));
    // An import that was cut off may still unpack on a thread of its own; nothing waits for what it does.
    runtime.shutdown_background();
    outcome
}

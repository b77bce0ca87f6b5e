//! `flameholder-ostree`: worker that reads and changes OSTree sysroots for `flameholder`, which does not link
//! libostree.
//!
//! A worker serves one session: it speaks [`flameholder::os::protocol`] on standard input and output, and
//! exits at the end of its input. It is a program of its own because libostree would cost the idle daemon
//! memory, sets the SELinux policy of a new deployment for the whole process, and has types that are bound to
//! one thread.
//!
//! Started with the argument `relay-image-proxy`, by itself, it is the process between an import and skopeo: see
//! [`read_ahead`].

mod boot_entry_options;
mod deploy;
mod deployments;
mod error_classes;
mod etc;
mod import;
mod packages;
mod plain_images;
mod probe_image;
mod proxy_socket;
mod read_ahead;
mod session;
mod signature_policy;
mod stage;
mod stall;
mod wire;

use std::process::ExitCode;

use anyhow::Context as _;

/// `EX_USAGE`: the command line is wrong.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((word, rest)) if word == read_ahead::RELAY => read_ahead::relay::run(rest),
        Some(_) => {
            eprintln!(
                "flameholder-ostree is called by flameholder alone and has no options; see flameholder(8)"
            );
            return ExitCode::from(USAGE);
        }
        _ => run().map(|()| ExitCode::SUCCESS),
    };
    match outcome {
        Ok(code) => code,
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
    // The unpacking thread of an interrupted import may still run: do not wait for it.
    runtime.shutdown_background();
    outcome
}

//! `flameholder activate`

use std::path::Path;

use clap::Args;

use crate::cli::output::terminal::{print_text, say};
use crate::cli::session::session_of;
use crate::cli::systemd::reboot::reboot_at_once;
use crate::cli::{CliError, Place, Verdict};
use crate::core::state::booted_state::BootedState;
use crate::host::facts::booted::BootedDeployment;
use crate::host::mount_namespace::MountNamespace;
use crate::host::{HostError, Root};
use crate::os::protocol::Access;
use crate::os::worker::{WorkerProgram, WorkerSession};
use crate::transaction::TransactionError;
use crate::transaction::boot::activate;
use crate::transaction::boot::activate::Activated;
use crate::transaction::boot::early_boot;
use crate::transaction::boot::early_boot::Arrival;
use crate::transaction::state::login_message;

#[derive(Debug, Args)]
pub(crate) struct ActivateArgs {
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: &ActivateArgs) -> Result<Verdict, CliError> {
    let activated = match &args.place.sysroot {
        Some(sysroot) => {
            let mut session = WorkerSession::open(&WorkerProgram::locate()?, sysroot, Access::Write)?;
            activate::activate_next(&mut session, sysroot)?
        }
        None => match (&args.place.root, BootedDeployment::look()?) {
            (None, Some(booted)) => return on_boot(&booted),
            (root, _) => activate::activate(&Root::open(root.as_deref().unwrap_or(Path::new("/")))?)?,
        },
    };
    print_text(&summary(&activated))?;
    Ok(Verdict::Fine)
}

/// Early in the boot of an OSTree host.
fn on_boot(booted: &BootedDeployment) -> Result<Verdict, CliError> {
    // Found first: in another namespace the kernel may not know the way to this executable.
    let worker = WorkerProgram::locate();
    let namespace = MountNamespace::enter().map_err(TransactionError::from)?;
    let arrival = match early_boot::arrive(booted, &namespace) {
        // In a boot this comes first. Later it is pulled in by whoever needs it, a kubelet that is started again, and must
        // not keep that from running.
        Err(TransactionError::Host(error @ HostError::Locked { .. })) => {
            say(&format!("{error}: nothing is left to be activated in this boot"));
            return Ok(Verdict::Fine);
        }
        arrival => arrival?,
    };
    login_message::refresh(&Root::open(Path::new("/"))?);
    match arrival {
        Arrival::Unmanaged => print_text("nothing here was applied by flameholder\n")?,
        Arrival::Active { standing, activated, carried } => {
            print_text(&(standing_line(standing, carried) + &summary(&activated)))?;
        }
        Arrival::Rebound { generation } => {
            say(&format!("generation {generation} had booted without its configuration; it has it now"));
            return reboot_at_once(&format!("generation {generation} is complete only now"));
        }
        Arrival::Leave { pending, reason } => {
            let generation = pending.generation();
            say(&format!("generation {generation} is left, and held: {reason}"));
            let worker = worker?;
            early_boot::leave(&mut |access| session_of(&worker, access), &pending, &reason)?;
            return reboot_at_once(&format!("generation {generation} is left"));
        }
    }
    Ok(Verdict::Fine)
}

fn standing_line(standing: BootedState, carried: usize) -> String {
    let foreign = match standing {
        BootedState::Complete => "",
        _ => "this deployment was not made by flameholder; its /etc was merged from a generation\n",
    };
    let carried = match carried {
        0 => String::new(),
        number => format!("{number} paths are carried over from the deployment that ran before\n"),
    };
    format!("{foreign}{carried}")
}

fn summary(activated: &Activated) -> String {
    let Activated { generation, changed } = activated;
    if *changed {
        format!("what lies outside /etc is now as generation {generation} has it\n")
    } else {
        format!("what lies outside /etc is as generation {generation} has it: nothing to do\n")
    }
}

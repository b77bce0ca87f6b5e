//! `--os-backend`: the program that changes OS image and packages of the running host, libostree or
//! rpm-ostreed.

use std::path::Path;

use clap::{Args, ValueEnum};

use crate::host::interrupt_signals::InterruptSignals;
use crate::os::backend::OsBackend;
use crate::os::protocol::SysrootAccess;
use crate::os::rpm_ostree::{RpmOstreeDeadlines, RpmOstreeSession};
use crate::os::worker::WorkerProgram;
use crate::os::{Sysroot, backend, sysroot_lock};
use crate::transaction::TransactionError;

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OsBackendArgs {
    /// Program that changes OS image and packages of the running host
    #[arg(long = "os-backend", value_enum, default_value_t, value_name = "WHO")]
    who: Who,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Who {
    /// rpm-ostreed if the host has it, else libostree
    #[default]
    Auto,
    /// libostree alone: layered packages and overrides stay as they are
    Libostree,
    /// rpm-ostreed for image, packages and overrides; libostree for the rest
    RpmOstree,
}

impl OsBackendArgs {
    /// Return the option as command-line arguments, for a child process.
    pub(crate) fn arguments(self) -> [String; 2] {
        let who = self.who.to_possible_value().expect("no value is skipped");
        ["--os-backend".to_owned(), who.get_name().to_owned()]
    }

    /// Return the function that opens sessions on the running sysroot. Must be called while the process has
    /// one thread: signals are blocked for an rpm-ostreed transaction in every thread that is started later.
    pub(crate) fn opener(self) -> impl FnMut(SysrootAccess) -> Result<Box<dyn Sysroot>, TransactionError> {
        // Before the probe, which may start threads of the D-Bus client.
        let interrupt = (self.who != Who::Libostree).then(InterruptSignals::install);
        let is_daemons = match self.who {
            Who::Auto => backend::detect() == OsBackend::RpmOstree,
            Who::Libostree => false,
            Who::RpmOstree => true,
        };
        let interrupt = interrupt.filter(|_| is_daemons);
        move |access| {
            // `finalize` and `recover` open their sessions elsewhere: on a host with a transient `/etc`,
            // which is refused here, foreign staged deployments must still be finalized.
            backend::ensure_etc_persistent()?;
            let program = WorkerProgram::locate()?;
            match &interrupt {
                Some(interrupt) => {
                    let deadlines = RpmOstreeDeadlines::default();
                    Ok(Box::new(RpmOstreeSession::open(program, interrupt.clone(), deadlines, access)?))
                }
                None => Ok(Box::new(sysroot_lock::open_when_unlocked(
                    &program,
                    Path::new("/"),
                    access,
                    sysroot_lock::lock_timeout(),
                )?)),
            }
        }
    }
}

//! `--os-backend`: the program that changes OS image and packages of the running host, libostree or
//! rpm-ostreed.

use std::path::Path;

use clap::{Args, ValueEnum};

use crate::core::config::settings::Settings;
use crate::core::config::settings::image::BackendChoice;
use crate::host::interrupt_signals::InterruptSignals;
use crate::os::backend::OsBackend;
use crate::os::protocol::SysrootAccess;
use crate::os::rpm_ostree::{RpmOstreeDeadlines, RpmOstreeSession};
use crate::os::worker::{FETCH_TIMEOUT, PARALLEL_FETCHES, WorkerProgram};
use crate::os::{Sysroot, backend, sysroot_lock};
use crate::transaction::TransactionError;

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OsBackendArgs {
    /// Program that changes OS image and packages of the running host; default: as the settings say, else `auto`
    #[arg(long = "os-backend", value_enum, value_name = "WHO", env = "FLAMEHOLDER_OS_BACKEND")]
    who: Option<Who>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Who {
    /// rpm-ostreed if the host has it, else libostree
    Auto,
    /// libostree alone: layered packages and overrides stay as they are
    Libostree,
    /// rpm-ostreed for image, packages and overrides; libostree for the rest
    RpmOstree,
}

impl Who {
    fn choice(self) -> BackendChoice {
        match self {
            Self::Auto => BackendChoice::Auto,
            Self::Libostree => BackendChoice::Libostree,
            Self::RpmOstree => BackendChoice::RpmOstree,
        }
    }
}

impl OsBackendArgs {
    /// Return the option as command-line arguments, for a child process; none where the settings decide, which it
    /// reads anew.
    pub(crate) fn arguments(self) -> Vec<String> {
        let who = self.who.and_then(|who| who.to_possible_value());
        who.map(|who| vec!["--os-backend".to_owned(), who.get_name().to_owned()]).unwrap_or_default()
    }

    /// Return the function that opens sessions on the running sysroot. Must be called while the process has
    /// one thread: signals are blocked for an rpm-ostreed transaction in every thread that is started later.
    pub(crate) fn opener(
        self,
        settings: &Settings,
    ) -> impl FnMut(SysrootAccess) -> Result<Box<dyn Sysroot>, TransactionError> + use<> {
        let choice = self.who.map(Who::choice).or(settings.image.backend).unwrap_or_default();
        let (image, limits) = (settings.image, settings.limits);
        // Before the probe, which may start threads of the D-Bus client.
        let interrupt = (choice != BackendChoice::Libostree).then(InterruptSignals::install);
        let is_daemons = match choice {
            BackendChoice::Auto => backend::detect() == OsBackend::RpmOstree,
            BackendChoice::Libostree => false,
            BackendChoice::RpmOstree => true,
        };
        let interrupt = interrupt.filter(|_| is_daemons);
        move |access| {
            // `finalize` and `recover` open their sessions elsewhere: on a host with a transient `/etc`,
            // which is refused here, foreign staged deployments must still be finalized.
            backend::ensure_etc_persistent()?;
            let program = WorkerProgram::locate()?
                .with_default(FETCH_TIMEOUT, limits.fetch_timeout())
                .with_default(PARALLEL_FETCHES, image.parallel_fetches)
                .with_signature_demand(image.signature.unwrap_or_default());
            let lock_timeout = sysroot_lock::lock_timeout(limits.lock_timeout());
            match &interrupt {
                Some(interrupt) => {
                    let deadlines =
                        RpmOstreeDeadlines { busy_timeout: lock_timeout, ..RpmOstreeDeadlines::default() };
                    Ok(Box::new(RpmOstreeSession::open(program, interrupt.clone(), deadlines, access)?))
                }
                None => Ok(Box::new(sysroot_lock::open_when_unlocked(
                    &program,
                    Path::new("/"),
                    access,
                    lock_timeout,
                )?)),
            }
        }
    }
}

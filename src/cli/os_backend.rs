//! `--os-backend`: who changes images and packages of the host that runs.

use clap::{Args, ValueEnum};

use crate::cli::session::session_of;
use crate::host::interrupt_signals::InterruptSignals;
use crate::os::Sysroot;
use crate::os::backend;
use crate::os::backend::Backend;
use crate::os::protocol::Access;
use crate::os::rpm_ostree::{Deadlines, RpmOstree};
use crate::os::worker::WorkerProgram;
use crate::transaction::TransactionError;

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OsBackend {
    /// Who changes images and packages of the running host
    #[arg(long = "os-backend", value_enum, default_value_t, value_name = "WHO")]
    who: Who,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Who {
    /// rpm-ostreed where the host has it, else libostree
    #[default]
    Auto,
    /// libostree, which leaves packages as they are
    Libostree,
    /// rpm-ostreed
    RpmOstree,
}

impl OsBackend {
    /// As the command line spells it.
    pub(crate) fn arguments(self) -> [String; 2] {
        let who = self.who.to_possible_value().expect("none is left out");
        ["--os-backend".to_owned(), who.get_name().to_owned()]
    }

    /// How sessions on the running sysroot are opened from now on. It has to be called before there are threads.
    pub(crate) fn sessions(self) -> impl FnMut(Access) -> Result<Box<dyn Sysroot>, TransactionError> {
        // First: whoever is asked may start threads.
        let interrupt = (self.who != Who::Libostree).then(InterruptSignals::expect);
        let is_daemons = match self.who {
            Who::Auto => backend::probe() == Backend::RpmOstree,
            Who::Libostree => false,
            Who::RpmOstree => true,
        };
        let interrupt = interrupt.filter(|_| is_daemons);
        move |access| {
            // Whoever binds or settles does not come by here: what others staged is to be finalized on such a host, too.
            backend::ensure_etc_stays()?;
            let program = WorkerProgram::locate()?;
            match &interrupt {
                Some(interrupt) => {
                    let deadlines = Deadlines::default();
                    Ok(Box::new(RpmOstree::open(program, interrupt.clone(), deadlines, access)?))
                }
                None => session_of(&program, access),
            }
        }
    }
}

//! `flameholder firstboot`: complete the first boot that Ignition began, before the workload starts
//! (`flameholder-firstboot.service`).

use std::path::Path;
use std::time::Duration;

use clap::Args;

use crate::cli::os_backend::OsBackendArgs;
use crate::cli::output::terminal::{print_text, say};
use crate::cli::systemd::reboot::reboot_immediately;
use crate::cli::{CliError, CommandOutcome, ProfileName, session};
use crate::firstboot;
use crate::firstboot::{FirstBootOutcome, FirstBootPorts};
use crate::host::SystemdServices;
use crate::host::systemd::system_status;
use crate::host::systemd::system_status::KUBELET;
use crate::transaction::boot::first_boot;
use crate::transaction::boot::first_boot::PhaseTiming;
use crate::transaction::state::settings::settings_or_default;

#[derive(Debug, Args)]
pub(crate) struct FirstbootArgs {
    /// Rules that decide which changes can be applied
    #[arg(long, value_enum, default_value_t = ProfileName::Mcd)]
    profile: ProfileName,
    #[command(flatten)]
    os_backend: OsBackendArgs,
}

pub(crate) fn run(args: &FirstbootArgs) -> Result<CommandOutcome, CliError> {
    let host = session::running_host()?;
    first_boot::claim(&host.root)?;
    let settings = settings_or_default(&host.root);
    let outside = FirstBootPorts {
        sessions: &mut args.os_backend.opener(&settings),
        services: &SystemdServices::system(),
        profile: args.profile.into(),
        say: &mut say,
        wait: &mut std::thread::sleep,
    };
    match firstboot::run(&host, outside)? {
        FirstBootOutcome::Nothing => print_text("no first boot to complete\n")?,
        FirstBootOutcome::Complete { config, times } => {
            say(&format!("the first boot is complete: {config} is applied and verified{}", in_words(&times)));
            start_kubelet();
        }
        FirstBootOutcome::Reboot { config } => {
            return reboot_immediately(&format!("the first boot continues in the deployment of {config}"));
        }
    }
    Ok(CommandOutcome::Success)
}

/// Start the kubelet if an earlier run of this unit was killed: the kubelet requires the unit, and its start failed with it.
fn start_kubelet() {
    let started = match system_status::kubelet_is_enabled(Path::new("/")) {
        Ok(true) => SystemdServices::system().start_left_behind(KUBELET),
        other => other,
    };
    match started {
        Ok(false) => {}
        Ok(true) => say("starting the kubelet, whose start failed with an earlier attempt"),
        Err(error) => say(&format!("warn: the kubelet may have to be started by hand: {error}")),
    }
}

/// List the duration of each part; parts shorter than 50 ms are omitted.
fn in_words(times: &[PhaseTiming]) -> String {
    let parts = times.iter().filter(|time| time.milliseconds >= 50);
    let parts: Vec<String> = parts
        .map(|time| format!("{} {:.1} s", time.phase, Duration::from_millis(time.milliseconds).as_secs_f64()))
        .collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

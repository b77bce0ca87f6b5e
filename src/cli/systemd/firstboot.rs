//! `flameholder firstboot`: what `flameholder-firstboot.service` runs before the workload starts.

use std::time::Duration;

use clap::Args;

use crate::cli::os_backend::OsBackend;
use crate::cli::output::terminal::{print_text, say};
use crate::cli::session;
use crate::cli::systemd::reboot::reboot_at_once;
use crate::cli::{CliError, ProfileName, Verdict};
use crate::firstboot;
use crate::firstboot::{Outcome, Outside};
use crate::host::SystemdServices;
use crate::transaction::boot::first_boot::Time;

#[derive(Debug, Args)]
pub(crate) struct FirstbootArgs {
    /// Whose verdicts apply
    #[arg(long, value_enum, default_value_t = ProfileName::Mcd)]
    profile: ProfileName,
    #[command(flatten)]
    os_backend: OsBackend,
}

pub(crate) fn run(args: &FirstbootArgs) -> Result<Verdict, CliError> {
    let booted = session::booted()?;
    let outside = Outside {
        sessions: &mut args.os_backend.sessions(),
        services: &SystemdServices::system(),
        profile: args.profile.into(),
        say: &mut say,
        wait: &mut std::thread::sleep,
    };
    match firstboot::run(&booted, outside)? {
        Outcome::Nothing => print_text("no first boot is to be completed\n")?,
        Outcome::Complete { config, times } => {
            say(&format!("the first boot is complete: {config} runs{}", in_words(&times)));
        }
        Outcome::Reboot { config } => {
            return reboot_at_once(&format!("the first boot is completed by {config}"));
        }
    }
    Ok(Verdict::Fine)
}

/// Parts that took no time are left out.
fn in_words(times: &[Time]) -> String {
    let parts = times.iter().filter(|time| time.milliseconds >= 50);
    let parts: Vec<String> = parts
        .map(|time| format!("{} {:.1} s", time.phase, Duration::from_millis(time.milliseconds).as_secs_f64()))
        .collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

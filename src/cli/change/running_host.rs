//! `apply` and `rollback` on the host that runs.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::change::apply::{Reboot, left_out};
use crate::cli::os_backend::OsBackend;
use crate::cli::output::progress::Progress;
use crate::cli::output::terminal::{print_text, say};
use crate::cli::session::booted;
use crate::cli::session::session;
use crate::cli::{CliError, Verdict};
use crate::core::config::policy::DisruptionPolicy;
use crate::core::etc_merge::shown;
use crate::core::state::pending::PendingGeneration;
use crate::core::values::profile::Profile;
use crate::host::SystemdServices;
use crate::host::systemd::logind::LogindReboot;
use crate::host::systemd::reboot_port::RebootOutcome::{AlreadyPending, Requested};
use crate::host::systemd::reboot_port::{InhibitorLock, InhibitorPolicy, RebootControl as _, RebootRequest};
use crate::os::Sysroot;
use crate::os::protocol::Access;
use crate::transaction::TransactionError;
use crate::transaction::boot::staged_deployment;
use crate::transaction::plan::target::{Errand, Site, Target};
use crate::transaction::state::current::Configuration;
use crate::transaction::update::rollback;
use crate::transaction::update::running_host;
use crate::transaction::update::running_host::Outcome;

/// How long those who block a reboot are waited for.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) fn apply(
    desired: &Configuration,
    image: Option<&str>,
    profile: Profile,
    reboot: Reboot,
    os_backend: OsBackend,
) -> Result<Verdict, CliError> {
    let image = image.map(str::parse).transpose()?;
    let booted = booted()?;
    let mut session = os_backend.sessions()(Access::Stage)?;
    let target = Target {
        site: Site::Running(&booted),
        desired,
        image: image.as_ref(),
        errand: Errand::Update,
        profile,
        policy: &DisruptionPolicy::default(),
    };
    let mut progress = Progress::start();
    let outcome =
        running_host::apply(&mut *session, &SystemdServices::system(), &booted, target, &mut |stage| {
            progress.show(&stage);
        });
    progress.finish();
    go_on(session, outcome?, &desired.object.name, reboot)
}

/// Stages the generation before the one that runs.
pub(crate) fn roll_back(reboot: Reboot) -> Result<Verdict, CliError> {
    let booted = booted()?;
    let mut session = session(Access::Stage)?;
    let previous = rollback::previous(&mut *session, &booted)?;
    let mut progress = Progress::start();
    let outcome =
        rollback::stage(&mut *session, &SystemdServices::system(), &booted, &previous, &mut |stage| {
            progress.show(&stage);
        });
    progress.finish();
    let outcome = outcome?;
    if let Outcome::Staged { plan: Some(plan), .. } = &outcome {
        match rollback::left_alone(&booted, &previous, plan) {
            Ok(paths) => print_text(&left_alone(&paths))?,
            // Going back does not depend on the list.
            Err(error) => log::warn!("what stays as it is now cannot be told: {error}"),
        }
    }
    go_on(session, outcome, &previous.record.config, reboot)
}

/// Those that nobody would look through are counted only.
fn left_alone(paths: &[PathBuf]) -> String {
    const SHOWN: usize = 20;
    let mut text = String::new();
    for (number, path) in paths.iter().enumerate() {
        match number {
            0 => text.push_str("stays as it is now, unlike in the deployment that is gone back to:\n"),
            SHOWN => return format!("{text}  and {} more\n", paths.len() - SHOWN),
            _ => {}
        }
        text += &format!("  {}\n", shown(path));
    }
    text
}

fn go_on(
    mut session: Box<dyn Sysroot>,
    outcome: Outcome,
    name: &str,
    reboot: Reboot,
) -> Result<Verdict, CliError> {
    match outcome {
        Outcome::Nothing { generation } => {
            print_text(&format!("nothing to do: {name} is applied already (generation {generation})\n"))?;
        }
        Outcome::Live { plan, generation } => {
            let text =
                format!("applied {name}; nothing has to be rebooted for it (generation {generation})\n");
            print_text(&(text + &left_out(&plan.left_out)))?;
        }
        Outcome::Staged { plan, pending } => {
            let left = plan.map(|plan| left_out(&plan.left_out)).unwrap_or_default();
            print_text(&(staged(&pending, name) + &left))?;
            if reboot == Reboot::Never {
                say("it boots once this is called again without `--reboot never`");
                return Ok(Verdict::Fine);
            }
            staged_deployment::arm(&mut *session, &SystemdServices::system(), &pending)?;
            drop(session);
            restart(&pending, name, reboot)?;
        }
    }
    Ok(Verdict::Fine)
}

fn staged(pending: &PendingGeneration, name: &str) -> String {
    let (generation, id) = (pending.generation(), pending.intent.deployment.id());
    format!("staged {name} as generation {generation}\nits deployment is {id}\n")
}

/// Asks logind, once: whatever is armed holds for any reboot that comes.
fn restart(pending: &PendingGeneration, name: &str, reboot: Reboot) -> Result<(), CliError> {
    let request = RebootRequest {
        reason: format!("flameholder: {name} becomes generation {}", pending.generation()),
        patience: PATIENCE,
        insist: if reboot == Reboot::Insist {
            InhibitorPolicy::OverruleAfterDeadline
        } else {
            InhibitorPolicy::Obey
        },
    };
    let mut report = |blocking: &[InhibitorLock]| {
        let who: Vec<String> = blocking.iter().map(ToString::to_string).collect();
        if !who.is_empty() {
            say(&format!("the reboot waits for {}", who.join(", ")));
        }
    };
    let text = match LogindReboot::system().reboot(&request, &mut report).map_err(TransactionError::from)? {
        Requested { over } if over.is_empty() => "the host reboots into it\n".to_owned(),
        Requested { over } => {
            let who: Vec<String> = over.iter().map(ToString::to_string).collect();
            format!("the host reboots into it, though it was blocked by {}\n", who.join(", "))
        }
        AlreadyPending(shutdown) => format!("{shutdown}, and leads into it\n"),
    };
    print_text(&text)
}

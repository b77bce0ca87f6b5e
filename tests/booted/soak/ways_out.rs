//! Ways out that messages and documentation name, and their use.

use std::fs;
use std::sync::LazyLock;

use testbed::model::run::Outcome;
use testbed::repository;

use super::invariants::{Broken, BrokenRule, told};
use super::run::{Checked, SoakRun};
use super::step::ConfigKind;

/// Ways out that may have to be taken one after the other before an update succeeds.
const ATTEMPTS: usize = 8;

/// Act of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WayOut {
    /// The obstacle is gone, or another config is applied: the update is repeated in any case.
    TryAgain,
    Recover,
    Retry,
    /// A deployment of another program is staged: reboot into it, or discard it.
    LeaveStaged,
    CheckBoot,
    RestoreConfig,
    RemoveObject,
    ApplyCurrent,
    MoveRecord,
    OtherRelease,
}

/// Parts of messages, each with the way out that the message names. The first match counts.
const WAYS: [(&str, WayOut); 14] = [
    ("restore the file, or move it away to start over", WayOut::MoveRecord),
    ("free some space", WayOut::TryAgain),
    ("no space left", WayOut::TryAgain),
    ("apply the generation's configuration again", WayOut::ApplyCurrent),
    ("reboot into it, or discard it with `flameholder unstage --force`", WayOut::LeaveStaged),
    ("wait until it has finished", WayOut::TryAgain),
    ("try again when it is done", WayOut::TryAgain),
    ("restore it, or remove", WayOut::RestoreConfig),
    ("remove the file and apply the configuration again", WayOut::RemoveObject),
    ("its boot check may take", WayOut::CheckBoot),
    ("use the release that wrote it", WayOut::OtherRelease),
    ("flameholder recover", WayOut::Recover),
    ("flameholder retry", WayOut::Retry),
    ("apply the configuration", WayOut::TryAgain),
];

/// Messages of docs/usage/troubleshooting.md, as their parts between the placeholders.
static DOCUMENTED: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
    let text = fs::read_to_string(repository().join("docs/usage/troubleshooting.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(message, _)| message.split('…').map(str::to_owned).collect()).collect()
});

fn is_documented(message: &str) -> bool {
    DOCUMENTED.iter().any(|parts| {
        let mut rest = Some(message);
        for part in parts {
            rest = rest.and_then(|rest| rest.split_once(part.as_str())).map(|(_, rest)| rest);
        }
        rest.is_some() && parts.iter().map(String::len).sum::<usize>() > 12
    })
}

/// Return the way out that a failed command names.
pub(super) fn named_in(outcome: &Outcome) -> Result<WayOut, Broken> {
    let message = error_in(outcome);
    match WAYS.iter().find(|(part, _)| message.contains(part)) {
        Some((_, way)) => Ok(*way),
        None if is_documented(message) => Ok(WayOut::TryAgain),
        None => Err(Broken::new(BrokenRule::NoWayOut, format!("{outcome:?}"))),
    }
}

/// The error itself, without warnings and progress.
fn error_in(outcome: &Outcome) -> &str {
    outcome.stderr.split_once("error: ").map_or(&outcome.stderr, |(_, error)| error)
}

/// Bring the host back with what its messages name: an update to a new config succeeds and is confirmed, and nothing
/// has drifted.
pub(super) fn bring_back(run: &mut SoakRun) -> Checked {
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let config = run.new_config(ConfigKind::Healthy);
        let outcome = run.apply(&config, None, None)?;
        last.clone_from(&outcome.stderr);
        if outcome.stdout.contains("reboot to activate: ") {
            run.reboot(None)?;
            if run.booted_text().as_ref() == Some(&config.text) && !run.is_unconfirmed() {
                return ensure_no_drift(run);
            }
            continue;
        }
        let way = named_in(&outcome)?;
        take(run, way, &outcome)?;
    }
    Err(Broken::new(BrokenRule::WayOutFails, format!("{last}\n{}", told(&run.host))))
}

fn ensure_no_drift(run: &SoakRun) -> Checked {
    let verified = run.host.run(["flameholder", "verify"]);
    if verified.code == Some(0) {
        return Ok(());
    }
    Err(Broken::new(BrokenRule::WayOutFails, format!("drift after an update: {verified:?}")))
}

fn take(run: &mut SoakRun, way: WayOut, named: &Outcome) -> Checked {
    match way {
        WayOut::TryAgain => {}
        WayOut::Recover => drop(run.command(None, &["recover"])?),
        WayOut::Retry => drop(run.command(None, &["retry"])?),
        WayOut::CheckBoot => drop(run.command(None, &["confirm-boot"])?),
        WayOut::LeaveStaged if run.count.is_multiple_of(2) => run.reboot(None)?,
        WayOut::LeaveStaged => drop(run.host.run_ok(["flameholder", "unstage", "--force"])),
        WayOut::RestoreConfig => run.restore_current_config(),
        WayOut::RemoveObject => {
            let object = named.stderr.split("/var/").find(|part| part.contains("/objects/")).unwrap();
            fs::remove_file(run.host.var(object.split_whitespace().next().unwrap())).unwrap();
        }
        WayOut::ApplyCurrent => {
            let text = run.booted_text().unwrap_or_default();
            let current = run.configs.values().find(|config| config.text == text).cloned();
            if let Some(current) = current {
                run.apply(&current, None, None)?;
            }
        }
        WayOut::MoveRecord => fs::remove_file(run.host.etc("flameholder/generation")).unwrap(),
        // No release wrote a record that the sequence changed.
        WayOut::OtherRelease if run.has_damaged_record() => {
            fs::remove_file(run.host.etc("flameholder/generation")).unwrap();
        }
        WayOut::OtherRelease => run.exchange_agent(),
    }
    Ok(())
}

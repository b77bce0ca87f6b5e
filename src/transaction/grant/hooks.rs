//! Hooks: programs in drop-in directories, under the rules of health checks.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use crate::core::config::settings::hooks::{AFTER_CONFIRMATION, BEFORE_DRAIN, NOTIFY};
use crate::core::daemon::grant::GrantWait;
use crate::core::daemon::hook_verdicts::{HookStage, HookVerdict};
use crate::core::state::reboot_grant::RebootGrant;
use crate::core::values::causes::chain;
use crate::core::values::identifiers::ConfigName;
use crate::host::memory_file::MemoryFile;
use crate::host::programs::{HookProgram, ProgramError, ProgramPurpose};
use crate::host::systemd::system_status;
use crate::host::{Root, programs};
use crate::transaction::state::status_files::HOOKS;

/// Programs of a stage, and the terms on which they run.
#[derive(Debug)]
struct HookRun<'a> {
    root: &'a Root,
    stage: HookStage,
    config: Option<&'a ConfigName>,
    timeout: Duration,
    purpose: ProgramPurpose,
}

fn directories(stage: HookStage) -> [&'static str; 2] {
    match stage {
        HookStage::BeforeDrain => BEFORE_DRAIN,
        HookStage::AfterConfirmation => AFTER_CONFIRMATION,
        HookStage::Notify => NOTIFY,
    }
}

fn programs_of(stage: HookStage) -> Vec<HookProgram> {
    programs::list(&directories(stage).map(Path::new))
}

/// Return true if the host has hooks of this stage.
#[must_use]
pub fn exist(stage: HookStage) -> bool {
    !programs_of(stage).is_empty()
}

impl<'a> HookRun<'a> {
    fn of_grant(root: &'a Root, stage: HookStage, timeout: Duration, grant: &'a RebootGrant) -> Self {
        let environment = vec![variable("CONFIG", grant.config.as_str())];
        let purpose = ProgramPurpose::hook(environment, None);
        Self { root, stage, config: Some(&grant.config), timeout, purpose }
    }

    fn run(&self, program: &HookProgram) -> Result<(), ProgramError> {
        let systemd = system_status::socket(Path::new("/"));
        let result = program.run(systemd.as_deref(), self.timeout, &self.purpose);
        let mut verdicts = HOOKS.load(self.root).unwrap_or_default();
        verdicts.note(HookVerdict {
            stage: self.stage,
            name: program.name.clone(),
            config: self.config.cloned(),
            time: Timestamp::now(),
            failure: result.as_ref().err().map(ToString::to_string),
        });
        HOOKS.publish(self.root, &verdicts);
        result
    }

    /// Run all programs; those that fail are logged.
    fn run_all(&self) {
        for program in programs_of(self.stage) {
            if let Err(error) = self.run(&program) {
                let about = self.config.map_or("", ConfigName::as_str);
                log::warn!("{about}: the hook {} {error}", program.path.display(), error = chain(&error));
            }
        }
    }
}

fn variable(name: &str, value: &str) -> String {
    format!("FLAMEHOLDER_{name}={value}")
}

/// Run the hooks before a disruption, one after the other; the first that fails is waited for.
pub(super) fn run_before_drain(root: &Root, timeout: Duration, grant: &RebootGrant) -> Option<GrantWait> {
    let run = HookRun::of_grant(root, HookStage::BeforeDrain, timeout, grant);
    programs_of(run.stage).into_iter().find_map(|program| {
        let reason = run.run(&program).err()?.to_string();
        Some(GrantWait::Hook { name: program.name, reason })
    })
}

/// Run the hooks after a confirmation.
pub(super) fn run_after_confirmation(root: &Root, timeout: Duration, grant: &RebootGrant) {
    HookRun::of_grant(root, HookStage::AfterConfirmation, timeout, grant).run_all();
}

/// Tell the hooks of notifications that the daemon is in this phase, with the status document on their standard input.
pub fn notify(root: &Root, timeout: Duration, phase: &str, config: Option<&ConfigName>, status: MemoryFile) {
    let mut environment = vec![variable("PHASE", phase)];
    environment.extend(config.map(|config| variable("CONFIG", config.as_str())));
    let purpose = ProgramPurpose::hook(environment, Some(status));
    HookRun { root, stage: HookStage::Notify, config, timeout, purpose }.run_all();
}

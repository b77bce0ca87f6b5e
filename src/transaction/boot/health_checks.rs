//! A look at the host that runs: everything that has to be well before its generation is settled.

use std::path::Path;
use std::time::Duration;

use crate::core::config::settings::boot_check::{CHECK_DIRECTORIES, GREENBOOT_DIRECTORIES, HealthPolicy};
use crate::core::enablement::UnitName;
use crate::core::state::boot_check::CheckResult;
use crate::core::state::pending::PendingGeneration;
use crate::core::values::causes::first_of;
use crate::host::facts::{healthz, interfaces};
use crate::host::programs;
use crate::host::programs::HookProgram;
use crate::host::systemd::system_status;
use crate::host::systemd::system_status::{KUBELET, SystemStatus};
use crate::os::protocol::SysrootAccess;

use crate::transaction::SysrootOpener;
use crate::transaction::update::sysroot;

/// There where greenboot is installed, which runs its own checks.
const GREENBOOT: [&str; 2] =
    ["/usr/libexec/greenboot/greenboot", "/usr/lib/systemd/system/greenboot-healthcheck.service"];
/// How many of several a finding names.
const NAMED: usize = 3;

/// What costs next to nothing to look at.
pub(crate) fn quick_checks(policy: &HealthPolicy, pending: Option<&PendingGeneration>) -> Vec<CheckResult> {
    let mut names: Vec<&str> = policy.required_units.iter().map(UnitName::as_str).collect();
    if !names.contains(&KUBELET) {
        names.push(KUBELET);
    }
    let mut findings = match system_status::look(Path::new("/"), &names) {
        Ok(None) => vec![CheckResult::well("boot", "no systemd runs here")],
        Ok(Some(states)) => unit_checks(policy, &states),
        Err(error) => vec![CheckResult::ill("boot", error.to_string())],
    };
    // Whether somebody answers there does not matter.
    if pending.is_some_and(|pending| pending.intent.had_network) {
        findings.push(if interfaces::any_up() {
            CheckResult::well("network", "an interface is up")
        } else {
            CheckResult::ill("network", "no interface is up, and one was when this generation was staged")
        });
    }
    findings
}

fn unit_checks(policy: &HealthPolicy, states: &SystemStatus) -> Vec<CheckResult> {
    let mut findings = vec![boot_complete_check(states)];
    for unit in &states.asked {
        let is_required = policy.required_units.iter().any(|required| required.as_str() == unit.name);
        let check = format!("unit {}", unit.name);
        // Only a kubelet that the boot starts is asked for unless the settings name it.
        if is_required || unit.name == KUBELET && states.kubelet_is_enabled {
            findings.push(match (unit.active.as_str(), unit.load.as_str()) {
                ("active", _) => CheckResult::well(&check, "active"),
                (active, "loaded") => {
                    CheckResult::ill(&check, format!("it is {active}; see `journalctl -b -u {}`", unit.name))
                }
                (_, load) => CheckResult::ill(&check, format!("it is {load}")),
            });
        }
    }
    if policy.kubelet_port != 0 && states.kubelet_is_enabled {
        findings.push(match healthz::ask(policy.kubelet_port) {
            Ok(()) => CheckResult::well("kubelet", "healthz says ok"),
            Err(reason) => CheckResult::ill("kubelet", reason),
        });
    }
    findings
}

fn boot_complete_check(states: &SystemStatus) -> CheckResult {
    match states.system.as_str() {
        "running" => CheckResult::well("boot", "complete"),
        "degraded" => {
            CheckResult::well("boot", format!("complete; failed: {}", first_of(&states.failed, NAMED)))
        }
        "initializing" | "starting" => CheckResult::ill(
            "boot",
            format!("not complete, it waits for {}", first_of(&states.queued, NAMED)),
        ),
        system => CheckResult::ill("boot", format!("the system is in the state {system}")),
    }
}

/// The rest: programs that others put there, none longer than until `deadline`, and the record.
pub(crate) fn full_checks(
    policy: &HealthPolicy,
    os: SysrootOpener<'_>,
    deadline: &dyn Fn() -> Duration,
) -> Vec<CheckResult> {
    let mut findings: Vec<CheckResult> = programs()
        .into_iter()
        .map(|program| {
            let check = format!("check {}", program.name);
            match program.run(policy.check_timeout.min(deadline())) {
                Ok(()) => CheckResult::well(&check, "passed"),
                Err(error) => CheckResult::ill(&check, error.to_string()),
            }
        })
        .collect();
    findings.push(record_check(os));
    findings
}

fn programs() -> Vec<HookProgram> {
    let mut directories = CHECK_DIRECTORIES.map(Path::new).to_vec();
    if !GREENBOOT.iter().any(|path| Path::new(path).exists()) {
        directories.extend(GREENBOOT_DIRECTORIES.map(Path::new));
    }
    programs::list(&directories)
}

fn record_check(os: SysrootOpener<'_>) -> CheckResult {
    // It only looks: libostree's lock is for those who change something.
    match os(SysrootAccess::Read).and_then(|mut os| sysroot::verify_running(&mut *os)) {
        Ok(verified) if !verified.deviates() => CheckResult::well("record", "everything is as it says"),
        Ok(verified) => {
            let paths = first_of(&verified.paths(), NAMED);
            CheckResult::ill(
                "record",
                format!("not as the configuration says: {paths}; see `flameholder verify`"),
            )
        }
        Err(error) => CheckResult::ill("record", error.chain()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::state::boot_check::failed_checks;
    use crate::host::systemd::system_status::UnitState;

    fn states(system: &str, kubelet_is_enabled: bool, units: &[(&str, &str)]) -> SystemStatus {
        let asked = units.iter().map(|(name, active)| UnitState {
            name: (*name).into(),
            load: if *active == "none" { "not-found".into() } else { "loaded".into() },
            active: (*active).into(),
        });
        SystemStatus {
            system: system.into(),
            asked: asked.collect(),
            failed: ["a", "b", "c", "d"].map(|name| format!("{name}.service")).to_vec(),
            queued: vec!["slow.service".into()],
            kubelet_is_enabled,
        }
    }

    #[test]
    fn units_that_are_required_and_the_boot_decide() {
        let policy = HealthPolicy {
            required_units: vec![UnitName::parse("crio.service").unwrap()],
            kubelet_port: 0,
            ..HealthPolicy::default()
        };
        for (system, enabled, units, expected) in [
            ("running", false, [("crio.service", "active"), (KUBELET, "none")], None),
            ("running", true, [("crio.service", "active"), (KUBELET, "inactive")], Some("it is inactive")),
            ("degraded", false, [("crio.service", "active"), (KUBELET, "failed")], None),
            ("degraded", false, [("crio.service", "failed"), (KUBELET, "none")], Some("it is failed")),
            ("running", false, [("crio.service", "none"), (KUBELET, "none")], Some("it is not-found")),
            ("starting", false, [("crio.service", "active"), (KUBELET, "none")], Some("slow.service")),
            ("maintenance", false, [("crio.service", "active"), (KUBELET, "none")], Some("maintenance")),
        ] {
            let said = failed_checks(&unit_checks(&policy, &states(system, enabled, &units)));
            match expected {
                None => assert_eq!(said, None, "{system} {units:?}"),
                Some(expected) => assert!(said.as_ref().unwrap().contains(expected), "{said:?}"),
            }
        }
        assert!(
            boot_complete_check(&states("degraded", false, &[]))
                .detail
                .ends_with("a.service, b.service, c.service and 1 more")
        );
    }
}

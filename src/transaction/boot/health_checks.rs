//! Health checks of the boot check: boot complete, required units, kubelet, network, check programs, drift.

use std::path::Path;

use crate::core::config::settings::boot_check::{CHECK_DIRECTORIES, GREENBOOT_DIRECTORIES, HealthPolicy};
use crate::core::enablement::UnitName;
use crate::core::state::boot_check::CheckResult;
use crate::core::state::pending::PendingGeneration;
use crate::core::values::causes::first_of;
use crate::core::values::foreign_text::harmless;
use crate::host::facts::{healthz, interfaces};
use crate::host::programs::{HookProgram, ProgramPurpose};
use crate::host::systemd::system_status;
use crate::host::systemd::system_status::{KUBELET, SystemStatus};
use crate::host::{RunningHost, programs};
use crate::os::protocol::SysrootAccess;
use crate::transaction::SysrootOpener;
use crate::transaction::update::sysroot;

/// Paths of greenboot. Where it is installed, it runs its own check programs, so the boot check leaves them
/// out.
const GREENBOOT: [&str; 2] =
    ["/usr/libexec/greenboot/greenboot", "/usr/lib/systemd/system/greenboot-healthcheck.service"];
/// Number of units or paths that a result lists before "and N more".
const NAMED: usize = 3;

/// Run the checks that take next to no time: boot complete, units, kubelet, network interfaces.
pub(crate) fn quick_checks(policy: &HealthPolicy, pending: Option<&PendingGeneration>) -> Vec<CheckResult> {
    let mut names: Vec<&str> = policy.required_units.iter().map(UnitName::as_str).collect();
    if !names.contains(&KUBELET) {
        names.push(KUBELET);
    }
    let mut findings = match system_status::look(Path::new("/"), &names) {
        Ok(None) => vec![CheckResult::passed("boot", "systemd is not running")],
        Ok(Some(states)) => unit_checks(policy, &states),
        Err(error) => vec![CheckResult::failed("boot", error.to_string())],
    };
    // An interface that is up suffices: an unreachable registry or API server is no reason to roll back.
    if pending.is_some_and(|pending| pending.staged.had_network) {
        findings.push(if interfaces::any_up() {
            CheckResult::passed("network", "an interface is up")
        } else {
            CheckResult::failed(
                "network",
                "no interface is up, although one was up when this generation was staged",
            )
        });
    }
    findings
}

fn unit_checks(policy: &HealthPolicy, states: &SystemStatus) -> Vec<CheckResult> {
    let mut findings = vec![boot_complete_check(states)];
    for unit in &states.asked {
        let is_required = policy.required_units.iter().any(|required| required.as_str() == unit.name);
        let check = format!("unit {}", unit.name);
        // Without a setting, the kubelet counts only if it is enabled.
        if is_required || unit.name == KUBELET && states.kubelet_is_enabled {
            findings.push(match (unit.active.as_str(), unit.load.as_str()) {
                ("active", _) => CheckResult::passed(&check, "active"),
                (active, "loaded") => {
                    CheckResult::failed(&check, format!("{active}; see `journalctl -b -u {}`", unit.name))
                }
                (_, load) => CheckResult::failed(&check, format!("load state is {load}")),
            });
        }
    }
    if policy.kubelet_port != 0 && states.kubelet_is_enabled {
        findings.push(match healthz::check(policy.kubelet_port) {
            Ok(()) => CheckResult::passed("kubelet", "healthz answers ok"),
            Err(reason) => CheckResult::failed("kubelet", reason),
        });
    }
    findings
}

fn boot_complete_check(states: &SystemStatus) -> CheckResult {
    match states.system.as_str() {
        "running" => CheckResult::passed("boot", "complete"),
        "degraded" => {
            CheckResult::passed("boot", format!("complete; failed: {}", first_of(&states.failed, NAMED)))
        }
        "initializing" | "starting" => CheckResult::failed(
            "boot",
            format!("not complete; queued jobs: {}", first_of(&states.queued, NAMED)),
        ),
        system => CheckResult::failed("boot", format!("system state is {system}")),
    }
}

/// Run the slower checks: the check programs, each with its full time limit, and the comparison of the disk
/// with the record. A program that is cut short says nothing about the host, so the timeout of the boot check
/// does not shorten its time.
pub(crate) fn full_checks(
    policy: &HealthPolicy,
    host: &RunningHost,
    os: SysrootOpener<'_>,
) -> Vec<CheckResult> {
    let systemd = system_status::socket(Path::new("/"));
    let mut findings: Vec<CheckResult> = programs()
        .into_iter()
        .map(|program| {
            let check = format!("check {}", program.name);
            match program.run(systemd.as_deref(), policy.check_timeout, &ProgramPurpose::health_check()) {
                Ok(()) => CheckResult::passed(&check, "passed"),
                Err(error) => CheckResult {
                    output: harmless(error.output()).into_owned(),
                    ..CheckResult::failed(&check, error.to_string())
                },
            }
        })
        .collect();
    findings.push(record_check(host, os));
    findings
}

fn programs() -> Vec<HookProgram> {
    let mut directories = CHECK_DIRECTORIES.map(Path::new).to_vec();
    if !GREENBOOT.iter().any(|path| Path::new(path).exists()) {
        directories.extend(GREENBOOT_DIRECTORIES.map(Path::new));
    }
    programs::list(&directories)
}

fn record_check(host: &RunningHost, os: SysrootOpener<'_>) -> CheckResult {
    // Reading needs no sysroot lock, which an update in progress may hold.
    match os(SysrootAccess::Read).and_then(|mut os| sysroot::verify_running(&mut *os, host)) {
        Ok(verified) if !verified.has_drift() => CheckResult::passed("record", "no drift"),
        Ok(verified) if verified.blocking().is_empty() => {
            let paths = first_of(&verified.counting(), NAMED);
            CheckResult::passed(
                "record",
                format!("drift only where users other than root can write: {paths}"),
            )
        }
        Ok(verified) => {
            let paths = first_of(&verified.blocking(), NAMED);
            CheckResult::failed("record", format!("drift: {paths}; see `flameholder verify`"))
        }
        Err(error) => CheckResult::failed("record", error.chain()),
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
    fn check_fails_for_an_incomplete_boot_or_an_inactive_required_unit() {
        let policy = HealthPolicy {
            required_units: vec![UnitName::parse("crio.service").unwrap()],
            kubelet_port: 0,
            ..HealthPolicy::default()
        };
        for (system, enabled, units, expected) in [
            ("running", false, [("crio.service", "active"), (KUBELET, "none")], None),
            ("running", true, [("crio.service", "active"), (KUBELET, "inactive")], Some(": inactive")),
            ("degraded", false, [("crio.service", "active"), (KUBELET, "failed")], None),
            ("degraded", false, [("crio.service", "failed"), (KUBELET, "none")], Some(": failed")),
            ("running", false, [("crio.service", "none"), (KUBELET, "none")], Some("is not-found")),
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

//! Decisions about a pending generation, on a host that is only a directory: no mount namespace, no
//! libostree.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test reports by panicking")]

use std::path::Path;
use std::time::Duration;

use super::*;
use crate::core::state::pending::tests::intent;
use crate::core::state::pending::{PendingEntry, StagedGeneration};
use crate::core::values::deployment::DeploymentId;
use crate::core::values::identifiers::GenerationId;
use crate::core::values::kernel_arguments::KernelArguments;
use crate::host::facts::booted::BootedDeployment;
use crate::host::facts::soft_reboots::SoftReboots;
use crate::host::locked_host::SystemFacts;
use crate::host::{Root, RunningHost};
use crate::transaction::state::blocked;

const THIS_BOOT: &str = "this boot";
const EARLIER_BOOT: &str = "an earlier boot";

/// Host in a directory, booted into `booted`, with a generation that was staged in an earlier boot.
fn host(directory: &Path, booted: &DeploymentId, generation: Option<&GenerationId>) -> RunningHost {
    for parent in ["etc/flameholder", "var/lib/flameholder"] {
        std::fs::create_dir_all(directory.join(parent)).unwrap();
    }
    let root = Root::open(directory).unwrap();
    pending::write_staged(&root, &staged()).unwrap();
    RunningHost {
        root,
        booted: BootedDeployment {
            deployment: booted.clone(),
            generation: generation.cloned(),
            entry: Some(KernelArguments::default()),
        },
        system: SystemFacts {
            boot_id: THIS_BOOT.into(),
            soft_reboots: SoftReboots::default(),
            kernel_arguments: KernelArguments::default(),
            fips_mode: None,
            path: "/usr/bin".into(),
            uptime: || Duration::from_secs(60),
        },
    }
}

fn staged() -> StagedGeneration {
    intent(EARLIER_BOOT)
}

/// Recover the pending generation; opening a session of libostree fails the test.
fn recover(host: &RunningHost) -> Result<PendingRecovery, TransactionError> {
    let mut open = |access| panic!("a session was opened: {access:?}");
    recover_pending(&host.lock().unwrap(), &mut open)
}

#[test]
fn generation_that_did_not_boot_after_its_finalization_is_blocked() {
    let directory = tempfile::tempdir().unwrap();
    let host = host(directory.path(), &staged().base, None);
    let finalized = PendingEntry::Finalized { boot_id: EARLIER_BOOT.into() };
    pending::append_entry(&host.root, &finalized).unwrap();
    let recovery = recover(&host).unwrap();
    assert!(matches!(recovery, PendingRecovery::RolledBack(..)), "{recovery:?}");
    let blocked = blocked::load(&host.root).unwrap().unwrap();
    assert_eq!(blocked.config, staged().record.config);
    assert_eq!(pending::load(&host.root).unwrap(), None);
}

#[test]
fn generation_is_dropped_after_a_foreign_deployment_booted() {
    let directory = tempfile::tempdir().unwrap();
    let foreign = DeploymentId { commit: "f".repeat(64), ..staged().base };
    let host = host(directory.path(), &foreign, None);
    let recovery = recover(&host).unwrap();
    assert!(matches!(recovery, PendingRecovery::Superseded(_)), "{recovery:?}");
    assert_eq!(pending::load(&host.root).unwrap(), None);
    assert!(blocked::load(&host.root).unwrap().is_none(), "a foreign boot is no failure of the config");
}

#[test]
fn locked_host_is_busy_and_keeps_its_pending_generation() {
    let directory = tempfile::tempdir().unwrap();
    let host = host(directory.path(), &staged().base, None);
    let _lock = host.lock().unwrap();
    let error = TransactionError::from(host.lock().unwrap_err());
    assert!(error.is_busy(), "{error}");
    assert!(pending::load(&host.root).unwrap().is_some());
}

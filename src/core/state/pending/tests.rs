//! Parsing of pending records: round trip, cut-off lines, damage, other releases, staging again.
#![allow(clippy::unwrap_used, reason = "a test reports by panicking")]

use super::*;

/// Return a generation that was staged in the boot `boot`.
pub(crate) fn intent(boot: &str) -> StagedGeneration {
    let deployed = r#"{"stateroot":"os","commit":"c2","serial":0,"image":null,"imageDigest":null,"configImage":null,"kernelArguments":[]}"#;
    let record = format!(
        r#"{{"schema":1,"generation":"new","config":"c","configHash":"sha256:1","profile":"native","deployment":{deployed},"bootId":"{boot}","applied":[],"unsupported":[],"deferred":[],"createdDirectories":[],"originals":[]}}"#
    );
    StagedGeneration {
        version: VERSION,
        record: GenerationRecord::parse(record.as_bytes()).unwrap(),
        deployment: serde_json::from_str(deployed).unwrap(),
        kernel_arguments: KernelArguments::parse("rw"),
        layering: PackageLayering::default(),
        document: Value::Null,
        base: DeploymentId { stateroot: "os".into(), commit: "c1".into(), serial: 0 },
        replaces: Some("old".into()),
        staged_in_boot: boot.into(),
        failures: Vec::new(),
        completes_first_boot: false,
        had_network: false,
        transactions: 0,
    }
}

fn failure(boot: &str) -> UpdateFailure {
    UpdateFailure {
        boot_id: boot.into(),
        kind: FailureKind::ConfigNotWritten,
        reason: "disk full".to_owned(),
    }
}

#[test]
fn rendered_pending_record_parses_to_the_same() {
    let written = [
        intent("b").render(),
        PendingEntry::Unlocked { boot_id: "b".into() }.render(),
        PendingEntry::Failed(failure("b")).render(),
        PendingEntry::BootedWithoutConfig { boot_id: "n".into() }.render(),
        PendingEntry::Finalized { boot_id: "b".into() }.render(),
        PendingEntry::Booted { boot_id: "n".into() }.render(),
        PendingEntry::ShutDown { boot_id: "n".into() }.render(),
        PendingEntry::Rejected { boot_id: "n".into(), reason: "it is sick".into() }.render(),
    ];
    let pending = PendingGeneration::parse(&written.concat()).unwrap();
    assert_eq!(pending.staged, intent("b"));
    assert_eq!(pending.unlocked_in, Some("b".into()));
    assert_eq!(pending.failure, Some(failure("b")));
    assert_eq!(pending.booted_without_config_in, ["n"]);
    assert_eq!((pending.is_finalized, pending.booted_in), (true, vec!["n".into()]));
    assert_eq!(pending.shut_down_in, ["n"]);
    assert_eq!(pending.rejected.as_deref(), Some("it is sick"));
    let first = PendingGeneration::parse(&intent("b").render()).unwrap();
    assert_eq!(first, PendingGeneration::new(intent("b")));
}

#[test]
fn cut_off_last_line_is_ignored_and_damage_is_refused() {
    let mut written = intent("b").render();
    written.extend_from_slice(b"0123456789abcdef {\"reached\":");
    assert_eq!(PendingGeneration::parse(&written).unwrap().unlocked_in, None);
    written.push(b'\n');
    assert!(matches!(PendingGeneration::parse(&written), Err(PendingError::Damaged { line: 2 })));
    assert!(matches!(PendingGeneration::parse(b""), Err(PendingError::Damaged { line: 1 })));
    let later = StagedGeneration { version: VERSION + 1, ..intent("b") };
    let refused = PendingGeneration::parse(&later.render());
    assert!(matches!(refused, Err(PendingError::Version(version)) if version == VERSION + 1));
    let unknown = [intent("b").render(), log_line::render(&serde_json::json!({"state": "later"}))].concat();
    assert!(matches!(PendingGeneration::parse(&unknown), Err(PendingError::Unknown { line: 2, .. })));
}

#[test]
fn record_of_an_unknown_schema_is_refused_in_a_known_version() {
    let mut first = serde_json::to_value(intent("b")).unwrap();
    first["record"]["schema"] = 9.into();
    let refused = PendingGeneration::parse(&log_line::render(&first)).unwrap_err();
    assert!(
        matches!(&refused, PendingError::Unknown { line: 1, source } if source.to_string().contains("schema 9"))
    );
}

#[test]
fn generation_staged_again_keeps_earlier_failures() {
    let pending = PendingGeneration::parse(&intent("b").render()).unwrap();
    let again = pending.restaged(failure("b"), pending.staged.deployment.clone(), "later".into());
    let read = PendingGeneration::parse(&again.render()).unwrap();
    assert_eq!(read.failure, Some(failure("b")));
    assert_eq!(read.staged.staged_in_boot, "later");
}

//! Values of format 1: each names every member, each list has several entries, and each log all of its entries.

use std::collections::BTreeMap;

use flameholder::core::config::layering::PackageLayering;
use flameholder::core::enablement::UnitName;
use flameholder::core::image_policy::{KeyFile, PolicyEnforcement, SignatureVerdict};
use flameholder::core::state::blocked::{self, BlockedTarget};
use flameholder::core::state::boot_check::CheckResult;
use flameholder::core::state::journal::{
    self, Journal, JournalIntent, JournalMove, JournalScope, TransactionState,
};
use flameholder::core::state::objects::{self, ActiveManifest, LastBooted, Manifest, ManifestEntry};
use flameholder::core::state::pending::rollback_pin::{self, RollbackPin};
use flameholder::core::state::pending::unconfirmed_mark::{self, UnconfirmedMark};
use flameholder::core::state::pending::{
    self, FailureKind, PendingEntry, PendingGeneration, StagedGeneration, UpdateFailure,
};
use flameholder::core::state::reboot_grant::{self, LockAddress, LockSlot, RebootGrant};
use flameholder::core::state::record::{self, DeploymentRecord, GenerationRecord};
use flameholder::core::state::service_action::ServiceAction;
use flameholder::core::values::deployment::DeploymentId;
use flameholder::core::values::identifiers::GenerationId;
use flameholder::core::values::kernel_arguments::KernelArguments;
use flameholder::core::values::names::ManagedPath;
use flameholder::core::values::profile::Profile;
use flameholder::core::values::tree::{ContentDigest, FileAttributes};

use super::sample::DocumentSample;

/// Boots in which the update was staged, and in which its generation ran.
const STAGED_IN: &str = "11111111-2222-4333-8444-555555555555";
const BOOTED_IN: &str = "66666666-7777-4888-9999-aaaaaaaaaaaa";

pub(super) fn samples() -> Vec<DocumentSample> {
    let (record, manifest, active, blocked) = (record(), manifest(), active(), blocked());
    let grant = grant();
    let (pin, mark) = (pin(), mark());
    let digest = ContentDigest::of(&manifest.render());
    let parse_manifest = move |bytes: &[u8]| Manifest::parse(digest, bytes);
    let mut samples = vec![
        DocumentSample::new("generation", record.render(), &record, GenerationRecord::parse),
        DocumentSample::new("manifest", manifest.render(), &manifest, parse_manifest),
        DocumentSample::new("active", active.render(), &active, ActiveManifest::parse),
        DocumentSample::new("blocked", blocked.render(), &blocked, BlockedTarget::parse),
        DocumentSample::new("reboot-grant", grant.render(), &grant, RebootGrant::parse),
        DocumentSample::new("pinned", pin.render(), &pin, |bytes| {
            RollbackPin::parse(bytes).ok_or("unreadable")
        }),
        DocumentSample::new("unconfirmed", mark.render(), &mark, |bytes| {
            UnconfirmedMark::parse(bytes).ok_or("unreadable")
        }),
        pending(),
    ];
    samples.extend(journals());
    samples
}

fn path(spelled: &str) -> ManagedPath {
    ManagedPath::constant(spelled)
}

fn attributes(mode: u32, owner: u32) -> FileAttributes {
    FileAttributes { mode, uid: owner, gid: owner + 1 }
}

fn generation() -> GenerationId {
    "0123456789abcdef0123456789abcdef".into()
}

fn previous_generation() -> GenerationId {
    "fedcba9876543210fedcba9876543210".into()
}

fn deployment(digit: &str, serial: u32) -> DeploymentId {
    DeploymentId { stateroot: "fedora-coreos".to_owned(), commit: digit.repeat(64), serial }
}

fn digest(text: &str) -> ContentDigest {
    ContentDigest::of(text.as_bytes())
}

fn deployment_record() -> DeploymentRecord {
    DeploymentRecord {
        stateroot: "fedora-coreos".to_owned(),
        commit: "2".repeat(64),
        serial: 1,
        image: Some("ostree-unverified-registry:registry.example/os@sha256:2".to_owned()),
        image_digest: Some(digest("image").to_string()),
        signature: Some(SignatureVerdict {
            rule: "transports.docker.\"registry.example\"".to_owned(),
            demand: "a sigstore signature by /etc/pki/os.pub".to_owned(),
            key_files: vec![KeyFile {
                path: "/etc/pki/os.pub".to_owned(),
                digest: digest("key").to_string(),
            }],
            enforcement: PolicyEnforcement::Proven,
        }),
        config_image: Some("registry.example/os:2".to_owned()),
        kernel_arguments: KernelArguments::parse("quiet hugepagesz=2M dyndbg=\"file a +p\""),
        taken_over: KernelArguments::parse("nosmt"),
    }
}

fn record() -> GenerationRecord {
    GenerationRecord {
        schema: record::SCHEMA,
        generation: generation(),
        sequence: 7,
        config: "rendered-worker-2".into(),
        config_hash: digest("config").to_string().into(),
        profile: Profile::Mcd,
        deployment: Some(deployment_record()),
        boot_id: STAGED_IN.into(),
        layered_image: Some("registry.example/layered@sha256:3".to_owned()),
        manifest: Some(digest("manifest")),
        applied: ["files", "units"].map(str::to_owned).to_vec(),
        unsupported: vec!["spec.fips: set at installation only".to_owned()],
        deferred: vec!["/usr/local/bin/tool: activation puts it in place".to_owned()],
        created_directories: vec![path("/etc/app"), path("/etc/app/parts")],
        originals: vec![path("/etc/hosts"), path("/etc/motd")],
        labels: BTreeMap::from([(path("/etc/app"), "system_u:object_r:etc_t:s0".to_owned())]),
    }
}

fn manifest() -> Manifest {
    let file = ManifestEntry::File { digest: digest("tool"), attributes: attributes(0o755, 0) };
    Manifest {
        schema: objects::SCHEMA,
        profile: Profile::Native,
        entries: BTreeMap::from([
            (path("/usr/local/bin/tool"), file),
            (path("/opt/link"), ManifestEntry::Symlink { target: "../tool".to_owned(), owner: (1000, 1001) }),
            (path("/opt/name"), ManifestEntry::HardLink { target: path("/usr/local/bin/tool") }),
            (path("/var/lib/app"), ManifestEntry::Directory { attributes: attributes(0o2770, 1000) }),
            (path("/var/lib/gone"), ManifestEntry::Absent),
        ]),
        owned_parents: BTreeMap::from([(path("/var/lib/app"), attributes(0o750, 1000))]),
        labels: BTreeMap::from([(path("/usr/local/bin/tool"), "system_u:object_r:bin_t:s0".to_owned())]),
    }
}

fn active() -> ActiveManifest {
    ActiveManifest {
        schema: objects::SCHEMA,
        manifest: Some(digest("manifest")),
        originals: vec![path("/usr/local/bin/tool")],
        created_directories: vec![path("/var/lib/app"), path("/var/lib/app/parts")],
        last_booted: Some(LastBooted { deployment: deployment("2", 1), generation: generation(), latest: 7 }),
        remaining: BTreeMap::from([(path("/opt/gone"), ManifestEntry::Absent)]),
    }
}

fn blocked() -> BlockedTarget {
    BlockedTarget {
        schema: blocked::SCHEMA,
        config: "rendered-worker-2".into(),
        config_hash: digest("config").to_string().into(),
        layered_image: Some("registry.example/layered@sha256:3".to_owned()),
        image_digest: Some(digest("image").to_string()),
        generation: Some(generation()),
        reason: "boot check did not pass within 600 seconds: 10-app".to_owned(),
        failed_checks: vec![
            CheckResult::failed("network", "no interface is up"),
            CheckResult {
                output: "the app is sick\n".to_owned(),
                ..CheckResult::failed("check 10-app", "failed with exit code 1")
            },
        ],
        attempts: 2,
    }
}

fn grant() -> RebootGrant {
    let lock = ("https://lock.example.com", "workers", "a1b2");
    RebootGrant {
        schema: reboot_grant::SCHEMA,
        config: "rendered-worker-2".into(),
        layered_image: Some(format!("registry/os@{}", digest("layered"))),
        config_hash: Some(digest("config").to_string().into()),
        since: "2026-11-28T20:00:00Z".parse().expect("a constant time is one"),
        slot: Some(LockSlot {
            address: LockAddress::FleetLock { server: lock.0.to_owned() },
            group: lock.1.to_owned(),
            id: lock.2.to_owned(),
            granted: true,
        }),
        granted_in: Some(STAGED_IN.into()),
    }
}

fn pin() -> RollbackPin {
    RollbackPin { schema: rollback_pin::SCHEMA, deployment: deployment("1", 0), earlier: Vec::new() }
}

fn mark() -> UnconfirmedMark {
    UnconfirmedMark {
        schema: unconfirmed_mark::SCHEMA,
        generation: generation(),
        deployment: deployment("2", 1),
        base: deployment("1", 0),
        completes_first_boot: true,
    }
}

fn failure(kind: FailureKind) -> UpdateFailure {
    UpdateFailure { boot_id: STAGED_IN.into(), kind, reason: format!("{kind:?}") }
}

fn staged() -> StagedGeneration {
    use FailureKind::{BootedWithoutConfig, ConfigNotWritten, Interrupted, NotFinalized, NotUnlocked};
    let failures = [ConfigNotWritten, NotFinalized, Interrupted, NotUnlocked, BootedWithoutConfig];
    StagedGeneration {
        version: pending::VERSION,
        record: record(),
        deployment: deployment_record(),
        kernel_arguments: KernelArguments::parse("root=UUID=1 quiet hugepagesz=2M"),
        layering: PackageLayering {
            requested: vec!["usbguard".to_owned()],
            removed: vec!["kernel-core".to_owned()],
        },
        document: serde_json::json!({"kind": "MachineConfig", "metadata": {"name": "rendered-worker-2"}}),
        base: deployment("1", 0),
        replaces: Some(previous_generation()),
        staged_in_boot: STAGED_IN.into(),
        failures: failures.map(failure).to_vec(),
        completes_first_boot: true,
        transactions: 3,
        had_network: true,
    }
}

/// The entries of a pending record one after the other. An entry that is added needs a place here.
fn entry_after(entry: Option<&PendingEntry>) -> Option<PendingEntry> {
    let (staged_in, booted_in) = (|| STAGED_IN.into(), || BOOTED_IN.into());
    let next = match entry {
        None => PendingEntry::Unlocked { boot_id: staged_in() },
        Some(PendingEntry::Unlocked { .. }) => PendingEntry::Failed(failure(FailureKind::NotFinalized)),
        Some(PendingEntry::Failed(_)) => PendingEntry::Finalized { boot_id: staged_in() },
        Some(PendingEntry::Finalized { .. }) => PendingEntry::BootedWithoutConfig { boot_id: booted_in() },
        Some(PendingEntry::BootedWithoutConfig { .. }) => PendingEntry::Booted { boot_id: booted_in() },
        Some(PendingEntry::Booted { .. }) => PendingEntry::ShutDown { boot_id: booted_in() },
        Some(PendingEntry::ShutDown { .. }) => {
            PendingEntry::Rejected { boot_id: booted_in(), reason: "10-app: the app is sick".to_owned() }
        }
        Some(PendingEntry::Rejected { .. }) => return None,
        #[cfg(feature = "next-schema")]
        Some(PendingEntry::Next) => return None,
    };
    Some(next)
}

fn pending() -> DocumentSample {
    let (staged_in, booted_in) = (|| STAGED_IN.into(), || BOOTED_IN.into());
    let entries: Vec<PendingEntry> =
        std::iter::successors(entry_after(None), |entry| entry_after(Some(entry))).collect();
    let expected = PendingGeneration {
        staged: staged(),
        unlocked_in: Some(staged_in()),
        failure: Some(failure(FailureKind::NotFinalized)),
        booted_without_config_in: vec![booted_in()],
        is_finalized: true,
        booted_in: vec![booted_in()],
        shut_down_in: vec![booted_in()],
        rejected: Some("10-app: the app is sick".to_owned()),
    };
    let lines = std::iter::once(staged().render()).chain(entries.iter().map(PendingEntry::render));
    DocumentSample::new("pending", lines.flatten().collect(), &expected, PendingGeneration::parse)
}

fn intent() -> JournalIntent {
    let slot = |number: &str| path("/etc/.flameholder.d").join(number);
    let unit = || UnitName::parse("app@1.service").unwrap();
    JournalIntent {
        version: journal::VERSION,
        boot_id: BOOTED_IN.into(),
        scope: JournalScope::Deployment,
        current: Some(previous_generation()),
        target: Some(generation()),
        staging: vec![path("/etc/.flameholder.d"), path("/var/.flameholder.d")],
        staging_inodes: Vec::new(),
        volatile_staging: Vec::new(),
        moves: vec![
            JournalMove::Replace { path: path("/etc/a"), slot: slot("0"), inode: u64::MAX, content: None },
            JournalMove::Create { path: path("/etc/b"), slot: slot("1") },
            JournalMove::Remove { path: path("/etc/c"), slot: slot("2") },
            JournalMove::MakeDirectory { path: path("/etc/d"), slot: slot("3") },
            JournalMove::RemoveDirectory { path: path("/etc/e"), slot: slot("4") },
            JournalMove::SetAttributes {
                path: path("/etc/f"),
                before: attributes(0o755, 0),
                after: attributes(0o700, 1000),
            },
        ],
        discards: vec![path("/etc/flameholder/originals/0")],
        actions: vec![
            ServiceAction::DaemonReload,
            ServiceAction::Reload { unit: unit() },
            ServiceAction::Restart { unit: unit() },
        ],
    }
}

/// Journal of a change of `/var`, the other scope, before its first move; and one of `/etc` at each later point.
fn journals() -> [DocumentSample; 3] {
    let var = JournalIntent { scope: JournalScope::Var, current: None, target: None, ..intent() };
    let journal = |name: &'static str, intent: JournalIntent, states: &[TransactionState]| {
        let lines = std::iter::once(intent.render()).chain(states.iter().map(TransactionState::render));
        let state = states.last().copied().unwrap_or(TransactionState::Prepared);
        DocumentSample::new(name, lines.flatten().collect(), &Journal { intent, state }, Journal::parse)
    };
    let acting = [1, 2].map(|begun| TransactionState::Acting { begun });
    [
        journal("journal-prepared", var, &[]),
        journal("journal-acting", intent(), &acting),
        journal("journal-committed", intent(), &[acting[0], acting[1], TransactionState::Committed]),
    ]
}

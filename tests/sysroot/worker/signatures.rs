//! Pulls of images that must be signed, by skopeo releases that enforce `containers/policy.json` and by those
//! that do not. The installed skopeo may be either; a stand-in first in `PATH` answers as another release.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use flameholder::core::image_policy::{KeyFile, PolicyEnforcement};
use flameholder::core::values::image::ImageRef;
use flameholder::core::values::tree::ContentDigest;
use flameholder::os::protocol::SysrootAccess;
use flameholder::os::worker::{IMAGE_SIGNATURE, WorkerProgram, WorkerSession};
use flameholder::os::{ImportedCommit, OsError, PullFailure, Sysroot as _};
use osimage::{ArtifactLayout, ImageRegistry, Os, RegistryAnswers};
use testbed::offline;
use testbed::worker::{Host, program, worker_after};

use crate::mounts::run_between;

const POLICY: &str = "/etc/containers/policy.json";
const REJECTING: &str = r#"{"default": [{"type": "reject"}]}"#;
/// Accepts the images of the tests, and no other one.
const SELECTIVE: &str =
    r#"{"default": [{"type": "reject"}], "transports": {"oci": {"": [{"type": "insecureAcceptAnything"}]}}}"#;
const ACCEPTING: &str = r#"{"default": [{"type": "insecureAcceptAnything"}]}"#;
const UNKNOWN: &str = r#"{"default": [{"type": "aKindOfTheFuture"}]}"#;
const DEMANDING: &str = r#"{"default": [{"type": "insecureAcceptAnything"}],
    "transports": {"oci": {"": [{"type": "sigstoreSigned", "keyPath": "/etc/pki/os.pub", "signedIdentity": {"type": "matchRepository"}}]}}}"#;
/// Behaves like an enforcing release, as skopeo 1.14 does, with any policy but the host's.
const ENFORCES_PROBE: &str = "case \"$2\" in /etc/*) exec REAL \"$@\" ;; esac\n";
/// Rejects the first image and waits for the end of the connection.
const REJECTS: &str = "answer '{\"success\":true,\"value\":\"0.2.6\",\"pipeid\":0,\"error\":\"\"}'\n\
     answer '{\"success\":false,\"value\":null,\"pipeid\":0,\"error\":\"Running image oci:/x is rejected by policy.\"}'\n\
     cat >/dev/null";

fn signed(host: &Host, name: &str) -> ImageRef {
    let unverified = host.image(&Os::new(2), name).to_string();
    unverified.replace("ostree-unverified-image:", "ostree-image-signed:").parse().unwrap()
}

/// The worker on a host with this policy, and temporary files in `tmp`.
pub(super) fn worker_with(host: &Host, policy: &str, script: &str) -> WorkerProgram {
    let (file, temporary) = (host.path("policy.json"), host.path("tmp"));
    fs::write(&file, policy).unwrap();
    fs::create_dir_all(&temporary).unwrap();
    let bind = format!("mount --bind {} {POLICY}\n{script}", file.display());
    worker_after(host, &bind).with_env("TMPDIR", temporary)
}

/// Installs a script that answers as another release of skopeo, and returns a script that puts it first in `PATH`.
fn stand_in(host: &Host, body: &str) -> String {
    let found = Command::new("sh").args(["-c", "command -v skopeo"]).output().unwrap();
    let real = String::from_utf8(found.stdout).unwrap();
    let text = format!(
        "#!/bin/sh\n[ \"$1\" != --version ] || exec REAL \"$@\"\nanswer() {{ dd bs=32768 count=1 status=none >/dev/null; printf '%s' \"$1\" >&0; }}\n{body}\n"
    );
    install_skopeo(host, &text.replace("REAL", real.trim()))
}

/// Installs a shell script as `skopeo`, and returns a script that puts it first in `PATH`.
pub(super) fn install_skopeo(host: &Host, script: &str) -> String {
    let directory = host.path("bin");
    fs::create_dir(&directory).unwrap();
    let source = host.path("skopeo-script");
    fs::write(&source, script).unwrap();
    let installed = Command::new("install").arg(&source).arg(directory.join("skopeo")).status();
    assert!(installed.unwrap().success());
    format!("PATH={}:$PATH", directory.display())
}

pub(super) fn import(
    host: &Host,
    program: &WorkerProgram,
    image: &ImageRef,
) -> Result<ImportedCommit, OsError> {
    host.write_with(program).unwrap().import(&image.clone().into(), &mut |_| ())
}

/// Imports an image that must be refused, and returns the reason and its cause. Nothing may be imported or left.
pub(super) fn refusal(host: &Host, program: &WorkerProgram, image: &ImageRef) -> (PullFailure, String) {
    let deployments = host.deployments();
    let images = imported(host);
    let outcome = import(host, program, image);
    let Err(OsError::Pull { reason, source, .. }) = outcome else { panic!("{outcome:?}") };
    eprintln!("{reason:?}: {source}");
    assert_eq!(host.deployments(), deployments);
    assert_eq!(imported(host), images, "imported images");
    assert_nothing_left(&host.path("tmp"));
    (reason, source.to_string())
}

fn assert_nothing_left(temporary: &Path) {
    let left: Vec<_> = fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Refs of images in the repository.
fn imported(host: &Host) -> String {
    let repo = format!("--repo={}", host.sysroot().join("ostree/repo").display());
    let listed = Command::new("ostree").args(["refs", &repo, "--list"]).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    String::from_utf8(listed.stdout).unwrap()
}

fn installed_version() -> String {
    let output = Command::new("skopeo").arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn unsigned_image_is_refused_by_the_installed_skopeo_or_for_it() {
    let host = Host::new();
    let image = signed(&host, "v2");
    let (reason, cause) = refusal(&host, &worker_with(&host, REJECTING, ""), &image);
    match reason {
        PullFailure::PolicyNotEnforced => assert!(cause.contains(&installed_version()), "{cause}"),
        // A release that enforces the policy refuses the image itself.
        reason => assert_eq!(reason, PullFailure::SignatureRejected, "{cause}"),
    }
}

#[test]
fn signed_reference_to_an_unsigned_image_is_not_deployed() {
    let host = offline::Host::new();
    let image = host.image(&Os::new(2)).replace("ostree-unverified-image:", "ostree-image-signed:");
    let desired = host.config(&offline::small_config("desired", &[("/etc/managed.conf", "1\n")], &[]));
    let policy = host.path("policy.json");
    fs::write(&policy, REJECTING).unwrap();
    let (before, menu) = (host.boot_snapshot(), host.entries().len());
    let bind = format!("mount --bind {} {POLICY}", policy.display());
    let outcome = run_between(&bind, &host.apply_command(&desired, Some(&image)), "");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let refused = outcome.stderr.contains("rejected by policy");
    assert!(refused || outcome.stderr.contains(&installed_version()), "{outcome:?}");
    assert!(refused || outcome.stderr.contains("skopeo copy"), "{outcome:?}");
    assert_eq!(testbed::model::snapshot::changes(&before, &host.boot_snapshot()), [""; 0]);
    assert_eq!(host.entries().len(), menu);
}

#[test]
fn image_that_the_policy_accepts_is_pulled_where_it_is_enforced() {
    let host = Host::new();
    let image = signed(&host, "v2");
    let script = stand_in(&host, &format!("{ENFORCES_PROBE}{REJECTS}"));
    let imported = import(&host, &worker_with(&host, SELECTIVE, &script), &image).unwrap();
    assert_eq!(imported.version, Some(Os::new(2).version()));
    assert_nothing_left(&host.path("tmp"));
}

#[test]
fn image_that_the_policy_rejects_is_refused_where_it_is_enforced() {
    let host = Host::new();
    let image = signed(&host, "v2");
    let script = stand_in(&host, REJECTS);
    let (reason, cause) = refusal(&host, &worker_with(&host, REJECTING, &script), &image);
    assert_eq!(reason, PullFailure::SignatureRejected, "{cause}");
}

#[test]
fn imported_unsigned_image_does_not_satisfy_a_signed_reference() {
    let host = Host::new();
    let digest = host.default().manifest_digest.unwrap();
    let pinned: ImageRef =
        format!("ostree-image-signed:docker://registry.invalid/os@{digest}").parse().unwrap();
    let script = stand_in(&host, REJECTS);
    let (reason, cause) = refusal(&host, &worker_with(&host, REJECTING, &script), &pinned);
    assert_eq!(reason, PullFailure::SignatureRejected, "{cause}");
}

#[test]
fn required_signature_needs_a_rule_whatever_the_reference_says() {
    let host = Host::new();
    let image = host.image(&Os::new(2), "v2");
    let script = stand_in(&host, &format!("{ENFORCES_PROBE}{REJECTS}"));
    let worker = |policy: &str| worker_with(&host, policy, &script).with_env(IMAGE_SIGNATURE, "required");
    for (policy, rule) in [
        (ACCEPTING, "default, demands nothing"),
        (SELECTIVE, "transports.oci, demands nothing"),
        (UNKNOWN, "default, demands aKindOfTheFuture"),
    ] {
        let (reason, cause) = refusal(&host, &worker(policy), &image);
        assert_eq!(reason, PullFailure::SignatureNotDemanded, "{cause}");
        assert!(cause.ends_with(rule), "{cause}");
    }
    // A rule that demands a signature, which the stand-in does not verify.
    let verified = import(&host, &worker(DEMANDING), &image).unwrap();
    assert_eq!(verified.version, Some(Os::new(2).version()));
    let verdict = verified.signature.unwrap();
    assert_eq!((verdict.enforcement, verdict.rule.as_str()), (PolicyEnforcement::Proven, "transports.oci"));
    // The image in the repository may have come there unverified.
    let digest = host.default().manifest_digest.unwrap();
    let pinned: ImageRef =
        format!("ostree-unverified-registry:registry.invalid/os@{digest}").parse().unwrap();
    let (reason, _) = refusal(&host, &worker(DEMANDING), &pinned);
    assert_eq!(reason, PullFailure::SignatureNotDemanded);
}

#[test]
fn required_signature_is_not_taken_for_verified_by_a_skopeo_that_verifies_none() {
    let host = Host::new();
    let image = host.image(&Os::new(2), "v2");
    let script = stand_in(&host, "exec REAL \"$1\" \"$2\" /dev/null \"$3\"");
    let worker = worker_with(&host, DEMANDING, &script).with_env(IMAGE_SIGNATURE, "required");
    let (reason, _) = refusal(&host, &worker, &image);
    assert!(matches!(reason, PullFailure::PolicyNotEnforced | PullFailure::PolicyNotProven), "{reason:?}");
}

#[test]
fn verdict_tells_if_the_demanded_signature_was_verified() {
    let host = Host::new();
    let (image, accepting, key) =
        (host.image(&Os::new(2), "v2"), host.path("accepting.json"), host.path("os.pub"));
    fs::write(&accepting, ACCEPTING).unwrap();
    fs::write(&key, "key").unwrap();
    let demanding = DEMANDING.replace("/etc/pki/os.pub", &key.display().to_string());
    // Verifies nothing, whatever policy it is given.
    let body =
        format!("[ \"$1\" != --policy ] || shift 2; exec REAL --policy {} \"$@\"", accepting.display());
    let script = stand_in(&host, &body);
    let verdict = |policy: &str| {
        import(&host, &worker_with(&host, policy, &script), &image).unwrap().signature.unwrap()
    };
    let unneeded = verdict(ACCEPTING);
    assert_eq!((unneeded.enforcement, unneeded.is_doubtful()), (PolicyEnforcement::NotNeeded, false));
    let unverified = verdict(&demanding);
    assert_eq!((unverified.enforcement, unverified.is_doubtful()), (PolicyEnforcement::Absent, true));
    let digest = ContentDigest::of(b"key").to_string();
    assert_eq!(unverified.key_files, [KeyFile { path: key.display().to_string(), digest }]);
    assert!(unverified.to_string().starts_with("not verified: rule transports.oci demands"), "{unverified}");
}

#[test]
fn artifact_that_must_be_signed_is_refused_where_the_policy_is_not_enforced() {
    let host = Host::new();
    let layout = ArtifactLayout::create(&host.path("artifact")).unwrap();
    layout.push_files(&[("a.bu", "a")]).unwrap();
    let registry = ImageRegistry::start(RegistryAnswers::Layout(layout.path().to_owned())).unwrap();
    registry.write_home(&host.path("home")).unwrap();
    let accepting = host.path("accepting.json");
    fs::write(&accepting, ACCEPTING).unwrap();
    let artifact = format!("oci://{}/os:stable", registry.address()).parse().unwrap();
    // Verifies nothing, whatever policy it is given.
    let body =
        format!("[ \"$1\" != --policy ] || shift 2; exec REAL --policy {} \"$@\"", accepting.display());
    let script = stand_in(&host, &body);
    let pull = |policy: &str| {
        let worker = worker_with(&host, policy, &script).with_env("HOME", host.path("home"));
        WorkerSession::pull_artifact(&worker, &artifact, None)
    };
    for policy in [REJECTING, &DEMANDING.replace("\"oci\"", "\"docker\"")] {
        let refused = pull(policy);
        let Err(OsError::Pull { reason, source, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(reason, PullFailure::PolicyNotEnforced, "{source}");
    }
    assert_eq!(registry.manifests(), 0);
    let refused = pull("{");
    assert!(refused.is_err_and(|error| error.to_string().contains("policy.json")));
    assert!(pull(ACCEPTING).unwrap().is_some());
}

#[test]
fn unknown_word_for_the_demand_opens_no_session() {
    let host = Host::new();
    let worker = worker_with(&host, DEMANDING, "").with_env(IMAGE_SIGNATURE, "yes");
    let refused = WorkerSession::open(&worker, &host.sysroot(), SysrootAccess::Read).unwrap_err();
    assert!(refused.to_string().contains("FLAMEHOLDER_IMAGE_SIGNATURE"), "{refused}");
}

#[test]
fn failed_probe_refuses_the_image_with_its_reason() {
    for (body, word) in [
        ("echo 'no such flag' >&2; exit 3", "no such flag"),
        (
            "answer '{\"success\":false,\"value\":null,\"pipeid\":0,\"error\":\"out of order\"}'",
            "out of order",
        ),
        ("answer nonsense", "Initialize"),
    ] {
        let host = Host::new();
        let image = signed(&host, "v2");
        let script = stand_in(&host, body);
        let (reason, cause) = refusal(&host, &worker_with(&host, REJECTING, &script), &image);
        assert_eq!(reason, PullFailure::PolicyNotProven, "{cause}");
        assert!(cause.contains(word), "{word} in {cause}");
    }
}

#[test]
fn skopeo_that_does_not_answer_is_ended() {
    let host = Host::new();
    let image = signed(&host, "v2");
    let process = host.path("process");
    let script = stand_in(&host, &format!("echo $$ >{}; exec sleep infinity", process.display()));
    let (reason, cause) = refusal(&host, &worker_with(&host, REJECTING, &script), &image);
    assert_eq!(reason, PullFailure::PolicyNotProven, "{cause}");
    assert!(cause.contains("did not answer"), "{cause}");
    let process = fs::read_to_string(process).unwrap();
    assert!(!Path::new("/proc").join(process.trim()).exists(), "process {process}");
}

/// Under systemd ostree-ext runs skopeo as an unprivileged user, who must be able to read image and policy of the
/// probe.
#[test]
fn probe_runs_as_the_user_of_the_pull() {
    let host = Host::new();
    let image: ImageRef = "ostree-image-signed:docker://registry.invalid/os:1".parse().unwrap();
    let recorded = host.path("tmp/recorded");
    let script = stand_in(
        &host,
        &format!(
            "id -u >{}; case \"$2\" in /etc/*) ;; *) cat \"$2\" \"${{2%/*}}/index.json\" >/dev/null || exit 9 ;; esac\n{REJECTS}",
            recorded.display()
        ),
    );
    let program = worker_with(&host, REJECTING, &script).with_env("INVOCATION_ID", "0");
    for path in [host.path(""), host.path("bin"), host.path("bin/skopeo")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(host.path("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    let outcome = import(&host, &program, &image);
    let Err(OsError::Pull { reason, source, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(reason, PullFailure::SignatureRejected, "{source}");
    assert_ne!(fs::read_to_string(recorded).unwrap().trim(), "0");
}

#[test]
fn policy_that_accepts_by_default_verifies_no_extensions_image() {
    let host = Host::new();
    let image = signed(&host, "v2");
    let accepting = program();
    let mut session = WorkerSession::open(&accepting, &host.sysroot(), SysrootAccess::Read).unwrap();
    let to = host.path("unpacked");
    fs::create_dir(&to).unwrap();
    let refused = session.unpack(&image, Path::new("/usr"), &to);
    let Err(OsError::Pull { reason, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(reason, PullFailure::SignatureRejected);
    assert_eq!(fs::read_dir(to).unwrap().count(), 0);
}

//! Images that are signed in a registry, pulled by a skopeo that enforces the host's policy: that of Debian 13.

use std::fs;
use std::path::Path;
use std::process::Command;

use flameholder::core::image_policy::PolicyEnforcement;
use flameholder::core::values::image::ImageRef;
use flameholder::core::values::tree::ContentDigest;
use flameholder::os::protocol::SysrootAccess;
use flameholder::os::worker::{IMAGE_SIGNATURE, WorkerProgram, WorkerSession};
use flameholder::os::{OsError, PullFailure, Sysroot as _};
use osimage::{ArtifactLayout, Os};
use serde_json::{Value, json};
use testbed::worker::Host;
use vm::signing::SignatureKind::{Gpg, Sigstore};
use vm::signing::{ImageSigner, SignatureKind};
use vm::{Lab, Registry, program};

use super::signatures::{import, install_skopeo, refusal, worker_with};

/// Registry that the signatures of mirrored images name.
const ORIGIN: &str = "registry.example";

/// Host with a registry, and keys: the host knows those of `signer`, and of `stranger` none.
struct SigningHost {
    host: Host,
    registry: Registry,
    signer: ImageSigner,
    stranger: ImageSigner,
    /// Script that puts the skopeo of the builder's Debian first in `PATH`.
    path: String,
}

impl SigningHost {
    fn new() -> Self {
        let host = Host::new();
        let builder = Lab::builder().unwrap();
        let folder = |name: &str| {
            let folder = host.path(name);
            fs::create_dir(&folder).unwrap();
            folder
        };
        let registry = Registry::start_empty(&builder, &folder("registry")).unwrap();
        let signer = ImageSigner::create(&builder, &folder("signer")).unwrap();
        let stranger = ImageSigner::create(&builder, &folder("stranger")).unwrap();
        let skopeo = program::shown(&program::of_tree(&builder, "usr/bin/skopeo"));
        let path = install_skopeo(&host, &format!("#!/bin/sh\nexec {skopeo} \"$@\"\n"));
        let signing = Self { host, registry, signer, stranger, path };
        signing.write_home();
        signing
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.registry.port())
    }

    fn image(&self, name: &str) -> ImageRef {
        format!("{}/{name}", self.address()).parse().unwrap()
    }

    /// Write a home directory that says where signatures are, and allows plain HTTP.
    fn write_home(&self) {
        let containers = self.host.path("home/.config/containers");
        fs::create_dir_all(containers.join("registries.d")).unwrap();
        let lookaside = format!(
            "default-docker:\n  lookaside: file://{}\n  use-sigstore-attachments: true\n",
            self.signer.keys().lookaside.display()
        );
        fs::write(containers.join("registries.d/tests.yaml"), lookaside).unwrap();
        let address = self.address();
        let registries = format!(
            "[[registry]]\nlocation = \"{address}\"\ninsecure = true\n\
             [[registry]]\nprefix = \"{ORIGIN}\"\nlocation = \"{ORIGIN}\"\nblocked = true\n\
             [[registry.mirror]]\nlocation = \"{address}/mirror\"\ninsecure = true\n"
        );
        fs::write(containers.join("registries.conf"), registries).unwrap();
    }

    /// Write a version of the OS to an OCI layout. Returns its path and the digest of the image.
    fn layout(&self, version: u32) -> (String, String) {
        let layout = self.host.path(&format!("layout-{version}"));
        let digest = osimage::write_image(&Os::new(version), &layout, None).unwrap();
        (layout.display().to_string(), digest)
    }

    /// Push an unsigned image of a version, and return its digest.
    fn push(&self, version: u32, name: &str) -> String {
        let (layout, digest) = self.layout(version);
        self.signer.push(&layout, &format!("{}/{name}", self.address())).unwrap();
        digest
    }

    /// Push an image of a version that is signed for this identity, or for its name, and return its digest.
    fn push_signed(&self, version: u32, name: &str, kind: SignatureKind, identity: Option<&str>) -> String {
        let (layout, digest) = self.layout(version);
        let image = format!("{}/{name}", self.address());
        self.signer.push_signed(&layout, &image, kind, identity).unwrap();
        digest
    }

    /// Push an image of a version with a signature by the stranger, which is where the host looks for it.
    fn push_by_stranger(&self, version: u32, name: &str, kind: SignatureKind) {
        let (layout, _) = self.layout(version);
        let image = format!("{}/{name}", self.address());
        self.stranger.push_signed(&layout, &image, kind, None).unwrap();
        let signatures = self.stranger.keys().lookaside.join(".");
        let copied = Command::new("cp").arg("-a").args([signatures, self.signer.keys().lookaside]).status();
        assert!(copied.unwrap().success());
    }

    /// The worker under this policy, of which signatures are demanded.
    fn worker(&self, policy: &Value) -> WorkerProgram {
        let worker = worker_with(&self.host, &policy.to_string(), &self.path);
        worker.with_env("HOME", self.host.path("home")).with_env(IMAGE_SIGNATURE, "required")
    }

    /// Requirement of a signature by the signer's key.
    fn requirement(&self, kind: SignatureKind, identity: Option<Value>) -> Value {
        let mut requirement = match kind {
            Gpg => json!({"type": "signedBy", "keyType": "GPGKeys", "keyPath": self.signer.keys().gpg}),
            Sigstore => json!({"type": "sigstoreSigned", "keyPath": self.signer.keys().sigstore}),
        };
        if let Some(identity) = identity {
            requirement["signedIdentity"] = identity;
        }
        requirement
    }
}

fn policy(scope: &str, requirement: &Value) -> Value {
    json!({"default": [{"type": "reject"}], "transports": {"docker": {scope: [requirement]}}})
}

/// Pull images with and without a signature of this kind, under a policy that demands one for the whole registry.
fn pull_signed_and_others(kind: SignatureKind, unsigned: &str, by_stranger: &str) {
    let signing = SigningHost::new();
    let address = signing.address();
    let digest = signing.push_signed(2, "os:signed", kind, None);
    let other = signing.push(3, "os:unsigned");
    signing.push_by_stranger(4, "os:of-a-stranger", kind);
    signing.push_signed(5, "other:signed", kind, Some(&format!("{address}/os:signed")));
    let worker = signing.worker(&policy(&address, &signing.requirement(kind, None)));

    for (name, words) in [
        ("os:unsigned".to_owned(), unsigned),
        (format!("os@{other}"), unsigned),
        ("os:of-a-stranger".to_owned(), by_stranger),
        ("other:signed".to_owned(), "is not accepted"),
    ] {
        let (reason, cause) = refusal(&signing.host, &worker, &signing.image(&name));
        assert_eq!(reason, PullFailure::SignatureRejected, "{name}: {cause}");
        assert!(cause.contains(words), "{name}: {cause}");
    }
    for name in ["os:signed".to_owned(), format!("os@{digest}")] {
        let imported = import(&signing.host, &worker, &signing.image(&name)).unwrap();
        assert_eq!(imported.manifest_digest.as_ref(), Some(&digest), "{name}");
        let verdict = imported.signature.unwrap();
        assert_eq!(verdict.enforcement, PolicyEnforcement::Proven, "{name}");
        assert_eq!(verdict.rule, format!("transports.docker.\"{address}\""));
        let [key] = &verdict.key_files[..] else { panic!("{verdict:?}") };
        assert_eq!(key.digest, ContentDigest::of(&fs::read(&key.path).unwrap()).to_string());
    }
}

#[test]
fn gpg_signature_is_verified_for_key_image_and_repository() {
    pull_signed_and_others(Gpg, "no signature exists", "Invalid GPG signature");
}

#[test]
fn sigstore_signature_is_verified_for_key_image_and_repository() {
    pull_signed_and_others(Sigstore, "no signature exists", "cryptographic signature verification failed");
}

/// The signature names the origin; the reference names the mirror, or the origin, which is read from the mirror.
#[test]
fn mirrored_image_is_verified_by_the_name_that_its_signature_has() {
    let signing = SigningHost::new();
    let mirror = format!("{}/mirror", signing.address());
    for (kind, version) in [(Gpg, 2), (Sigstore, 3)] {
        let origin = format!("{ORIGIN}/os:{version}");
        let name = format!("mirror/os:{version}");
        let digest = signing.push_signed(version, &name, kind, Some(&origin));
        let exact = signing.requirement(kind, None);
        let worker = signing.worker(&policy(&mirror, &exact));
        let (reason, cause) = refusal(&signing.host, &worker, &signing.image(&name));
        assert_eq!(reason, PullFailure::SignatureRejected, "{cause}");
        assert!(cause.contains(ORIGIN), "{cause}");

        let identity = json!({"type": "remapIdentity", "prefix": mirror, "signedPrefix": ORIGIN});
        let remapped = signing.requirement(kind, Some(identity));
        let worker = signing.worker(&policy(&mirror, &remapped));
        let pinned = signing.image(&format!("mirror/os@{digest}"));
        for image in [signing.image(&name), pinned] {
            let verdict = import(&signing.host, &worker, &image).unwrap().signature.unwrap();
            assert_eq!(verdict.enforcement, PolicyEnforcement::Proven, "{image}");
        }
        let worker = signing.worker(&policy(ORIGIN, &exact));
        let verdict = import(&signing.host, &worker, &origin.parse().unwrap()).unwrap().signature.unwrap();
        assert_eq!(verdict.rule, format!("transports.docker.\"{ORIGIN}\""));
        assert_eq!(verdict.enforcement, PolicyEnforcement::Proven, "{origin}");
    }
}

#[test]
fn rule_without_the_place_of_its_signatures_accepts_no_image() {
    let signing = SigningHost::new();
    signing.push_signed(2, "os:signed", Sigstore, None);
    fs::remove_dir_all(signing.host.path("home/.config/containers/registries.d")).unwrap();
    let worker = signing.worker(&policy(&signing.address(), &signing.requirement(Sigstore, None)));
    let (reason, cause) = refusal(&signing.host, &worker, &signing.image("os:signed"));
    assert_eq!(reason, PullFailure::SignatureRejected, "{cause}");
    assert!(cause.contains("no signature exists"), "{cause}");
}

#[test]
fn extensions_are_unpacked_from_a_verified_image_only() {
    let signing = SigningHost::new();
    signing.push_signed(2, "extensions:signed", Sigstore, None);
    signing.push(3, "extensions:unsigned");
    let worker = signing.worker(&policy(&signing.address(), &signing.requirement(Sigstore, None)));
    let to = signing.host.path("unpacked");
    fs::create_dir(&to).unwrap();
    let unpack = |name: &str| {
        let mut session = WorkerSession::open(&worker, &signing.host.sysroot(), SysrootAccess::Read).unwrap();
        session.unpack(&signing.image(name), Path::new("/usr/lib/modules"), &to)
    };
    let refused = unpack("extensions:unsigned");
    let Err(OsError::Pull { reason, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(reason, PullFailure::SignatureRejected);
    assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
    unpack("extensions:signed").unwrap();
    assert!(fs::read_dir(&to).unwrap().count() > 0);
}

#[test]
fn artifact_is_pulled_with_a_signature_only() {
    let signing = SigningHost::new();
    let layout = ArtifactLayout::create(&signing.host.path("artifact")).unwrap();
    let path = layout.path().to_str().unwrap();
    layout.push_files(&[("a.bu", "unsigned")]).unwrap();
    signing.signer.push(path, &format!("{}/configs:unsigned", signing.address())).unwrap();
    let digest = layout.push_files(&[("a.bu", "signed")]).unwrap();
    let signed = format!("{}/configs:signed", signing.address());
    signing.signer.push_signed(path, &signed, Sigstore, None).unwrap();
    let demanding = policy(&signing.address(), &signing.requirement(Sigstore, None));
    // Neither a reference nor a setting demands the signature, but the policy.
    let worker = signing.worker(&demanding).with_env(IMAGE_SIGNATURE, "by-reference");
    let pull = |version: &str| {
        let artifact = format!("oci://{}/configs{version}", signing.address()).parse().unwrap();
        WorkerSession::pull_artifact(&worker, &artifact, None)
    };
    let refused = pull(":unsigned");
    let Err(OsError::Pull { reason, source, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(reason, PullFailure::SignatureRejected, "{source}");
    for version in [":signed", &format!("@{digest}")] {
        assert_eq!(pull(version).unwrap().unwrap().digest, digest);
    }
}

#[test]
fn policy_of_the_host_precedes_one_in_the_home_of_root() {
    let signing = SigningHost::new();
    signing.push(2, "os:unsigned");
    let home = signing.host.path("home/.config/containers/policy.json");
    fs::write(home, r#"{"default": [{"type": "insecureAcceptAnything"}]}"#).unwrap();
    let demanding = policy(&signing.address(), &signing.requirement(Sigstore, None));
    let worker = signing.worker(&demanding).with_env(IMAGE_SIGNATURE, "by-reference");
    let (reason, cause) = refusal(&signing.host, &worker, &signing.image("os:unsigned"));
    assert_eq!(reason, PullFailure::SignatureRejected, "{cause}");
}

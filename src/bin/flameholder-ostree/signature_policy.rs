//! Signature verification by containers-policy.json(5): proves that skopeo's image proxy enforces the policy,
//! before an image that must be signed is pulled through it.
//!
//! The proxy of skopeo before 1.13 ignores the policy, and that of 1.13 ignores `--policy`. Distributions
//! backport, so behaviour decides and not the version: a proxy that opens an image under a policy that
//! rejects every image enforces none.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flameholder::core::config::settings::image::SignatureDemand;
use flameholder::core::image_policy::{
    ImagePolicy, KeyFile, PolicyEnforcement, PolicyRequirement, PolicyRule, SignatureVerdict, SigningKey,
};
use flameholder::core::values::image::{ImageRef, ImageTransport, ImageVerification};
use flameholder::core::values::paths::SIGNATURE_POLICY;
use flameholder::core::values::tree::ContentDigest;
use flameholder::os::worker::IMAGE_SIGNATURE;
use flameholder::os::{OsError, PullFailure, RedactedCause, signature_policy};
use ostree_ext::container::{
    merge_default_container_proxy_opts, merge_default_container_proxy_opts_with_isolation,
};
use ostree_ext::containers_image_proxy::{Error as ProxyError, ImageProxyConfig};
use tokio::time::timeout;

use crate::error_classes::pull_failure;
use crate::import::proxy_config;
use crate::probe_image::ProbeImage;
use crate::proxy_socket::ProxySocket;
use crate::session::other;

/// Time for one run of skopeo without network.
const DEADLINE: Duration = Duration::from_secs(20);
/// Text in the proxy's refusal of an image by policy.
const REJECTED: &str = "rejected by policy";

/// Verification of images by the host's policy, in one session.
pub(crate) struct SignaturePolicy {
    demand: SignatureDemand,
    /// Result of the trial of skopeo's proxy; `None` before it.
    enforcement: Option<PolicyEnforcement>,
}

impl SignaturePolicy {
    /// Read from the environment of which images a signature is demanded.
    pub(crate) fn from_environment() -> Result<Self, OsError> {
        let word = std::env::var_os(IMAGE_SIGNATURE);
        let known = [SignatureDemand::ByReference, SignatureDemand::Required];
        let demand = match &word {
            None => Some(SignatureDemand::default()),
            Some(word) => known.into_iter().find(|demand| word == demand.as_str()),
        };
        match demand {
            Some(demand) => Ok(Self { demand, enforcement: None }),
            None => Err(other(
                &format!("reading {IMAGE_SIGNATURE}"),
                "its value is neither `by-reference` nor `required`; correct it",
            )),
        }
    }

    /// Return true if the reference or the settings demand verification by the host's policy.
    pub(crate) fn governs(&self, image: &ImageRef) -> bool {
        self.demand.governs(image)
    }

    /// Configure skopeo for a pull of the image. Fail if the image must be signed, and either the policy
    /// accepts it unsigned or skopeo's proxy does not enforce it.
    pub(crate) async fn configure(&mut self, image: &ImageRef) -> Result<ImageProxyConfig, OsError> {
        self.require(image).await?;
        // skopeo prefers a policy in root's home to that of /etc, which plan and verdict are about.
        if !self.governs(image) && !Path::new(SIGNATURE_POLICY).exists() {
            return Ok(proxy_config(image));
        }
        with_policy(image, Path::new(SIGNATURE_POLICY)).map_err(|error| pull_failure(image, &error))
    }

    /// Configure skopeo for a pull of files that decide over the whole host: a signature that the policy demands of them must be
    /// verified, whatever skopeo is installed. Fail as for [`configure`](Self::configure), too.
    pub(crate) async fn configure_for_files(
        &mut self,
        image: &ImageRef,
    ) -> Result<ImageProxyConfig, OsError> {
        if Path::new(SIGNATURE_POLICY).exists() && !self.governs(image) {
            let policy = signature_policy::load().map_err(|error| pull_failure(image, &error.into()))?;
            let rule = policy.rule_for(image);
            if rule.demands_signature() || rule.rejects() {
                self.prove_enforcement(image).await?;
            }
        }
        let mut config = self.configure(image).await?;
        if config.skopeo_cmd.is_none() {
            let merged = merge_default_container_proxy_opts(&mut config);
            merged.map_err(|error| pull_failure(image, &error))?;
        }
        Ok(config)
    }

    /// Fail unless signatures of the image are verified. Images of which none is demanded pass.
    pub(crate) async fn require(&mut self, image: &ImageRef) -> Result<(), OsError> {
        if !self.governs(image) {
            return Ok(());
        }
        let policy = signature_policy::load().map_err(|error| pull_failure(image, &error.into()))?;
        if *image.verification() == ImageVerification::ContainerPolicy {
            refuse_accepting_default(&policy).map_err(|error| pull_failure(image, &error))?;
        }
        if self.demand == SignatureDemand::Required {
            refuse_unsigned(&policy, image)?;
        }
        self.prove_enforcement(image).await
    }

    /// Fail unless skopeo's proxy enforces the policy.
    async fn prove_enforcement(&mut self, image: &ImageRef) -> Result<(), OsError> {
        if self.enforcement != Some(PolicyEnforcement::Proven) {
            probe(image).await?;
            self.enforcement = Some(PolicyEnforcement::Proven);
        }
        Ok(())
    }

    /// Return the verdict on a pull of the image in this session; `None` if skopeo has no policy that it can use.
    pub(crate) async fn verdict(&mut self, image: &ImageRef) -> Option<SignatureVerdict> {
        let policy = signature_policy::load().ok()?;
        let rule = policy.rule_for(image);
        let enforcement = match self.enforcement {
            _ if !rule.demands_signature() => PolicyEnforcement::NotNeeded,
            Some(known) => known,
            None => match probe(image).await {
                Ok(()) => PolicyEnforcement::Proven,
                Err(OsError::Pull { reason: PullFailure::PolicyNotEnforced, .. }) => {
                    PolicyEnforcement::Absent
                }
                Err(_) => PolicyEnforcement::Unknown,
            },
        };
        if rule.demands_signature() {
            self.enforcement = Some(enforcement);
        }
        Some(SignatureVerdict::of(rule, key_files(rule), enforcement))
    }
}

/// Digest the files with keys that the rule names.
fn key_files(rule: PolicyRule<'_>) -> Vec<KeyFile> {
    let keys = rule.requirements.iter().flat_map(PolicyRequirement::keys);
    let digest = |key: &SigningKey| match key {
        SigningKey::File(path) => {
            let digest = ContentDigest::of(&signature_policy::read_file(Path::new(path)).ok()?);
            Some(KeyFile { path: path.clone(), digest: digest.to_string() })
        }
        _ => None,
    };
    keys.filter_map(digest).collect()
}

/// Refuse a policy that accepts every image for which it has no rule, as ostree-ext does for OS images.
fn refuse_accepting_default(policy: &ImagePolicy) -> anyhow::Result<()> {
    ensure!(
        !policy.default_rule().accepts_anything(),
        "{SIGNATURE_POLICY} accepts every image by default (insecureAcceptAnything); refusing usage"
    );
    Ok(())
}

/// Refuse an image that the policy lets pass without a signature. A kind of requirement that is unknown here may demand none.
fn refuse_unsigned(policy: &ImagePolicy, image: &ImageRef) -> Result<(), OsError> {
    let rule = policy.rule_for(image);
    if rule.demands_signature() || rule.rejects() {
        return Ok(());
    }
    let text = format!("the rule that governs it in {SIGNATURE_POLICY}, {rule}, demands {}", rule.demand());
    Err(OsError::Pull {
        image: image.to_string(),
        reason: PullFailure::SignatureNotDemanded,
        source: RedactedCause::new(&text),
    })
}

/// Configure skopeo like any pull of the image, with a policy in place of the default one.
fn with_policy(image: &ImageRef, policy: &Path) -> anyhow::Result<ImageProxyConfig> {
    let mut config = proxy_config(image);
    // The importer does the same to a configuration without a command.
    if image.transport() == ImageTransport::ContainersStorage {
        merge_default_container_proxy_opts_with_isolation(&mut config, None)?;
    } else {
        merge_default_container_proxy_opts(&mut config)?;
    }
    config.skopeo_cmd.get_or_insert_with(|| Command::new("skopeo")).arg("--policy").arg(policy);
    Ok(config)
}

/// Fail unless skopeo, started like for a pull of the image, rejects an image that its policy rejects.
async fn probe(image: &ImageRef) -> Result<(), OsError> {
    let failure = |reason, text: &str| OsError::Pull {
        image: image.to_string(),
        reason,
        source: RedactedCause::new(text),
    };
    match open_rejected_image(image).await {
        Ok(None) => {
            let text = format!("{} opened an image that its policy rejects", version().await);
            Err(failure(PullFailure::PolicyNotEnforced, &text))
        }
        Ok(Some(refusal)) if refusal.contains(REJECTED) => Ok(()),
        Ok(Some(other)) => {
            let text = format!("{} failed on an image that its policy rejects: {other}", version().await);
            Err(failure(PullFailure::PolicyNotProven, &text))
        }
        Err(error) => match pull_failure(image, &error) {
            missing @ OsError::Pull { reason: PullFailure::SkopeoMissing, .. } => Err(missing),
            _ => Err(failure(PullFailure::PolicyNotProven, &format!("{error:#}"))),
        },
    }
}

/// Open an image with a policy that rejects it. Returns the proxy's error, `None` if the image was opened.
async fn open_rejected_image(image: &ImageRef) -> anyhow::Result<Option<String>> {
    let rejected = ProbeImage::create().context("writing an image to test skopeo with")?;
    let command = Command::try_from(with_policy(image, &rejected.policy())?)?;
    let (socket, theirs) = ProxySocket::pair().context("creating a socket for skopeo")?;
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::from(theirs)).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(ProxyError::SkopeoSpawnError)?;
    // It holds the other end of the socket.
    drop(command);
    let conversation = async {
        socket.call("Initialize", &[]).await?.map_err(anyhow::Error::msg)?;
        let opened = socket.call("OpenImage", &[rejected.reference()]).await?;
        anyhow::Ok(opened.err())
    };
    let outcome = timeout(DEADLINE, conversation).await;
    drop(socket);
    let Ok(outcome) = outcome else {
        child.kill().await.context("ending skopeo")?;
        anyhow::bail!("skopeo did not answer within {} s", DEADLINE.as_secs());
    };
    // It ends when its socket is closed; dropping it kills it.
    let ended = timeout(DEADLINE, child.wait_with_output()).await;
    outcome.with_context(|| match ended {
        Ok(Ok(output)) => format!(
            "skopeo ended early ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ),
        _ => "talking to skopeo".to_owned(),
    })
}

/// Return name and version of the installed skopeo, for messages.
async fn version() -> String {
    let mut command = tokio::process::Command::new("skopeo");
    command.arg("--version").stdin(Stdio::null()).kill_on_drop(true);
    match timeout(DEADLINE, command.output()).await {
        Ok(Ok(output)) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "skopeo of an unknown version".to_owned(),
    }
}

//! Settings of the daemon's source: `[source]` in a fragment.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use crate::core::config::artifact::{ArtifactRef, ArtifactRefError};
use crate::core::config::render::PoolName;
use crate::core::config::settings::server_access::{PublicKeyPin, ServerAccess};
use crate::core::config::settings::server_url::{ServerUrl, UrlError, is_url};
use crate::core::values::names::ManagedPath;
use crate::core::values::profile::Profile;

/// Source of the desired config that the daemon follows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum SourceName {
    /// The cluster's API server.
    Kube,
    /// A file, or a directory of files.
    Directory(PathBuf),
    /// A document on an HTTPS server, such as the config of a pool on a config server.
    Server(ServerUrl),
    /// An artifact of configs in a container registry.
    Artifact(ArtifactRef),
}

impl std::fmt::Display for SourceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kube => f.write_str("kube"),
            Self::Directory(path) => write!(f, "dir:{}", path.display()),
            Self::Server(url) => url.fmt(f),
            Self::Artifact(artifact) => artifact.fmt(f),
        }
    }
}

impl FromStr for SourceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "kube" => Ok(Self::Kube),
            Some(("dir", path)) if !path.is_empty() => Ok(Self::Directory(path.into())),
            _ if is_url(text) => text.parse().map(Self::Server).map_err(|error: UrlError| error.to_string()),
            _ if ArtifactRef::is_meant_by(text) => {
                text.parse().map(Self::Artifact).map_err(|error: ArtifactRefError| error.to_string())
            }
            _ => Err("expected `kube`, `dir:PATH`, `https://HOST/PATH` or `oci://REGISTRY/REPOSITORY:TAG`"
                .to_owned()),
        }
    }
}

impl TryFrom<String> for SourceName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// Choice of the pool whose config the source `kube` follows, in a cluster without the machine-config-operator.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum PoolChoice {
    /// The pool of this name.
    Named(PoolName),
    /// The pool that selects the labels of the Node.
    ByLabels,
}

/// Word that stands for [`PoolChoice::ByLabels`]. No pool can have this name: it would be two.
const BY_LABELS: &str = "BY-LABELS";

impl FromStr for PoolChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == BY_LABELS {
            return Ok(Self::ByLabels);
        }
        let name = text.parse().map_err(|_| "expected the name of a MachineConfigPool, or `BY-LABELS`")?;
        Ok(Self::Named(name))
    }
}

impl TryFrom<String> for PoolChoice {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// The daemon's source, and how it is reached; absent settings have their defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceSettings {
    pub desired: Option<SourceName>,
    /// Pool that the source `kube` follows; `None` where the machine-config-operator names the desired config.
    pub pool: Option<PoolChoice>,
    /// Kubeconfig for reading configs.
    pub kubeconfig: Option<ManagedPath>,
    /// Kubeconfig for watching and annotating the Node.
    pub node_kubeconfig: Option<ManagedPath>,
    /// Name of the host's Node.
    pub node_name: Option<String>,
    /// Namespace of the events about the Node.
    pub namespace: Option<String>,
    /// Rules that decide which changes can be applied.
    pub profile: Option<Profile>,
    /// Access to a server of documents, for the daemon and for commands that are given a URL.
    pub access: ServerAccess,
    poll_interval: Option<NonZeroU32>,
}

impl SourceSettings {
    /// Mean time between two requests to a server or registry, unless a fragment sets another.
    const POLL_INTERVAL: Duration = Duration::from_secs(300);

    /// Mean time between two requests to a server of documents, or to the registry of an artifact.
    #[must_use]
    pub fn poll_interval(&self) -> Duration {
        self.poll_interval.map_or(Self::POLL_INTERVAL, |seconds| Duration::from_secs(seconds.get().into()))
    }
}

/// The TOML of `[source]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SourceFragment {
    desired: Option<Spanned<SourceName>>,
    pool: Option<PoolChoice>,
    kubeconfig: Option<ManagedPath>,
    node_kubeconfig: Option<ManagedPath>,
    node_name: Option<ObjectName>,
    namespace: Option<ObjectName>,
    profile: Option<Profile>,
    server_ca: Option<ManagedPath>,
    #[serde(default)]
    server_pins: Vec<PublicKeyPin>,
    client_certificate: Option<ManagedPath>,
    client_key: Option<ManagedPath>,
    token_file: Option<ManagedPath>,
    poll_interval: Option<NonZeroU32>,
}

/// Name of an object of the cluster.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct ObjectName(String);

impl TryFrom<String> for ObjectName {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        if name.is_empty() { Err("the name is empty") } else { Ok(Self(name)) }
    }
}

impl SourceFragment {
    /// Return a directory that is relative, with its place: the daemon has no directory that it could be relative to.
    pub(crate) fn relative_directory(&self) -> Option<&Spanned<SourceName>> {
        let is_relative = |name: &&Spanned<SourceName>| matches!(name.get_ref(), SourceName::Directory(path) if path.is_relative());
        self.desired.as_ref().filter(is_relative)
    }

    pub(crate) fn overlay(self, settings: &mut SourceSettings) {
        let earlier = std::mem::take(settings);
        let access = ServerAccess {
            ca: self.server_ca.map(PathBuf::from),
            pins: self.server_pins,
            client_certificate: self.client_certificate.map(PathBuf::from),
            client_key: self.client_key.map(PathBuf::from),
            token_file: self.token_file.map(PathBuf::from),
        };
        *settings = SourceSettings {
            desired: self.desired.map(Spanned::into_inner).or(earlier.desired),
            pool: self.pool.or(earlier.pool),
            kubeconfig: self.kubeconfig.or(earlier.kubeconfig),
            node_kubeconfig: self.node_kubeconfig.or(earlier.node_kubeconfig),
            node_name: self.node_name.map(|ObjectName(name)| name).or(earlier.node_name),
            namespace: self.namespace.map(|ObjectName(name)| name).or(earlier.namespace),
            profile: self.profile.or(earlier.profile),
            access: access.or(earlier.access),
            poll_interval: self.poll_interval.or(earlier.poll_interval),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_name_is_printed_as_it_was_given() {
        let artifact = "oci://registry.example/fleet/configs:stable";
        for text in ["kube", "dir:/etc/desired", "dir:a:b", "https://host:22623/config/worker", artifact] {
            assert_eq!(text.parse::<SourceName>().unwrap().to_string(), text);
        }
        for text in
            ["", "kubernetes", "dir:", "/etc/desired", "http://host/config/worker", "https:host", "oci:x"]
        {
            assert!(text.parse::<SourceName>().is_err(), "{text}");
        }
    }
}

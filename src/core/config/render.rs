//! Rendering: merge the `MachineConfig`s of a pool into one, as the MCC does (`MergeMachineConfigs` of the
//! MCO).
//!
//! # Guarantees
//! The result depends on the content of the configs, not on the order in which they are given. It has passed
//! [`decode`], so a host that accepts each of them accepts the result.

pub mod documents;
pub mod release_payload;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::host_config::KernelType;
use super::ignition::{merge, newest};
use super::machine_config::MachineConfig;
use super::{decode, machine_config};
use crate::core::values::limits;
use crate::core::values::names::is_dns_label;
use crate::core::values::refusal::{Refusal, RefusalList};

/// `apiVersion` of a rendered config.
const API_VERSION: &str = "machineconfiguration.openshift.io/v1";
/// The label that names the role of a config.
const ROLE_LABEL: &str = "machineconfiguration.openshift.io/role";
/// The role whose configs every custom pool inherits.
const WORKER_ROLE: &str = "worker";
/// The annotation of configs that the MCC generated.
const GENERATED_BY: &str = "machineconfiguration.openshift.io/generated-by-controller-version";
/// The Ignition version that the MCC writes.
const IGNITION_VERSION: &str = "3.5.0";
/// The extension that exists for the default kernel only.
const KERNEL_DEVEL: &str = "kernel-devel";
/// Bytes of the digest in a rendered config's name; the MCC uses the same length.
const DIGEST_BYTES: usize = 16;
/// Longest name of a Kubernetes object, in bytes.
const OBJECT_NAME_MAX: usize = 253;

/// The name of a pool: a DNS subdomain (RFC 1123), short enough for `rendered-POOL-DIGEST` to be an object
/// name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolName(String);

/// A text that is not the name of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a pool's name has lower-case letters, digits, `-` and `.`, begins and ends with a letter or digit")]
pub struct PoolNameError;

impl FromStr for PoolName {
    type Err = PoolNameError;

    fn from_str(text: &str) -> Result<Self, PoolNameError> {
        let name = Self(text.to_owned());
        let fits = name.rendered(&[0; DIGEST_BYTES]).len() <= OBJECT_NAME_MAX;
        if fits && text.split('.').all(is_dns_label) { Ok(name) } else { Err(PoolNameError) }
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PoolName {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn rendered(&self, digest: &[u8]) -> String {
        let mut name = format!("rendered-{self}-");
        for byte in digest {
            write!(name, "{byte:02x}").expect("writing to a string cannot fail");
        }
        name
    }
}

/// Name of a rendered config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RenderedName {
    /// `rendered-POOL-` and 32 hexadecimal digits: the first half of the SHA-256 of the spec as JSON, so that equal specs
    /// have equal names. The digits differ from those of a cluster, which hashes a salted YAML text of its own.
    OfPool(PoolName),
    Given(String),
}

impl RenderedName {
    fn of(&self, spec: &Value) -> String {
        match self {
            Self::OfPool(pool) => {
                let digest = Sha256::digest(spec.to_string());
                pool.rendered(digest.get(..DIGEST_BYTES).unwrap_or(&digest))
            }
            Self::Given(name) => name.clone(),
        }
    }
}

/// The images of the release, as the cluster's `ControllerConfig` names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReleaseImages {
    /// Replaces the `osImageURL` of configs that the MCC generated.
    pub os: Option<String>,
    /// Replaces their `baseOSExtensionsContainerImage`.
    pub extensions: Option<String>,
}

/// `spec` with every field set, as the cluster stores it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RenderedSpec {
    #[serde(rename = "baseOSExtensionsContainerImage")]
    base_os_extensions_container_image: String,
    config: Value,
    extensions: Vec<String>,
    fips: bool,
    kernel_arguments: Vec<String>,
    kernel_type: &'static str,
    #[serde(rename = "osImageURL")]
    os_image_url: String,
}

/// Merge `configs` into the rendered config of this name, or refuse with every error found.
///
/// If `images` names no image, the one of the last config that the MCC generated is used: all of them carry
/// the release's.
pub fn render(
    configs: &[MachineConfig],
    name: &RenderedName,
    images: &ReleaseImages,
) -> Result<MachineConfig, RefusalList> {
    let rendered = render_for_host(configs, name, images)?;
    ensure_cluster_stores(&rendered.document)?;
    Ok(rendered)
}

/// Merge like [`render`], where no cluster stores the result: it may be as large as any document.
pub fn render_for_host(
    configs: &[MachineConfig],
    name: &RenderedName,
    images: &ReleaseImages,
) -> Result<MachineConfig, RefusalList> {
    ensure_mergeable(configs)?;
    let configs = in_order(configs);
    let spec = merge_specs(&configs, images);
    ensure_kernel_takes_extensions(&spec)?;
    let spec = serde_json::to_value(spec).expect("a spec has only string keys");
    let document = json!({
        "apiVersion": API_VERSION,
        "kind": "MachineConfig",
        "metadata": {"name": name.of(&spec)},
        "spec": spec,
    });
    let (bytes, most) = (document.to_string().len(), limits::DOCUMENT_BYTES);
    if bytes > most {
        return Err(RefusalList::one(
            "",
            format!("the rendered config has {bytes} bytes; the limit is {most}"),
        ));
    }
    let rendered = machine_config::parse_object(document, "")?;
    decode::decode(&rendered)?;
    Ok(rendered)
}

/// Check that names are unique and that each config is valid by itself: the merge would hide an error in a
/// config where a later one wins.
fn ensure_mergeable(configs: &[MachineConfig]) -> Result<(), RefusalList> {
    if configs.is_empty() {
        return Err(RefusalList::one("items", "no MachineConfig to merge"));
    }
    let mut refused = Vec::new();
    let mut mentions: BTreeMap<&str, usize> = BTreeMap::new();
    for config in configs {
        *mentions.entry(config.name.as_str()).or_default() += 1;
        let found = decode::decode(config).err();
        refused.extend(found.iter().flat_map(RefusalList::as_slice).map(|refusal| {
            Refusal::new(refusal.field.clone(), format!("{} (in {})", refusal.reason, config.name))
        }));
    }
    for (name, _) in mentions.iter().filter(|(_, count)| **count > 1) {
        let reason = format!("{name} is given more than once; a cluster has one object per name");
        refused.push(Refusal::new("metadata.name", reason));
    }
    RefusalList::or(refused, ())
}

/// Sort the configs by precedence, lowest first: those of the worker role, then all others, each by name. Ignition and Butane
/// configs have no role: with one among them, all are sorted by name.
fn in_order(configs: &[MachineConfig]) -> Vec<&MachineConfig> {
    let have_roles = configs.iter().all(|config| !config.replaces_paths);
    let mut ordered: Vec<&MachineConfig> = configs.iter().collect();
    ordered.sort_by_key(|config| (have_roles && !is_for_workers(config), &config.name));
    ordered
}

fn is_for_workers(config: &MachineConfig) -> bool {
    let role = config.metadata.labels.as_ref().and_then(|labels| labels.get(ROLE_LABEL));
    role.is_some_and(|role| role == WORKER_ROLE)
}

fn is_generated(config: &MachineConfig) -> bool {
    let version = config.metadata.annotations.as_ref().and_then(|all| all.get(GENERATED_BY));
    version.is_some_and(|version| !version.is_empty())
}

fn merge_specs(configs: &[&MachineConfig], images: &ReleaseImages) -> RenderedSpec {
    let specs = || configs.iter().map(|config| &config.spec);
    let listed = |list: Option<&Vec<String>>| list.cloned().unwrap_or_default();
    let kernel_type = specs()
        .map(|spec| KernelType::canonical(spec.kernel_type.as_deref().unwrap_or_default()))
        .rfind(|kernel_type| *kernel_type != KernelType::Default);
    RenderedSpec {
        base_os_extensions_container_image: image(configs, images.extensions.as_deref(), |config| {
            config.spec.base_os_extensions_container_image.as_deref()
        }),
        config: merge_ignition(configs),
        extensions: specs().flat_map(|spec| listed(spec.extensions.as_ref())).collect(),
        fips: specs().any(|spec| spec.fips == Some(true)),
        kernel_arguments: specs().flat_map(|spec| listed(spec.kernel_arguments.as_ref())).collect(),
        kernel_type: kernel_type.unwrap_or_default().as_str(),
        os_image_url: image(configs, images.os.as_deref(), |config| config.spec.os_image_url.as_deref()),
    }
}

/// Choose an image: that of the last config that the MCC did not generate, else the release's.
fn image<'a>(
    configs: &[&'a MachineConfig],
    release: Option<&'a str>,
    of: impl Fn(&'a MachineConfig) -> Option<&'a str>,
) -> String {
    let last = |generated: bool| {
        let asking = configs.iter().filter(|config| is_generated(config) == generated);
        asking.filter_map(|config| of(config)).rfind(|image| !image.is_empty())
    };
    last(false).or(release).or_else(|| last(true)).unwrap_or_default().to_owned()
}

/// Merge the Ignition configs and drop empty members.
fn merge_ignition(configs: &[&MachineConfig]) -> Value {
    let mut parts = configs.iter().map(|config| (config.ignition.config.clone(), config.replaces_paths));
    let base = parts.next().map(|(base, _)| base).unwrap_or_default();
    let mut merged = parts.fold(base, |mut parent, (mut child, replaces_paths)| {
        for resource in contents(&mut child) {
            resource.compression.get_or_insert_default();
        }
        if replaces_paths {
            merge::remove_paths_of(&mut parent, &child);
        }
        merge::merge(&parent, &child)
    });
    for resource in contents(&mut merged) {
        resource.compression.take_if(|compression| compression.is_empty());
    }
    for file in files(&mut merged) {
        // Ignition keeps an existing file by default and the agent does not; this makes them agree. The MCC says so of an entry
        // without contents too, which would empty an existing file; Ignition refuses that.
        let has_contents = file.contents.as_ref().is_some_and(|contents| contents.source.is_some());
        if has_contents || file.append.as_ref().is_some_and(|fragments| !fragments.is_empty()) {
            file.overwrite.get_or_insert(true);
        }
    }
    ignition_version(configs).clone_into(&mut merged.ignition.version);
    merge::without_empty(serde_json::to_value(merged).expect("a config has only string keys"))
}

fn files(config: &mut newest::Config) -> impl Iterator<Item = &mut newest::File> {
    config.storage.iter_mut().flat_map(|storage| &mut storage.files).flatten()
}

/// Iterate over the contents of every file, adding empty ones where there are none.
///
/// The merge treats `source` and `compression` as separate fields: plain contents without a compression would
/// inherit `gzip` from the file that they replace. So each file gets an explicit compression first, also one
/// without contents, as in the MCC.
fn contents(config: &mut newest::Config) -> impl Iterator<Item = &mut newest::Resource> {
    files(config).map(|file| file.contents.get_or_insert_default())
}

/// The MCC's Ignition version, or a newer one if any config needs it. All accepted versions have one-digit
/// numbers, so that they compare as text.
fn ignition_version<'a>(configs: &[&'a MachineConfig]) -> &'a str {
    let versions = configs.iter().filter_map(|config| {
        let version = config.document.pointer("/spec/config/ignition/version")?;
        version.as_str()
    });
    versions.fold(IGNITION_VERSION, std::cmp::max)
}

fn ensure_kernel_takes_extensions(spec: &RenderedSpec) -> Result<(), RefusalList> {
    let devel = spec.extensions.iter().position(|extension| extension == KERNEL_DEVEL);
    let Some(index) = devel.filter(|_| spec.kernel_type != KernelType::Default.as_str()) else {
        return Ok(());
    };
    let reason =
        format!("{KERNEL_DEVEL} is for the default kernel only; spec.kernelType is {}", spec.kernel_type);
    Err(RefusalList::one(format!("spec.extensions[{index}]"), reason))
}

fn ensure_cluster_stores(document: &Value) -> Result<(), RefusalList> {
    let bytes = document.to_string().len();
    if bytes > limits::CLUSTER_BYTES {
        let reason = format!(
            "the rendered config has {bytes} bytes; a cluster stores at most {}",
            limits::CLUSTER_BYTES
        );
        return Err(RefusalList::one("", reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests;

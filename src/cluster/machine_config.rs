//! Reads MachineConfigs by name, and the node disruption policy from the cluster's MachineConfiguration.

use std::borrow::Cow;

use futures::{AsyncBufRead, AsyncBufReadExt as _, Stream, StreamExt as _};
use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::Api;
use kube::core::ClusterResourceScope;
use serde::Deserialize;

use crate::cluster::watch::watch;
use crate::cluster::{ClusterClient, ClusterError, REQUEST_TIMEOUT, with_timeout};
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::host::memory_file::MemoryFile;

const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
const POLICY: &str = "/apis/operator.openshift.io/v1/machineconfigurations/cluster";

/// Name of the only MachineConfiguration.
const POLICY_NAME: &str = "cluster";

/// The part of a MachineConfiguration that its watch reads.
#[derive(Debug, Clone, Deserialize)]
struct MachineConfiguration {
    metadata: ObjectMeta,
}

impl Resource for MachineConfiguration {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "MachineConfiguration".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "operator.openshift.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "machineconfigurations".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl ClusterClient {
    /// Watch the MachineConfiguration `cluster`: yields its resource version at each change, and `None` while it does not
    /// exist. The stream goes on after an error.
    pub fn watch_policy(
        &self,
    ) -> Result<impl Stream<Item = Result<Option<String>, ClusterError>> + Send + use<>, ClusterError> {
        let configurations: Api<MachineConfiguration> = Api::all(self.reader.client()?);
        let version = |found: Option<MachineConfiguration>| found?.metadata.resource_version;
        Ok(watch(configurations, POLICY_NAME).map(move |seen| seen.map(version)))
    }

    /// Read the MachineConfig of this name; returns its JSON unparsed.
    pub async fn machine_config(&self, name: &str) -> Result<MemoryFile, ClusterError> {
        // The name becomes part of the URL path.
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
        {
            return Err(ClusterError::Refused(format!("`{name}` is not a valid MachineConfig name")));
        }
        let request = Request::get(format!("{CONFIGS}/{name}")).body(Vec::new());
        let request = request.map_err(|error| ClusterError::Refused(error.to_string()))?;
        let client = self.reader.client()?;
        let read = async {
            let answer = client.request_stream(request).await?;
            received(answer, name).await
        };
        match tokio::time::timeout(REQUEST_TIMEOUT, read).await {
            Ok(document) => document,
            Err(_) => Err(ClusterError::TimedOut(REQUEST_TIMEOUT)),
        }
    }

    /// Read the MachineConfiguration `cluster`; `None` if the cluster has none.
    pub async fn disruption_policy(&self) -> Result<Option<Vec<u8>>, ClusterError> {
        match self.get(POLICY).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(ClusterError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn get(&self, path: &str) -> Result<Vec<u8>, ClusterError> {
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| ClusterError::Refused(error.to_string()))?;
        let client = self.reader.client()?;
        with_timeout(client.request_text(request)).await.map(String::into_bytes)
    }
}

/// Move the body of an answer piece by piece into a file.
async fn received(mut body: impl AsyncBufRead + Unpin, name: &str) -> Result<MemoryFile, ClusterError> {
    let no_memory = |error| ClusterError::NoMemory(format!("the MachineConfig {name}: {error}"));
    let mut document = MemoryFile::create("machineconfig").map_err(no_memory)?;
    loop {
        let piece = body.fill_buf().await.map_err(|error| ClusterError::Unreachable(chain(&error)))?;
        if piece.is_empty() {
            return Ok(document);
        }
        let length = piece.len();
        if document.length() + length > limits::DOCUMENT_BYTES {
            let reason = format!("{name} has more than {} bytes", limits::DOCUMENT_BYTES);
            return Err(ClusterError::Refused(reason));
        }
        document.append(piece).map_err(no_memory)?;
        body.consume_unpin(length);
    }
}

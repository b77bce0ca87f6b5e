//! Reads MachineConfigs by name, and the node disruption policy from the cluster's MachineConfiguration.

use futures::{AsyncBufRead, AsyncBufReadExt as _};
use http::Request;

use crate::cluster::{ClusterClient, ClusterError, REQUEST_TIMEOUT, with_timeout};
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::host::memory_file::MemoryFile;

const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
const POLICY: &str = "/apis/operator.openshift.io/v1/machineconfigurations/cluster";

impl ClusterClient {
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

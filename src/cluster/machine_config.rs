//! Reads MachineConfigs by name, and the node disruption policy from the cluster's MachineConfiguration.

use http::Request;

use crate::cluster::{ClusterClient, ClusterError, with_timeout};

const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
const POLICY: &str = "/apis/operator.openshift.io/v1/machineconfigurations/cluster";

impl ClusterClient {
    /// Read the MachineConfig of this name; returns its JSON unparsed.
    pub async fn machine_config(&self, name: &str) -> Result<Vec<u8>, ClusterError> {
        // The name becomes part of the URL path.
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
        {
            return Err(ClusterError::Refused(format!("`{name}` is not a valid MachineConfig name")));
        }
        self.get(&format!("{CONFIGS}/{name}")).await
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
        let client = self.reader.client().await?;
        with_timeout(client.request_text(request)).await.map(String::into_bytes)
    }
}

//! Identity to the API server: a kubeconfig, which is read again when requests fail. The kubelet's client
//! certificate is renewed every few weeks, at the same path.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::cluster::ClusterError;
use crate::core::values::causes::chain;

/// Deadline for establishing a connection.
const CONNECTION: Duration = Duration::from_secs(10);

/// Kubeconfig path and the client that was created from it. Clones share the client.
#[derive(Clone)]
pub struct ClusterIdentity {
    path: PathBuf,
    client: Arc<Mutex<Option<Client>>>,
}

impl std::fmt::Debug for ClusterIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ClusterIdentity {
    /// Create an identity without reading the kubeconfig yet.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), client: Arc::default() }
    }

    /// Return the client; create it from the kubeconfig if there is none.
    pub(super) async fn client(&self) -> Result<Client, ClusterError> {
        if let Some(client) = &*self.client.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(client.clone());
        }
        let client = self.connect().await?;
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }

    /// Drop the client: the next request reads the kubeconfig again.
    pub fn forget_client(&self) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn connect(&self) -> Result<Client, ClusterError> {
        let failed = |reason: String| ClusterError::Kubeconfig { path: self.path.clone(), reason };
        let kubeconfig = Kubeconfig::read_from(&self.path).map_err(|error| failed(chain(&error)))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(|error| failed(chain(&error)))?;
        config.connect_timeout = Some(CONNECTION);
        Client::try_from(config).map_err(|error| failed(chain(&error)))
    }
}

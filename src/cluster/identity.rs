//! Who we are to the API server: a kubeconfig, read again when it stops working. The kubelet's certificate is replaced
//! every few weeks, under the same name.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::cluster::ClusterError;
use crate::core::values::causes::chain;

/// How long a connection may take to come about.
const CONNECTION: Duration = Duration::from_secs(10);

/// A kubeconfig, and the connection that was made with it.
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
    /// The one of this kubeconfig.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), client: Arc::default() }
    }

    /// The connection; a new one where there is none.
    pub(super) async fn client(&self) -> Result<Client, ClusterError> {
        if let Some(client) = &*self.client.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(client.clone());
        }
        let client = self.connect().await?;
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }

    /// Makes a new connection next time, with what the kubeconfig says then.
    pub fn renew(&self) {
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

//! Identity to the API server: a kubeconfig, which is read again when requests fail. The kubelet's client
//! certificate is renewed every few weeks, at the same path.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kube::Client;
use kube::config::AuthInfo;
use tower::util::MapResultLayer;

use super::busy_server::refuse_busy;
use super::credentials::ensure_bare_token;
use super::http_client::{KeepAlive, http_client};
use super::{RequestCounts, client_config};
use crate::cluster::ClusterError;
use crate::core::values::causes::chain;
use crate::https::ensure_validated_tls;

/// Kubeconfig path and the client that was created from it. Clones share the client.
#[derive(Clone)]
pub struct ClusterIdentity {
    path: PathBuf,
    /// File with the token that identifies this host in place of the kubeconfig's user.
    token: Option<PathBuf>,
    requests: RequestCounts,
    /// True if the body of a busy server's refusal matters.
    keeps_refusals: bool,
    client: Arc<Mutex<Option<Client>>>,
}

impl std::fmt::Debug for ClusterIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterIdentity").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ClusterIdentity {
    /// Create an identity without reading the kubeconfig yet. Its requests are counted in `requests`.
    #[must_use]
    pub fn of(path: &Path, requests: RequestCounts) -> Self {
        Self { path: path.to_owned(), token: None, requests, keeps_refusals: false, client: Arc::default() }
    }

    /// Take the token in this file in place of the kubeconfig's user. It is read again about every minute.
    #[must_use]
    pub fn with_token(self, file: Option<&Path>) -> Self {
        Self { token: file.map(Path::to_owned), ..self }
    }

    /// Keep refusals with a header `Retry-After` as they are: those of evictions name the disruption budget.
    #[must_use]
    pub fn keeping_refusals(self) -> Self {
        Self { keeps_refusals: true, client: Arc::default(), ..self }
    }

    /// Return the client; create it from the kubeconfig if there is none.
    pub(in crate::cluster) fn client(&self) -> Result<Client, ClusterError> {
        if let Some(client) = &*self.client.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(client.clone());
        }
        let client = self.connect()?;
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }

    /// Return true if the kubeconfig exists.
    #[must_use]
    pub fn has_kubeconfig(&self) -> bool {
        self.path.exists()
    }

    /// Drop the client: the next request reads the kubeconfig again.
    pub fn forget_client(&self) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn connect(&self) -> Result<Client, ClusterError> {
        let failed = |reason: String| ClusterError::Kubeconfig { path: self.path.clone(), reason };
        let mut config = client_config::load(&self.path).map_err(|problem| failed(chain(&problem)))?;
        if let Some(token) = &self.token {
            let file = token.display().to_string();
            config.auth_info = AuthInfo { token_file: Some(file), ..AuthInfo::default() };
        }
        let AuthInfo { token, token_file, .. } = &config.auth_info;
        if let (None, Some(file)) = (token, token_file) {
            ensure_bare_token(Path::new(file))?;
        }
        if config.cluster_url.scheme() == Some(&http::uri::Scheme::HTTPS) {
            ensure_validated_tls()?;
        }
        let client =
            http_client(&config, KeepAlive::KUBERNETES).map_err(|problem| failed(chain(&problem)))?;
        let (requests, keeps_refusals) = (self.requests.clone(), self.keeps_refusals);
        let receive = move |response| {
            requests.count(&response);
            if keeps_refusals { response } else { refuse_busy(response) }
        };
        Ok(client.with_layer(&MapResultLayer::new(receive)).build())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::api::Api;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn output_of_a_credential_plugin_is_in_no_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let refused = |script: &str| {
            let kubeconfig = format!(
                "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"http://127.0.0.1:9\"}}}}]\n\
                 contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\ncurrent-context: c\nusers:\n\
                 - name: u\n  user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, \
                 interactiveMode: Never, args: ['-c', '{script}']}}}}\n"
            );
            std::fs::write(&path, kubeconfig).unwrap();
            let refused = ClusterIdentity::of(&path, RequestCounts::default()).client();
            refused.err().map(|error| chain(&error)).unwrap_or_default()
        };
        for (script, expected) in [
            (
                "echo very-secret; echo very-secret >&2; exit 3",
                "the credential plugin failed with exit status: 3",
            ),
            ("echo very-secret", "the output of the credential plugin is no ExecCredential"),
        ] {
            let refused = refused(script);
            assert!(refused.contains(expected) && !refused.contains("secret"), "{refused}");
        }
    }

    #[tokio::test]
    async fn request_to_a_busy_server_fails_at_once_with_its_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let server = listener.local_addr().unwrap();
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"http://{server}\"}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{}}}}]\n\
             current-context: c\n"
        );
        std::fs::write(&path, kubeconfig).unwrap();
        tokio::spawn(async move {
            // One answer: a second request would wait for the deadline.
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let answer = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        });
        let client = ClusterIdentity::of(&path, RequestCounts::default()).client().unwrap();
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(client);
        let error = crate::cluster::with_timeout(nodes.get("edge-7")).await.unwrap_err();
        assert_eq!(error.retry_after(), Duration::from_secs(60), "{error}");
        assert!(!error.is_about_the_connection(), "{error}");
    }
}

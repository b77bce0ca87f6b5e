//! Cluster credentials for the daemon on the host: the installer pod writes a kubeconfig with the token of
//! its service account. The token is bound to the pod and its node and is renewed every hour; on the host it
//! is in `/run` only.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};

use crate::cluster::client_config::{self, KubeconfigProblem};
use crate::core::values::causes::chain;

/// Directory of the credentials, relative to the host's root.
const DIRECTORY: &str = "run/flameholder/cluster";
const KUBECONFIG: &str = "kubeconfig";
const TOKEN: &str = "token";
/// Kubeconfig of the host, relative to its root, which names the API server: nodes reach it at this address
/// before they have service networking.
const OF_THE_HOST: &str = "etc/kubernetes/kubeconfig";
/// Name of cluster, user and context in the written kubeconfig.
const NAME: &str = "flameholder";

/// Failure to write the credentials.
#[derive(Debug, thiserror::Error)]
pub enum IntroductionError {
    #[error("{doing} {}", path.display())]
    File {
        /// Failed operation, such as `reading`.
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The host's own kubeconfig has no usable cluster entry.
    #[error("{} has no usable cluster entry: {reason}", path.display())]
    Kubeconfig { path: PathBuf, reason: String },
}

/// Write kubeconfig and token on the host whose root is mounted at `host`. `account` is the directory of the
/// pod's service account token.
pub fn introduce(host: &Path, account: &Path) -> Result<(), IntroductionError> {
    let token = read(&account.join(TOKEN))?;
    let kubeconfig = kubeconfig(host)?;
    let directory = host.join(DIRECTORY);
    let failed = |source| IntroductionError::File { doing: "making", path: directory.clone(), source };
    let above = directory.parent().unwrap_or(host);
    DirBuilder::new().recursive(true).mode(0o755).create(above).map_err(failed)?;
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(failed)?;
    // An existing directory may have another mode.
    fs::set_permissions(&directory, Permissions::from_mode(0o700)).map_err(failed)?;
    replace(&directory.join(TOKEN), &token)?;
    replace(&directory.join(KUBECONFIG), &kubeconfig)
}

/// Build the kubeconfig: API server and CA of the host's own, the service account as user.
fn kubeconfig(host: &Path) -> Result<Vec<u8>, IntroductionError> {
    let path = host.join(OF_THE_HOST);
    let failed = |problem: KubeconfigProblem| IntroductionError::Kubeconfig {
        path: path.clone(),
        reason: chain(&problem),
    };
    let text = read(&path)?;
    let found =
        Kubeconfig::from_yaml(&String::from_utf8_lossy(&text)).map_err(|error| failed(error.into()))?;
    let (cluster, _) = client_config::current(&found).map_err(failed)?;
    let cluster =
        NamedCluster { name: NAME.to_owned(), cluster: Some(cluster.clone()), ..NamedCluster::default() };
    let user = AuthInfo { token_file: Some(format!("/{DIRECTORY}/{TOKEN}")), ..AuthInfo::default() };
    let context = Context { cluster: NAME.to_owned(), user: Some(NAME.to_owned()), ..Context::default() };
    let made = Kubeconfig {
        clusters: vec![cluster],
        auth_infos: vec![NamedAuthInfo {
            name: NAME.to_owned(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: NAME.to_owned(),
            context: Some(context),
            ..NamedContext::default()
        }],
        current_context: Some(NAME.to_owned()),
        ..Kubeconfig::default()
    };
    // JSON is YAML.
    Ok(serde_json::to_vec(&made).expect("all keys of a kubeconfig are strings"))
}

fn read(path: &Path) -> Result<Vec<u8>, IntroductionError> {
    fs::read(path).map_err(|source| IntroductionError::File {
        doing: "reading",
        path: path.to_owned(),
        source,
    })
}

/// Replace a file by rename: a reader finds the old or the new contents, complete.
fn replace(path: &Path, contents: &[u8]) -> Result<(), IntroductionError> {
    let new = path.with_extension("new");
    let written = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(contents)?;
        fs::rename(&new, path)
    };
    written().map_err(|source| IntroductionError::File { doing: "writing", path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: &str = "apiVersion: v1
kind: Config
clusters:
- {name: other, cluster: {server: 'https://other:6443'}}
- {name: local, cluster: {server: 'https://api-int.example:6443', certificate-authority-data: Q0E=}}
users:
- {name: kubelet, user: {token: very-secret}}
contexts:
- {name: kubelet, context: {cluster: local, user: kubelet}}
current-context: kubelet
";

    #[test]
    fn daemon_on_the_host_gets_the_pods_service_account() {
        let (host, account) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(host.path().join("etc/kubernetes")).unwrap();
        fs::write(host.path().join(OF_THE_HOST), HOSTS).unwrap();
        for token in ["one", "two"] {
            fs::write(account.path().join(TOKEN), token).unwrap();
            introduce(host.path(), account.path()).unwrap();
            let directory = host.path().join(DIRECTORY);
            assert_eq!(fs::read_to_string(directory.join(TOKEN)).unwrap(), token);
            let text = fs::read_to_string(directory.join(KUBECONFIG)).unwrap();
            assert!(!text.contains("very-secret") && !text.contains("other"), "{text}");
            let made = Kubeconfig::from_yaml(&text).unwrap();
            let cluster = made.clusters[0].cluster.as_ref().unwrap();
            assert_eq!(cluster.server.as_deref(), Some("https://api-int.example:6443"));
            assert_eq!(cluster.certificate_authority_data.as_deref(), Some("Q0E="));
            let user = made.auth_infos[0].auth_info.as_ref().unwrap();
            assert_eq!(user.token_file.as_deref(), Some("/run/flameholder/cluster/token"));
            for (path, mode) in [("", 0o700), (TOKEN, 0o600), (KUBECONFIG, 0o600)] {
                let found = fs::metadata(directory.join(path)).unwrap().permissions().mode();
                assert_eq!(found & 0o777, mode, "{path}");
            }
        }
    }

    #[test]
    fn missing_file_is_named_in_the_error() {
        let (host, account) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let said = introduce(host.path(), account.path()).unwrap_err().to_string();
        assert!(said.starts_with("reading ") && said.ends_with("/token"), "{said}");
        fs::write(account.path().join(TOKEN), "one").unwrap();
        let said = introduce(host.path(), account.path()).unwrap_err().to_string();
        assert!(said.ends_with("etc/kubernetes/kubeconfig"), "{said}");
        fs::create_dir_all(host.path().join("etc/kubernetes")).unwrap();
        fs::write(host.path().join(OF_THE_HOST), "{}").unwrap();
        let said = introduce(host.path(), account.path()).unwrap_err().to_string();
        assert!(said.contains("has no usable cluster entry"), "{said}");
    }
}

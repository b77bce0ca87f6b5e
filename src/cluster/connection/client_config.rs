//! Settings of the client, from the current context of a kubeconfig.
//!
//! The client library's own loader also takes a proxy from `HTTPS_PROXY`, and compares `NO_PROXY` with the proxy
//! instead of the API server. In a cluster with a proxy for its images these variables are set, and the API
//! server is not behind that proxy. So only `proxy-url` of the kubeconfig counts here.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use http::Uri;
use kube::Config;
use kube::config::{AuthInfo, Cluster, ExecAuthCluster, Kubeconfig, KubeconfigError};

use super::credentials::{failure_of, with_bare_token};
use crate::core::trust::certificate::{BundleError, der_blocks};

/// Most bytes of a kubeconfig.
const KUBECONFIG_BYTES: u64 = 1 << 20;
/// Schemes of proxies that the client can use.
const PROXY_SCHEMES: [&str; 2] = ["http", "https"];

/// Unusable kubeconfig. No message quotes the file: tokens, and passwords of proxies, are in it.
#[derive(Debug, thiserror::Error)]
pub(super) enum KubeconfigProblem {
    #[error("reading failed")]
    Unreadable(#[source] std::io::Error),
    #[error("no kubeconfig{0}")]
    Malformed(String),
    #[error("`current-context` names no context of the file")]
    NoContext,
    #[error("the context names the cluster `{0}`, which the file does not have")]
    NoCluster(String),
    #[error("`server` of the cluster is not an address such as https://HOST:6443")]
    Server,
    #[error("`certificate-authority` of the cluster {0}")]
    Authority(BundleError),
    #[error("`proxy-url` of the cluster is not a URL such as http://HOST:3128")]
    ProxyUrl,
    #[error("`proxy-url` of the cluster has the scheme `{0}`; http and https are supported")]
    ProxyScheme(String),
    /// Any other error of the library that reads the file, whose text includes its causes.
    #[error("{0}")]
    Other(KubeconfigError),
    #[error("it is no file, or has more than {KUBECONFIG_BYTES} bytes")]
    NoFile,
    #[error("it is in UTF-16; save it in UTF-8")]
    Utf16,
    #[error("`token` of the user is none: no header can have it")]
    Token,
    /// Credentials that the client cannot get.
    #[error("{0}")]
    Credentials(String),
    /// Anything else of the client.
    #[error(transparent)]
    Client(kube::Error),
}

impl From<kube::Error> for KubeconfigProblem {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Auth(error) => Self::Credentials(failure_of(&error)),
            error => Self::Client(error),
        }
    }
}

impl From<KubeconfigError> for KubeconfigProblem {
    fn from(error: KubeconfigError) -> Self {
        match error {
            KubeconfigError::ReadConfig(source, _) => Self::Unreadable(source),
            // The error's own text shows the line, which may hold a token.
            KubeconfigError::Parse(error) => {
                Self::Malformed(error.location().map_or_else(String::new, |place| {
                    format!(": line {}, column {} is not as expected", place.line(), place.column())
                }))
            }
            error => Self::Other(error),
        }
    }
}

/// Read the kubeconfig at `path` for a client of its current context.
pub(super) fn load(path: &Path) -> Result<Config, KubeconfigProblem> {
    ensure_readable(path)?;
    let kubeconfig = Kubeconfig::read_from(path)?;
    let (cluster, user) = current(&kubeconfig)?;
    let mut user = with_bare_token(user).ok_or(KubeconfigProblem::Token)?;
    // With the contents of the certificate files.
    let cluster = ExecAuthCluster::try_from(cluster)?;
    let server = cluster.server.as_deref().and_then(|server| server.parse::<Uri>().ok());
    let server = server.filter(|server| server.scheme().is_some()).ok_or(KubeconfigProblem::Server)?;
    let mut config = Config::new(server);
    let certificates = cluster.certificate_authority_data.as_deref().map(der_blocks).transpose();
    config.root_cert = certificates.map_err(KubeconfigProblem::Authority)?;
    config.proxy_url = cluster.proxy_url.as_deref().filter(|url| !url.is_empty()).map(proxy).transpose()?;
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
    config.tls_server_name.clone_from(&cluster.tls_server_name);
    if let Some(program) = user.exec.as_mut().filter(|program| program.provide_cluster_info) {
        program.cluster = Some(cluster);
    }
    config.auth_info = user;
    Ok(config)
}

/// Fail where the client library would read without end or panic. Of a pipe, which a shell can put in the place of a file,
/// nothing is known before.
fn ensure_readable(path: &Path) -> Result<(), KubeconfigProblem> {
    let found = std::fs::metadata(path).map_err(KubeconfigProblem::Unreadable)?;
    if found.file_type().is_fifo() {
        return Ok(());
    }
    if !found.is_file() || found.len() > KUBECONFIG_BYTES {
        return Err(KubeconfigProblem::NoFile);
    }
    let mut start = [0; 2];
    let read = File::open(path).and_then(|mut file| file.read(&mut start));
    let count = read.map_err(KubeconfigProblem::Unreadable)?;
    let is_utf16 = count == start.len() && [[0xff, 0xfe], [0xfe, 0xff]].contains(&start);
    if is_utf16 { Err(KubeconfigProblem::Utf16) } else { Ok(()) }
}

/// Return cluster and user of the current context. A user that the file does not have is an anonymous one, as
/// for `kubectl`.
pub(super) fn current(kubeconfig: &Kubeconfig) -> Result<(&Cluster, AuthInfo), KubeconfigProblem> {
    let name = kubeconfig.current_context.as_deref().unwrap_or_default();
    let context = kubeconfig.contexts.iter().find(|context| context.name == name);
    let context = context.and_then(|named| named.context.as_ref()).ok_or(KubeconfigProblem::NoContext)?;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster);
    let cluster = cluster.and_then(|named| named.cluster.as_ref());
    let cluster = cluster.ok_or_else(|| KubeconfigProblem::NoCluster(context.cluster.clone()))?;
    let user = kubeconfig.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref());
    Ok((cluster, user.and_then(|named| named.auth_info.clone()).unwrap_or_default()))
}

fn proxy(url: &str) -> Result<Uri, KubeconfigProblem> {
    let url: Uri = url.parse().map_err(|_| KubeconfigProblem::ProxyUrl)?;
    match url.scheme_str() {
        Some(scheme) if PROXY_SCHEMES.contains(&scheme) => Ok(url),
        Some(scheme) => Err(KubeconfigProblem::ProxyScheme(scheme.to_owned())),
        None => Err(KubeconfigProblem::ProxyUrl),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::values::causes::chain;

    /// Load a kubeconfig with these members of its cluster.
    fn loaded(cluster: &str) -> Result<Config, String> {
        of_text(&format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- {{name: c, cluster: {{{cluster}}}}}\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n\
             users: [{{name: u, user: {{token: very-secret}}}}]\n"
        ))
    }

    fn of_text(text: &str) -> Result<Config, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        std::fs::write(&path, text).unwrap();
        load(&path).map_err(|problem| chain(&problem))
    }

    #[test]
    fn proxy_is_the_one_in_the_kubeconfig() {
        let config = loaded("server: 'https://api:6443'").unwrap();
        assert_eq!((config.proxy_url, config.cluster_url.port_u16()), (None, Some(6443)));
        assert!(config.auth_info.token.is_some());
        let config = loaded("server: 'https://api:6443', proxy-url: ''").unwrap();
        assert_eq!(config.proxy_url, None);
        for url in ["http://user:very-secret@proxy:3128", "https://proxy"] {
            let config = loaded(&format!("server: 'https://api:6443', proxy-url: '{url}'")).unwrap();
            assert_eq!(config.proxy_url, Some(url.parse().unwrap()));
        }
    }

    #[test]
    fn unusable_kubeconfig_is_refused_without_quoting_its_secrets() {
        let server = "server: 'https://api:6443'";
        for (cluster, expected) in [
            ("server: api", "`server` of the cluster is not an address"),
            ("tls-server-name: api", "`server` of the cluster is not an address"),
            (&*format!("{server}, certificate-authority-data: bm9uZQ=="), "no certificate in PEM form"),
            (&*format!("{server}, proxy-url: 'user:very-secret@proxy:3128'"), "not a URL such as"),
            (&*format!("{server}, proxy-url: 'http://user:very secret@proxy'"), "not a URL such as"),
            (&*format!("{server}, proxy-url: 'socks5://user:very-secret@proxy'"), "the scheme `socks5`"),
            (&*format!("{server}, proxy-url: ['http://user:very-secret@proxy']"), "no kubeconfig: line 4"),
        ] {
            let refused = loaded(cluster).unwrap_err();
            assert!(refused.contains(expected) && !refused.contains("secret"), "{cluster}: {refused}");
        }
        let token = format!(
            "clusters: [{{name: c, cluster: {{{server}}}}}]\ncurrent-context: x\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
             users: [{{name: u, user: {{token: \"very secret\"}}}}]\n"
        );
        for (text, expected) in [
            (&*token, "`token` of the user is none"),
            ("\u{feff}users: [{name: u, user: very-secret}]\n", "no kubeconfig: line 1, column "),
            ("users: [{name: u, user: very-secret}]\n", "no kubeconfig: line 1, column "),
            ("users:\n- name: u\n  user: {token: very-secret\n", "no kubeconfig: line "),
            ("clusters: []\n", "`current-context` names no context"),
            (
                "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n",
                "the cluster `c`, which",
            ),
        ] {
            let refused = of_text(text).unwrap_err();
            assert!(refused.contains(expected) && !refused.contains("secret"), "{text}: {refused}");
        }
    }
}

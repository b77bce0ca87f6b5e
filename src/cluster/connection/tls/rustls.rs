//! TLS by rustls.

use std::sync::Arc;

use hyper_rustls::{DefaultServerNameResolver, FixedServerNameResolver, HttpsConnector, ResolveServerName};
use hyper_util::client::legacy::connect::HttpConnector;
use kube::client::{ConfigExt as _, RustlsTlsError};
use kube::{Config, Error};
use rustls::pki_types::ServerName;

use crate::cluster::connection::http_client::TransportConnector;

pub(in crate::cluster::connection) use hyper_rustls::MaybeHttpsStream as MaybeTlsStream;

/// Protect connections to the server, and offer HTTP/2 to it.
pub(in crate::cluster::connection) fn protect(
    config: &Config,
    transport: TransportConnector,
) -> Result<HttpsConnector<TransportConnector>, Error> {
    let mut tls = config.rustls_client_config()?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name: Arc<dyn ResolveServerName + Send + Sync> = match &config.tls_server_name {
        Some(name) => {
            let name = ServerName::try_from(name.clone());
            let name = name.map_err(|error| Error::RustlsTls(RustlsTlsError::InvalidServerName(error)))?;
            Arc::new(FixedServerNameResolver::new(name))
        }
        None => Arc::new(DefaultServerNameResolver::default()),
    };
    Ok(HttpsConnector::new(transport, tls, false, name))
}

/// Protect connections to a proxy, to which HTTP/1.1 is spoken.
pub(in crate::cluster::connection) fn protect_proxy(
    config: &Config,
    tcp: HttpConnector,
) -> Result<HttpsConnector<HttpConnector>, Error> {
    config.rustls_https_connector_with_connector(tcp)
}

//! TLS by the host's OpenSSL.

use std::net::IpAddr;

use hyper_openssl::client::legacy::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use kube::client::{ConfigExt as _, OpensslTlsError};
use kube::{Config, Error};
use openssl::error::ErrorStack;
use openssl::ssl::{ConnectConfiguration, SslVerifyMode};
use openssl::x509::verify::X509CheckFlags;

use crate::cluster::connection::http_client::TransportConnector;

pub(in crate::cluster::connection) use hyper_openssl::client::legacy::MaybeHttpsStream as MaybeTlsStream;

/// Protect connections to the server, and offer HTTP/2 to it.
pub(in crate::cluster::connection) fn protect(
    config: &Config,
    transport: TransportConnector,
) -> Result<HttpsConnector<TransportConnector>, Error> {
    let failed = |error| Error::OpensslTls(OpensslTlsError::CreateHttpsConnector(error));
    let mut tls = config.openssl_ssl_connector_builder()?;
    tls.set_alpn_protos(b"\x02h2\x08http/1.1").map_err(failed)?;
    let mut https = HttpsConnector::with_connector(transport, tls).map_err(failed)?;
    let (trusts_any, name) = (config.accept_invalid_certs, config.tls_server_name.clone());
    https.set_callback(move |handshake, _| {
        if trusts_any {
            handshake.set_verify(SslVerifyMode::NONE);
        }
        name.as_deref().map_or(Ok(()), |name| expect_name(handshake, name))
    });
    Ok(https)
}

/// Protect connections to a proxy, to which HTTP/1.1 is spoken.
pub(in crate::cluster::connection) fn protect_proxy(
    config: &Config,
    tcp: HttpConnector,
) -> Result<HttpsConnector<HttpConnector>, Error> {
    config.openssl_https_connector_with_connector(tcp)
}

/// Expect a certificate for this name or address, whatever the address of the server is.
fn expect_name(handshake: &mut ConnectConfiguration, name: &str) -> Result<(), ErrorStack> {
    handshake.set_use_server_name_indication(false);
    handshake.set_verify_hostname(false);
    let address = name.parse::<IpAddr>();
    // An address is no name of a server in the handshake.
    if address.is_err() {
        handshake.set_hostname(name)?;
    }
    let expected = handshake.param_mut();
    expected.set_hostflags(X509CheckFlags::NO_PARTIAL_WILDCARDS);
    match address {
        Ok(address) => expected.set_ip(address),
        Err(_) => expected.set_host(name),
    }
}

//! TLS by rustls.

use std::io;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, Error, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::HandshakeFault;
use crate::https::access_files::{AccessFiles, ClientIdentity};
use crate::https::error::CertificateFault;

pub(super) type RustlsStream = tokio_rustls::client::TlsStream<TcpStream>;

/// Protect the stream; also return the server's certificate in DER.
pub(super) async fn connect(
    stream: TcpStream,
    host: &str,
    files: &AccessFiles,
) -> Result<(RustlsStream, Vec<u8>), HandshakeFault> {
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| HandshakeFault::Connection(format!("{host} is no host name or address")))?;
    let connector = TlsConnector::from(Arc::new(config(files)?));
    let stream = connector.connect(name, stream).await.map_err(|error| fault_of(&error))?;
    let chain = stream.get_ref().1.peer_certificates();
    let certificate = chain.and_then(|chain| chain.first()).map(|first| first.to_vec()).unwrap_or_default();
    Ok((stream, certificate))
}

fn config(files: &AccessFiles) -> Result<ClientConfig, HandshakeFault> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("the provider has both versions");
    let builder = builder.with_root_certificates(roots(files)?);
    let Some(ClientIdentity { chain: (_, chain), key: (key_file, key) }) = &files.client else {
        return Ok(builder.with_no_client_auth());
    };
    let refused = |reason: String| HandshakeFault::Credential(key_file.clone(), reason);
    let chain = chain.iter().map(|certificate| CertificateDer::from(certificate.clone())).collect();
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| refused(error.to_string()))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| refused(error.to_string()))
}

fn roots(files: &AccessFiles) -> Result<RootCertStore, HandshakeFault> {
    let mut roots = RootCertStore::empty();
    match &files.cas {
        Some((path, cas)) => {
            for (index, ca) in cas.iter().enumerate() {
                roots.add(CertificateDer::from(ca.clone())).map_err(|_| {
                    let reason = format!("certificate {} is not a valid X.509 certificate", index + 1);
                    HandshakeFault::Credential(path.clone(), reason)
                })?;
            }
        }
        // Some of the system's CAs may be too old to be read, and are not needed.
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    if roots.is_empty() { Err(HandshakeFault::NoSystemCas) } else { Ok(roots) }
}

fn fault_of(error: &io::Error) -> HandshakeFault {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    let Some(Error::InvalidCertificate(cause)) = cause else {
        return HandshakeFault::Connection(error.to_string());
    };
    HandshakeFault::Certificate(match cause {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => CertificateFault::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            CertificateFault::NotValidYet
        }
        // A CA of the same name has another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => CertificateFault::UnknownCa,
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            CertificateFault::OnlyCommonName
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            CertificateFault::OtherNames(presented.iter().map(|name| plain(name)).collect())
        }
        other => CertificateFault::Other(other.to_string()),
    })
}

/// Return the name in the library's spelling of one, such as `DnsName("host")`.
fn plain(presented: &str) -> String {
    presented.split('"').nth(1).unwrap_or(presented).to_owned()
}

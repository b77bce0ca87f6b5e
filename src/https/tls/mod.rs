//! TLS to a server: by rustls, or by the host's OpenSSL, which FIPS hosts need.

#[cfg(not(feature = "rustls"))]
mod openssl;
#[cfg(feature = "rustls")]
mod rustls;

use std::path::PathBuf;

use tokio::net::TcpStream;
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::{Decode as _, Encode as _};

#[cfg(not(feature = "rustls"))]
use self::openssl::OpensslStream as ProviderStream;
#[cfg(not(feature = "rustls"))]
use self::openssl::connect as connect_with_provider;
#[cfg(feature = "rustls")]
use self::rustls::RustlsStream as ProviderStream;
#[cfg(feature = "rustls")]
use self::rustls::connect as connect_with_provider;
use super::HttpsError;
use super::access_files::AccessFiles;
use super::error::CertificateFault;
use super::fips::ensure_validated_tls;
use crate::core::config::settings::server_access::PublicKeyPin;
use crate::core::config::settings::server_url::ServerUrl;

/// Stream that is protected by TLS.
pub(super) type TlsStream = ProviderStream;

/// Failure of a handshake.
enum HandshakeFault {
    /// A file with a certificate or key.
    Credential(PathBuf, String),
    /// OpenSSL refuses each certificate then.
    #[cfg(feature = "rustls")]
    NoSystemCas,
    Certificate(CertificateFault),
    /// The server refuses the client, speaks no TLS, or is gone.
    Connection(String),
}

/// Check the server's certificate, and return the protected stream with the server's public key.
pub(super) async fn connect(
    stream: TcpStream,
    url: &ServerUrl,
    files: &AccessFiles,
) -> Result<(TlsStream, PublicKeyPin), HttpsError> {
    ensure_validated_tls()?;
    let server = || url.authority().to_owned();
    let connected = connect_with_provider(stream, url.host(), files).await;
    let (stream, certificate) = connected.map_err(|fault| match fault {
        HandshakeFault::Credential(path, reason) => HttpsError::Credential { path, reason },
        #[cfg(feature = "rustls")]
        HandshakeFault::NoSystemCas => HttpsError::NoSystemCas,
        HandshakeFault::Certificate(fault) => HttpsError::Certificate { server: server(), fault },
        HandshakeFault::Connection(reason) => HttpsError::Unreachable { server: server(), reason },
    })?;
    let unreadable = || CertificateFault::Other("it is not a valid X.509 certificate".to_owned());
    let key = public_key_of(&certificate);
    let key = key.ok_or_else(|| HttpsError::Certificate { server: server(), fault: unreadable() })?;
    Ok((stream, key))
}

/// Return the pin of a certificate's public key; `None` if the certificate is not valid.
fn public_key_of(certificate: &[u8]) -> Option<PublicKeyPin> {
    let certificate = CertificateInner::<Raw>::from_der(certificate).ok()?;
    let key = certificate.tbs_certificate.subject_public_key_info.to_der().ok()?;
    Some(PublicKeyPin::of_key(&key))
}

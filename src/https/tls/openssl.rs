//! TLS by the host's OpenSSL.

use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use openssl::error::ErrorStack;
use openssl::pkey::PKey;
use openssl::ssl::{SslConnector, SslConnectorBuilder, SslMethod, SslVerifyMode};
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::verify::X509CheckFlags;
use openssl::x509::{X509, X509Ref, X509VerifyResult};
use tokio::net::TcpStream;
use tokio_openssl::SslStream;

use super::HandshakeFault;
use crate::https::access_files::{AccessFiles, ClientIdentity};
use crate::https::error::CertificateFault;

pub(super) type OpensslStream = SslStream<TcpStream>;

/// Codes of `X509_verify_cert`.
const NOT_YET_VALID: i32 = 9;
const EXPIRED: i32 = 10;
const WRONG_HOST: i32 = 62;
const WRONG_ADDRESS: i32 = 64;
/// A chain that ends with an issuer that is not known, with one of a known name and another key, or with a certificate
/// that its issuer signed itself.
const UNKNOWN_CA: [i32; 5] = [7, 18, 19, 20, 21];

/// Protect the stream; also return the server's certificate in DER.
pub(super) async fn connect(
    stream: TcpStream,
    host: &str,
    files: &AccessFiles,
) -> Result<(OpensslStream, Vec<u8>), HandshakeFault> {
    let failed = |error: ErrorStack| HandshakeFault::Connection(error.to_string());
    let connector = connector(files)?;
    let mut settings = connector.configure().map_err(failed)?;
    // A common name is not a host name, even in a certificate without alternative names.
    settings
        .param_mut()
        .set_hostflags(X509CheckFlags::NO_PARTIAL_WILDCARDS | X509CheckFlags::NEVER_CHECK_SUBJECT);
    // A session has no certificate of a server that was refused.
    let refused = Arc::new(OnceLock::new());
    let names = Arc::clone(&refused);
    settings.set_verify_callback(SslVerifyMode::PEER, move |is_verified, context| {
        if let Some(certificate) = context.current_cert().filter(|_| !is_verified) {
            // The first fault ends the handshake.
            let _ = names.set(names_of(certificate));
        }
        is_verified
    });
    let ssl = settings.into_ssl(host).map_err(failed)?;
    let mut stream = SslStream::new(ssl, stream).map_err(failed)?;
    if let Err(error) = Pin::new(&mut stream).connect().await {
        let verdict = stream.ssl().verify_result();
        return Err(if verdict == X509VerifyResult::OK {
            HandshakeFault::Connection(error.to_string())
        } else {
            HandshakeFault::Certificate(fault_of(verdict, refused.get().cloned().unwrap_or_default()))
        });
    }
    let certificate = stream.ssl().peer_certificate().and_then(|certificate| certificate.to_der().ok());
    Ok((stream, certificate.unwrap_or_default()))
}

fn connector(files: &AccessFiles) -> Result<SslConnector, HandshakeFault> {
    let failed = |error: ErrorStack| HandshakeFault::Connection(error.to_string());
    // With the CAs of the system.
    let mut builder = SslConnector::builder(SslMethod::tls_client()).map_err(failed)?;
    if let Some((path, cas)) = &files.cas {
        let mut store = X509StoreBuilder::new().map_err(failed)?;
        for (index, ca) in cas.iter().enumerate() {
            let added = X509::from_der(ca).and_then(|ca| store.add_cert(ca));
            added.map_err(|_| {
                let reason = format!("certificate {} is not a valid X.509 certificate", index + 1);
                HandshakeFault::Credential(path.clone(), reason)
            })?;
        }
        builder.set_cert_store(store.build());
    }
    if let Some(identity) = &files.client {
        identify(&mut builder, identity)?;
    }
    Ok(builder.build())
}

fn identify(builder: &mut SslConnectorBuilder, identity: &ClientIdentity) -> Result<(), HandshakeFault> {
    let refused = |path: &Path, reason: String| HandshakeFault::Credential(path.to_owned(), reason);
    let ClientIdentity { chain: (chain_file, chain), key: (key_file, key) } = identity;
    for (index, certificate) in chain.iter().enumerate() {
        let added = X509::from_der(certificate).and_then(|certificate| match index {
            0 => builder.set_certificate(&certificate),
            _ => builder.add_extra_chain_cert(certificate),
        });
        added.map_err(|error| refused(chain_file, error.to_string()))?;
    }
    let matched = PKey::private_key_from_pem(key).and_then(|key| {
        builder.set_private_key(&key)?;
        builder.check_private_key()
    });
    matched.map_err(|error| refused(key_file, error.to_string()))
}

fn fault_of(verdict: X509VerifyResult, names: Vec<String>) -> CertificateFault {
    match verdict.as_raw() {
        EXPIRED => CertificateFault::Expired,
        NOT_YET_VALID => CertificateFault::NotValidYet,
        WRONG_HOST | WRONG_ADDRESS if names.is_empty() => CertificateFault::OnlyCommonName,
        WRONG_HOST | WRONG_ADDRESS => CertificateFault::OtherNames(names),
        code if UNKNOWN_CA.contains(&code) => CertificateFault::UnknownCa,
        _ => CertificateFault::Other(verdict.error_string().to_owned()),
    }
}

fn names_of(certificate: &X509Ref) -> Vec<String> {
    let names = certificate.subject_alt_names();
    let names = names.iter().flatten().filter_map(|name| {
        let address = name.ipaddress().and_then(|bytes| match bytes.len() {
            4 => <[u8; 4]>::try_from(bytes).ok().map(|bytes| std::net::Ipv4Addr::from(bytes).to_string()),
            _ => <[u8; 16]>::try_from(bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
        });
        name.dnsname().map(str::to_owned).or(address)
    });
    names.collect()
}

//! TLS server in front of another server, with the certificates of a directory.

use std::path::Path;
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Clients that a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptedClients {
    /// Those with a certificate of the CA in `authority.pem`.
    Certified,
    /// All.
    Any,
}

/// Running server. It ends, with its connections, when dropped.
pub struct TlsTerminator {
    port: u16,
    _runtime: tokio::runtime::Runtime,
}

impl TlsTerminator {
    /// Start a server on loopback with `server.pem` and `server.key` of the directory, which passes on to `to`. Without a
    /// `port`, on a free one.
    pub fn start(directory: &Path, port: Option<u16>, to: &str, clients: AcceptedClients) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(configuration(directory, clients)));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", port.unwrap_or(0)))).unwrap();
        let port = listener.local_addr().unwrap().port();
        let to = to.to_owned();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass_on(stream, acceptor.clone(), to.clone()));
            }
        });
        Self { port, _runtime: runtime }
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

async fn pass_on(stream: TcpStream, acceptor: TlsAcceptor, to: String) {
    // A client that refuses the server, or that is refused, is no error of this server.
    let Ok(mut client) = acceptor.accept(stream).await else { return };
    let Ok(mut server) = TcpStream::connect(to).await else { return };
    drop(copy_bidirectional(&mut client, &mut server).await);
}

fn configuration(directory: &Path, clients: AcceptedClients) -> ServerConfig {
    let at = |name: &str| directory.join(name);
    let certificate = CertificateDer::from_pem_file(at("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(at("server.key")).unwrap();
    let authority = (clients == AcceptedClients::Certified).then(|| at("authority.pem"));
    server_configuration(certificate, key, authority.as_deref())
}

/// Configuration of a server with this certificate, which demands one of the CA in the file `authority` from its clients.
pub(crate) fn server_configuration(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    authority: Option<&Path>,
) -> ServerConfig {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = match authority {
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
        None => builder.with_no_client_auth(),
    };
    builder.with_single_cert(vec![certificate], key).unwrap()
}

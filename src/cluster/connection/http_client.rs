//! HTTP client of the API server. It offers HTTP/2 in the handshake, which every API server takes: all watches and requests
//! of an identity share one connection then. A proxy in between that speaks HTTP/1.1 only gets a connection for each of them.

use std::time::Duration;

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::Config;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use tokio::net::TcpStream;
use tower::layer::layer_fn;
use tower::timeout::Timeout;
use tower::util::{BoxCloneSyncService, BoxService, option_layer};
use tower::{BoxError, ServiceExt as _};

use super::client_config::KubeconfigProblem;
use super::first_request::FirstRequest;
use super::tls::{self, MaybeTlsStream};

/// Time limit for a connection, handshakes included.
const CONNECTION: Duration = Duration::from_secs(10);
/// Bytes of one answer that arrive before they are read.
const ANSWER_WINDOW: u32 = 512 << 10;
/// The same for all answers of a connection: watches that are not read for a while leave room for requests.
const CONNECTION_WINDOW: u32 = 16 * ANSWER_WINDOW;

/// Signs of life that the client asks a silent server for. A machine that is gone closes no connection: its watches
/// would go on without an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeepAlive {
    /// Silence after which the server is asked.
    after: Duration,
    /// Time limit of the answer.
    limit: Duration,
}

impl KeepAlive {
    /// Times of Kubernetes' own clients.
    pub(super) const KUBERNETES: Self =
        Self { after: Duration::from_secs(30), limit: Duration::from_secs(15) };
}

/// Unprotected stream to the server, or protected one to the proxy.
pub(super) type TransportStream = MaybeTlsStream<TokioIo<TcpStream>>;
/// Connections to the server, through the proxy if there is one.
pub(super) type TransportConnector = BoxCloneSyncService<Uri, TransportStream, BoxError>;

/// Requests with the server and the identity of the kubeconfig.
pub(super) type KubeService = BoxService<Request<Body>, Response<Incoming>, BoxError>;

/// Return a client of the server; it connects with the first request.
pub(super) fn http_client(
    config: &Config,
    keep_alive: KeepAlive,
) -> Result<ClientBuilder<KubeService>, KubeconfigProblem> {
    let connector = tls::protect(config, transport(config, keep_alive)?)?;
    let connector = BoxCloneSyncService::new(Timeout::new(connector, CONNECTION));
    let client: Client<_, Body> = Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        // The server closes idle connections, and a connection that carries a watch is not.
        .pool_idle_timeout(None)
        .http2_initial_stream_window_size(ANSWER_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(keep_alive.after)
        .http2_keep_alive_timeout(keep_alive.limit)
        .http2_keep_alive_while_idle(true)
        .build(connector);
    let client = ClientBuilder::new(client.map_err(BoxError::from), config.default_namespace.clone())
        .with_layer(&config.extra_headers_layer()?)
        .with_layer(&option_layer(config.auth_layer()?))
        .with_layer(&config.base_uri_layer());
    Ok(client.with_layer(&layer_fn(FirstRequest::before)).with_layer(&layer_fn(BoxService::new)))
}

/// Return the service that makes connections to the server, or has the proxy of the kubeconfig make them.
fn transport(config: &Config, keep_alive: KeepAlive) -> Result<TransportConnector, KubeconfigProblem> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // For HTTP/1.1, which has no signs of life of its own.
    tcp.set_keepalive(Some(keep_alive.after));
    tcp.set_keepalive_interval(Some(keep_alive.limit));
    tcp.set_keepalive_retries(Some(1));
    let Some(proxy) = &config.proxy_url else {
        let direct = tcp.map_response(TransportStream::Http).map_err(BoxError::from);
        return Ok(BoxCloneSyncService::new(direct));
    };
    let proxy = Matcher::builder().all(proxy.to_string()).build().intercept(&config.cluster_url);
    let proxy = proxy.ok_or(KubeconfigProblem::ProxyUrl)?;
    let mut tunnel = Tunnel::new(proxy.uri().clone(), tls::protect_proxy(config, tcp)?);
    if let Some(password) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(password.clone());
    }
    Ok(BoxCloneSyncService::new(tunnel.map_err(BoxError::from)))
}

#[cfg(test)]
#[cfg(feature = "rustls")]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use hyper::server::conn::http2;
    use hyper::service::service_fn;
    use rustls::ServerConfig;
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio::net::TcpListener;
    use tokio::sync::{Barrier, Notify};
    use tokio::time::timeout;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// Time limit of the expected event.
    const LIMIT: Duration = Duration::from_secs(30);
    /// Requests at a time.
    const REQUESTS: usize = 5;

    /// Server with HTTP/2 that answers `/together` when so many requests have arrived, and `/watch` without an end.
    #[derive(Clone)]
    struct Server {
        config: Config,
        connections: Arc<AtomicUsize>,
        together: Arc<Barrier>,
        /// A watch has arrived.
        watched: Arc<Notify>,
        /// Stops the server without a word: its connections stay open.
        frozen: Arc<Notify>,
    }

    impl Server {
        async fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
            let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
            let certificate = certified.cert.der().clone();
            let mut config = Config::new(format!("https://{address}").parse().unwrap());
            config.root_cert = Some(vec![certificate.to_vec()]);
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let tls =
                ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
            let mut tls = tls.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
            tls.alpn_protocols = vec![b"h2".to_vec()];
            let acceptor = TlsAcceptor::from(Arc::new(tls));
            let together = Arc::new(Barrier::new(REQUESTS));
            let (connections, watched, frozen) = <(Arc<AtomicUsize>, Arc<Notify>, Arc<Notify>)>::default();
            let server = Self { config, connections, together, watched, frozen };
            let accepting = server.clone();
            tokio::spawn(async move {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    accepting.connections.fetch_add(1, Ordering::SeqCst);
                    let stream = acceptor.accept(stream).await.unwrap();
                    tokio::spawn(accepting.clone().serve(TokioIo::new(stream)));
                }
            });
            server
        }

        async fn serve<S: hyper::rt::Read + hyper::rt::Write + Unpin>(self, stream: S) {
            let answer = service_fn(|request: Request<Incoming>| {
                let server = self.clone();
                async move {
                    match request.uri().path() {
                        "/together" => {
                            server.together.wait().await;
                        }
                        "/watch" => {
                            server.watched.notify_one();
                            std::future::pending::<()>().await;
                        }
                        _ => {}
                    }
                    Ok::<_, Infallible>(Response::new(String::new()))
                }
            });
            let connection = http2::Builder::new(TokioExecutor::new()).serve_connection(stream, answer);
            tokio::pin!(connection);
            tokio::select! {
                ended = &mut connection => drop(ended),
                () = self.frozen.notified() => std::future::pending().await,
            }
        }

        async fn ask(client: &kube::Client, path: &str) -> Result<Response<Body>, kube::Error> {
            client.send(Request::get(path).body(Body::empty()).unwrap()).await
        }
    }

    #[tokio::test]
    async fn requests_share_a_connection() {
        let server = Server::start().await;
        let client = http_client(&server.config, KeepAlive::KUBERNETES).unwrap().build();
        // The first ones make the connection, and the others need it at the same time.
        for path in ["/", "/together"] {
            let answers = join_all((0..REQUESTS).map(|_| Server::ask(&client, path)));
            for answer in timeout(LIMIT, answers).await.unwrap() {
                assert_eq!(answer.unwrap().status(), 200);
            }
        }
        assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn silent_server_ends_its_requests() {
        let server = Server::start().await;
        let keep_alive = KeepAlive { after: Duration::from_millis(100), limit: Duration::from_secs(2) };
        let client = http_client(&server.config, keep_alive).unwrap().build();
        let watcher = client.clone();
        let watch = tokio::spawn(async move { Server::ask(&watcher, "/watch").await });
        timeout(LIMIT, server.watched.notified()).await.unwrap();
        server.frozen.notify_waiters();
        let error = timeout(LIMIT, watch).await.unwrap().unwrap().unwrap_err();
        let error = crate::cluster::ClusterError::from(error);
        assert!(error.has_no_answer() && error.to_string().contains("keep-alive timed out"), "{error}");
        // The next request has another connection.
        timeout(LIMIT, Server::ask(&client, "/")).await.unwrap().unwrap();
        assert_eq!(server.connections.load(Ordering::SeqCst), 2);
    }
}

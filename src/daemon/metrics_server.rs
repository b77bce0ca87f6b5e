//! HTTP server of the metrics, on loopback by default. It has no authentication: kube-rbac-proxy in front of
//! it has. Every user of the host can connect, so the number of connections and their time are limited.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::core::values::causes::chain;
use crate::daemon::kubelet_health::SampleTriggers;
use crate::daemon::metrics::{DaemonMetrics, TextFormat};

/// Connections at a time. The others wait in the kernel's backlog, where they cost the daemon nothing.
const CONNECTIONS: usize = 16;
/// Time for a client to send its request header. Scrapers send it as soon as they are connected; clients that
/// do not are soon replaced by those that wait.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for a connection from the request to the end of the response, for a client that reads slowly.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after the kernel refused a connection, for want of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_secs(10);

/// Serve `/metrics`. A failure is logged and does not stop the daemon.
pub(super) async fn serve(address: SocketAddr, metrics: Arc<DaemonMetrics>, samples: Arc<SampleTriggers>) {
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) => {
            return log::warn!(
                "metrics are not served: cannot listen on {address}: {error}",
                error = chain(&error)
            );
        }
    };
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let permit = connections.clone().acquire_owned().await.expect("the semaphore is never closed");
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                let seconds = ACCEPT_PAUSE.as_secs();
                log::warn!(
                    "metrics are not served for {seconds} seconds: cannot accept a connection: {error}",
                    error = chain(&error)
                );
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (metrics, samples) = (metrics.clone(), samples.clone());
        tokio::spawn(async move {
            // A client that disconnects early or exceeds its time affects only itself.
            drop(timeout(EXCHANGE_TIMEOUT, exchange(stream, metrics, samples)).await);
            drop(permit);
        });
    }
}

async fn exchange(
    stream: TcpStream,
    metrics: Arc<DaemonMetrics>,
    samples: Arc<SampleTriggers>,
) -> hyper::Result<()> {
    let answer = service_fn(move |request| {
        let answer = answer(&request, &metrics);
        if answer.status() == StatusCode::OK {
            samples.scraped.notify_one();
        }
        async { Ok::<_, Infallible>(answer) }
    });
    let mut connection = http1::Builder::new();
    connection.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).keep_alive(false);
    connection.serve_connection(TokioIo::new(stream), answer).await
}

fn answer(request: &Request<Incoming>, metrics: &DaemonMetrics) -> Response<Full<Bytes>> {
    let format = TextFormat::negotiate(request.headers());
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => (StatusCode::OK, metrics.text(format)),
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, String::new()),
        _ => (StatusCode::NOT_FOUND, String::new()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(format.content_type()));
    response
}

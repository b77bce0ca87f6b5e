//! HTTP server of the metrics, on loopback by default. It has no authentication: kube-rbac-proxy in front of
//! it has.

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
use tokio::net::TcpListener;

use crate::core::config::settings::boot_check::HealthPolicy;
use crate::daemon::metrics::DaemonMetrics;
use crate::host::facts::healthz;

const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Time for a client to send its request header.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serve `/metrics`. A failure is logged and does not stop the daemon.
pub(super) async fn serve(address: SocketAddr, metrics: Arc<DaemonMetrics>) {
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) => return log::warn!("metrics are not served: cannot listen on {address}: {error}"),
    };
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                let seconds = PATIENCE.as_secs();
                log::warn!(
                    "metrics are not served for {seconds} seconds: cannot accept a connection: {error}"
                );
                tokio::time::sleep(PATIENCE).await;
                continue;
            }
        };
        let metrics = metrics.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| answer(request, metrics.clone()));
            let mut connection = http1::Builder::new();
            connection.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false);
            // A client that disconnects early affects only itself.
            drop(connection.serve_connection(TokioIo::new(stream), answer).await);
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    metrics: Arc<DaemonMetrics>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => {
            // The kubelet is asked at each scrape, so that the idle daemon has no timer.
            let port = HealthPolicy::default().kubelet_port;
            let looked = tokio::task::spawn_blocking(move || healthz::check(port)).await;
            metrics.record_kubelet(looked.is_ok_and(|health| health.is_ok()));
            (StatusCode::OK, metrics.text())
        }
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, String::new()),
        _ => (StatusCode::NOT_FOUND, String::new()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(TEXT));
    Ok(response)
}

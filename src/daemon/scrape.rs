//! Where metrics are read from: HTTP on loopback. Whoever lets others read them does that in front of it.

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
use crate::host::facts::healthz;

use crate::daemon::metrics::Metrics;

const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Whoever does not say what they want by then is not served.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers for as long as the daemon runs, which does not depend on it.
pub(super) async fn serve(address: SocketAddr, metrics: Arc<Metrics>) {
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) => return log::warn!("nobody can read metrics from {address}: {error}"),
    };
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                log::warn!("metrics are not served for a moment: {error}");
                tokio::time::sleep(PATIENCE).await;
                continue;
            }
        };
        let metrics = metrics.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| answer(request, metrics.clone()));
            let mut connection = http1::Builder::new();
            connection.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false);
            // Whoever hangs up early missed something, and nobody else did.
            drop(connection.serve_connection(TokioIo::new(stream), answer).await);
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    metrics: Arc<Metrics>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => {
            // Looked at when somebody wants to know, and not every half minute.
            let port = HealthPolicy::default().kubelet_port;
            let looked = tokio::task::spawn_blocking(move || healthz::ask(port)).await;
            metrics.note_kubelet(looked.is_ok_and(|health| health.is_ok()));
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

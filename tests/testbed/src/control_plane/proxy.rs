//! Proxy between a node and the API server: records requests, and fails on demand.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kube::Client;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::request_log::{RecordedRequest, RequestLog};

/// Failure of the proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    /// Each connection ends without a response.
    Reset,
    /// Each response, watches included, ends in the middle.
    Truncated,
    /// Each response has this status.
    Status(u16),
    /// Each request about Leases is denied.
    DeniedLeases,
    /// A disruption budget refuses each eviction.
    Budget,
    /// Each eviction of the pod of this name fails with this status.
    Eviction(&'static str, u16),
    /// Each response to a patch of a status has this status.
    StatusOfPatch(u16),
    /// No response is sent.
    Silence,
    /// Each response is delayed by this time.
    Delayed(Duration),
}

impl Fault {
    /// Fault of the response to one request.
    fn on(self, request: &http::request::Parts) -> Self {
        let is_status_patch =
            request.method == http::Method::PATCH && request.uri.path().ends_with("/status");
        match self {
            Self::StatusOfPatch(code) if is_status_patch => Self::Status(code),
            Self::DeniedLeases if request.uri.path().contains("/leases") => Self::Status(403),
            Self::Eviction(pod, code) if request.uri.path().ends_with(&format!("/{pod}/eviction")) => {
                Self::Status(code)
            }
            Self::StatusOfPatch(_) | Self::DeniedLeases | Self::Eviction(..) => Self::None,
            Self::Budget if !request.uri.path().ends_with("/eviction") => Self::None,
            fault => fault,
        }
    }
}

/// Refusal of a Lease that a kubelet writes, as the admission plugin `NodeRestriction` words it
/// (`plugin/pkg/admission/noderestriction/admission.go`): it may write the Lease of its own heartbeat only.
const KUBELETS_LEASE: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"leases.coordination.k8s.io is forbidden: can only access leases in the \"kube-node-lease\" system namespace","reason":"Forbidden","code":403}"#;

/// Refusal of an eviction, as the eviction API of Kubernetes writes it (`pkg/registry/core/pod/storage/eviction.go`).
const BUDGET: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Cannot evict pod as it would violate the pod's disruption budget.","reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget web needs 2 healthy pods and has 2 currently"}]},"code":429}"#;

type Answer = Response<UnsyncBoxBody<Bytes, Broken>>;

/// Error that ends a body in the middle.
#[derive(Debug, thiserror::Error)]
#[error("the connection was reset")]
pub struct Broken;

pub struct Proxy {
    address: String,
    fault: watch::Sender<Fault>,
    log: Arc<(Mutex<RequestLog>, Condvar)>,
}

impl Proxy {
    pub fn start(runtime: &Runtime, client: Client) -> Self {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (fault, faults) = watch::channel(Fault::None);
        let log = Arc::<(Mutex<RequestLog>, Condvar)>::default();
        let noted = log.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (client, faults, log) = (client.clone(), faults.clone(), noted.clone());
                tokio::spawn(async move {
                    let answer = service_fn(move |request| {
                        answer(request, client.clone(), faults.clone(), log.clone())
                    });
                    // A connection that is reset on purpose ends with an error here.
                    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
                });
            }
        });
        Self { address, fault, log }
    }

    /// Set the failure, for open connections too.
    pub fn fail(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }

    /// Requests so far.
    pub fn log(&self) -> RequestLog {
        self.log.0.lock().unwrap().clone()
    }

    /// Wait until the recorded requests satisfy `is_so`; `None` if they do not within `patience`.
    pub fn wait(&self, patience: Duration, is_so: impl Fn(&RequestLog) -> bool) -> Option<()> {
        let (log, added) = &*self.log;
        let waited = added.wait_timeout_while(log.lock().unwrap(), patience, |log| !is_so(log)).unwrap();
        (!waited.1.timed_out()).then_some(())
    }

    /// Delete the recorded requests.
    pub fn clear(&self) {
        self.log.0.lock().unwrap().clear();
    }

    /// Address of the proxy.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Kubeconfig for `identity` through the proxy, with the CA certificate at the path `authority`.
    pub fn kubeconfig(&self, authority: &str, identity: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"http://{}\", certificate-authority: {authority}}}}}]\n\
             users: [{{name: u, user: {{token: {identity}}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             current-context: c\n",
            self.address
        )
    }
}

async fn answer(
    request: Request<Incoming>,
    client: Client,
    mut faults: watch::Receiver<Fault>,
    log: Arc<(Mutex<RequestLog>, Condvar)>,
) -> Result<Answer, Broken> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let fault = faults.borrow_and_update().on(&parts);
    let recorded = recorded(&parts, &body, fault);
    if is_lease_of_kubelet(&parts, &recorded) {
        note(&log, recorded);
        return Ok(refusal(403, KUBELETS_LEASE));
    }
    let note = move || note(&log, recorded);
    match fault {
        Fault::None
        | Fault::Truncated
        | Fault::StatusOfPatch(_)
        | Fault::Eviction(..)
        | Fault::DeniedLeases => {}
        Fault::Reset => {
            note();
            return Err(Broken);
        }
        Fault::Delayed(time) => tokio::time::sleep(time).await,
        Fault::Silence => {
            note();
            // Wait for the end of the silence; by then the response is too late.
            drop(faults.changed().await);
            return Err(Broken);
        }
        Fault::Budget => {
            note();
            return Ok(refusal(429, BUDGET));
        }
        Fault::Status(code) => {
            note();
            let text = format!(
                "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"message\":\"injected by the test\",\"code\":{code}}}"
            );
            return Ok(refusal(code, &text));
        }
    }
    let forwarded = forwarded(&parts, &body);
    // In its own task: the request is completed and recorded even if the client is killed meanwhile.
    let answered = tokio::spawn(async move {
        let answer = client.send(forwarded).await;
        note();
        answer
    });
    let (head, body) = answered.await.unwrap().map_err(|_| Broken)?.into_parts();
    let body = Breakable { body: Box::pin(body.map_err(|_| Broken)), faults: Box::pin(broken(faults)) };
    Ok(Response::from_parts(head, UnsyncBoxBody::new(body)))
}

fn recorded(parts: &http::request::Parts, body: &[u8], fault: Fault) -> RecordedRequest {
    let identity = parts.headers.get("authorization").and_then(|header| header.to_str().ok());
    RecordedRequest {
        identity: identity.unwrap_or_default().trim_start_matches("Bearer ").to_owned(),
        method: parts.method.to_string(),
        target: parts.uri.to_string(),
        body: body.to_vec(),
        is_answered: matches!(fault, Fault::None | Fault::Delayed(_)),
    }
}

fn is_lease_of_kubelet(parts: &http::request::Parts, recorded: &RecordedRequest) -> bool {
    let writes_a_lease = parts.method != http::Method::GET && parts.uri.path().contains("/leases");
    writes_a_lease && recorded.identity.starts_with("system:node:")
}

fn note((log, changed): &(Mutex<RequestLog>, Condvar), request: RecordedRequest) {
    log.lock().unwrap().note(request);
    changed.notify_all();
}

fn refusal(code: u16, text: &str) -> Answer {
    let body = http_body_util::Full::from(text.to_owned()).map_err(|_: Infallible| Broken);
    let mut answer = Response::builder().status(code);
    if code == 429 {
        answer = answer.header("Retry-After", "1");
    }
    answer.body(UnsyncBoxBody::new(body)).unwrap()
}

/// Request as sent to the API server: without the identity, which only the proxy knows.
fn forwarded(parts: &http::request::Parts, body: &[u8]) -> Request<kube::client::Body> {
    let mut forwarded = Request::builder().method(parts.method.clone()).uri(parts.uri.clone());
    for (name, value) in parts
        .headers
        .iter()
        .filter(|(name, _)| !["authorization", "content-length", "host"].contains(&name.as_str()))
    {
        forwarded = forwarded.header(name, value);
    }
    forwarded.body(kube::client::Body::from(body.to_vec())).unwrap()
}

/// Return when connections are to be broken.
async fn broken(mut faults: watch::Receiver<Fault>) {
    let breaks = |fault: &Fault| {
        let is_whole = matches!(
            fault,
            Fault::None
                | Fault::Delayed(_)
                | Fault::StatusOfPatch(_)
                | Fault::Budget
                | Fault::Eviction(..)
                | Fault::DeniedLeases
        );
        !is_whole
    };
    if faults.wait_for(breaks).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Body that may end early.
struct Breakable<B, F> {
    body: Pin<Box<B>>,
    faults: Pin<Box<F>>,
}

impl<B: Body<Data = Bytes, Error = Broken>, F: Future<Output = ()>> Body for Breakable<B, F> {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if self.faults.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(Broken)));
        }
        self.body.as_mut().poll_frame(context)
    }
}

//! What lies between a node and the API server: it notes what is asked, and fails as it is told to.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Condvar, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use hyper::{
    Request, Response,
    body::{Body, Bytes, Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use kube::Client;
use tokio::{net::TcpListener, runtime::Runtime, sync::watch};

use super::record::{Asked, Record};

/// What goes wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    /// Each connection ends without an answer.
    Reset,
    /// Each answer, watches included, ends in the middle.
    Half,
    /// Each answer is this one.
    Status(u16),
    /// Nothing is answered.
    Silence,
    /// Each answer comes that much later.
    Late(Duration),
}

type Answer = Response<UnsyncBoxBody<Bytes, Broken>>;

/// Why a body ends in the middle.
#[derive(Debug, thiserror::Error)]
#[error("the connection was reset")]
pub struct Broken;

pub struct Proxy {
    address: String,
    fault: watch::Sender<Fault>,
    record: Arc<(Mutex<Record>, Condvar)>,
}

impl Proxy {
    pub fn start(runtime: &Runtime, client: Client) -> Self {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (fault, faults) = watch::channel(Fault::None);
        let record = Arc::<(Mutex<Record>, Condvar)>::default();
        let noted = record.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (client, faults, record) = (client.clone(), faults.clone(), noted.clone());
                tokio::spawn(async move {
                    let answer = service_fn(move |request| {
                        answer(request, client.clone(), faults.clone(), record.clone())
                    });
                    // A connection that was to be reset ends with an error.
                    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
                });
            }
        });
        Self { address, fault, record }
    }

    /// From now on this goes wrong, for what is under way as well.
    pub fn fail(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }

    /// What was asked so far.
    pub fn record(&self) -> Record {
        self.record.0.lock().unwrap().clone()
    }

    /// Waits until what was asked is so.
    pub fn wait(&self, patience: Duration, is_so: impl Fn(&Record) -> bool) -> Option<()> {
        let (record, asked) = &*self.record;
        let waited =
            asked.wait_timeout_while(record.lock().unwrap(), patience, |record| !is_so(record)).unwrap();
        (!waited.1.timed_out()).then_some(())
    }

    /// Forgets what was asked.
    pub fn forget(&self) {
        self.record.0.lock().unwrap().forget();
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How it is reached by somebody, who finds certificates at that path.
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
    record: Arc<(Mutex<Record>, Condvar)>,
) -> Result<Answer, Broken> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let fault = *faults.borrow_and_update();
    let identity = parts.headers.get("authorization").and_then(|header| header.to_str().ok());
    let asked = Asked {
        identity: identity.unwrap_or_default().trim_start_matches("Bearer ").to_owned(),
        method: parts.method.to_string(),
        target: parts.uri.to_string(),
        body: body.to_vec(),
        is_answered: matches!(fault, Fault::None | Fault::Late(_)),
    };
    let note = move || {
        record.0.lock().unwrap().note(asked);
        record.1.notify_all();
    };
    match fault {
        Fault::None | Fault::Half => {}
        Fault::Reset => {
            note();
            return Err(Broken);
        }
        Fault::Late(time) => tokio::time::sleep(time).await,
        Fault::Silence => {
            note();
            // As long as it is silent, and then it is too late.
            drop(faults.changed().await);
            return Err(Broken);
        }
        Fault::Status(code) => {
            note();
            let text = format!(
                "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"message\":\"told to\",\"code\":{code}}}"
            );
            let body = http_body_util::Full::from(text).map_err(|_: Infallible| Broken);
            let mut answer = Response::builder().status(code);
            if code == 429 {
                answer = answer.header("Retry-After", "1");
            }
            return Ok(answer.body(UnsyncBoxBody::new(body)).unwrap());
        }
    }
    let passed = passed(&parts, &body);
    // On its own: it is done, and noted, also where whoever asked is killed meanwhile.
    let answered = tokio::spawn(async move {
        let answer = client.send(passed).await;
        note();
        answer
    });
    let (head, body) = answered.await.unwrap().map_err(|_| Broken)?.into_parts();
    let body = Breakable { body: Box::pin(body.map_err(|_| Broken)), faults: Box::pin(broken(faults)) };
    Ok(Response::from_parts(head, UnsyncBoxBody::new(body)))
}

/// The request as the API server gets it: without the identity, which is none of the server's.
fn passed(parts: &http::request::Parts, body: &[u8]) -> Request<kube::client::Body> {
    let mut passed = Request::builder().method(parts.method.clone()).uri(parts.uri.clone());
    for (name, value) in parts
        .headers
        .iter()
        .filter(|(name, _)| !["authorization", "content-length", "host"].contains(&name.as_str()))
    {
        passed = passed.header(name, value);
    }
    passed.body(kube::client::Body::from(body.to_vec())).unwrap()
}

/// Returns once connections are to break.
async fn broken(mut faults: watch::Receiver<Fault>) {
    let breaks = |fault: &Fault| !matches!(fault, Fault::None | Fault::Late(_));
    if faults.wait_for(breaks).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A body that may end early.
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

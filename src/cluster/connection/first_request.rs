//! First request of a client. It makes the connection, which requests that begin meanwhile wait for and share: each of them
//! would make one of its own, and thousands of nodes come back at the same time after an outage.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::Mutex;
use tower::Service;

/// Service whose requests wait until the first one has an answer. After one that fails, the next is the first.
pub(super) struct FirstRequest<S> {
    service: S,
    is_answered: Arc<Mutex<bool>>,
}

impl<S> FirstRequest<S> {
    pub(super) fn before(service: S) -> Self {
        Self { service, is_answered: Arc::default() }
    }
}

impl<S, R> Service<R> for FirstRequest<S>
where
    S: Service<R, Future: Send + 'static>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (answer, is_answered) = (self.service.call(request), Arc::clone(&self.is_answered));
        Box::pin(async move {
            let mut first = is_answered.lock().await;
            if *first {
                drop(first);
                return answer.await;
            }
            let answer = answer.await;
            *first = answer.is_ok();
            answer
        })
    }
}

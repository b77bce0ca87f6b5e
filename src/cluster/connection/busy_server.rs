//! Overload of the API server: it names the time after which to ask again in the header `Retry-After`, which
//! the client's errors do not carry.

use std::error::Error;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Response, StatusCode};

/// Longest wait on demand of the server: a wrong header must not silence the node for a day.
const LONGEST: Duration = Duration::from_secs(300);

/// Response of a server that refuses the request for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the API server is overloaded: status {status}, to be asked again after {} seconds", retry_after.as_secs())]
pub struct BusyServer {
    pub status: u16,
    pub retry_after: Duration,
}

impl BusyServer {
    /// Return the refusal in a response, if it is one. The header's other form, a date, is not sent by API
    /// servers.
    fn of(status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            return None;
        }
        let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
        Some(Self { status: status.as_u16(), retry_after: Duration::from_secs(seconds).min(LONGEST) })
    }
}

/// Turn the response of a busy server into an error that keeps the time.
pub(super) fn refuse_busy<B>(
    response: Result<Response<B>, Box<dyn Error + Send + Sync>>,
) -> Result<Response<B>, Box<dyn Error + Send + Sync>> {
    let response = response?;
    match BusyServer::of(response.status(), response.headers()) {
        Some(busy) => Err(busy.into()),
        None => Ok(response),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, after: Option<&str>) -> Option<u64> {
        let mut response = Response::builder().status(status);
        if let Some(after) = after {
            response = response.header("Retry-After", after);
        }
        let refused = refuse_busy(Ok(response.body(()).unwrap())).err()?;
        Some(refused.downcast::<BusyServer>().unwrap().retry_after.as_secs())
    }

    #[test]
    fn busy_server_sets_the_time_of_the_next_request_within_a_limit() {
        assert_eq!([429, 503].map(|status| refused(status, Some("7"))), [Some(7), Some(7)]);
        assert_eq!(refused(429, Some("86400")), Some(300));
        assert_eq!(refused(503, None), None);
        assert_eq!(refused(503, Some("Fri, 31 Dec 1999 23:59:59 GMT")), None);
        assert_eq!([200, 500].map(|status| refused(status, Some("7"))), [None, None]);
    }
}

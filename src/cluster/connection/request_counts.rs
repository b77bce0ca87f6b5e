//! Count of the API server's responses, for the metrics.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use http::Response;

/// Status that stands for a request without a response, as in the metrics of Kubernetes' own clients.
const NO_RESPONSE: &str = "<error>";

/// Number of responses by status. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct RequestCounts(Arc<Mutex<BTreeMap<Option<u16>, u64>>>);

impl RequestCounts {
    pub(super) fn count<B>(&self, response: &Result<Response<B>, Box<dyn Error + Send + Sync>>) {
        let status = response.as_ref().ok().map(|response| response.status().as_u16());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(status).or_default() += 1;
    }

    /// Return each status with its number of responses; `<error>` for requests without one.
    #[must_use]
    pub fn counted(&self) -> Vec<(String, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |status: &Option<u16>| status.map_or(NO_RESPONSE.to_owned(), |status| status.to_string());
        counts.iter().map(|(status, count)| (name(status), *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_counted_by_status_over_all_clones() {
        let counts = RequestCounts::default();
        for status in [200, 409, 200] {
            counts.clone().count(&Ok(Response::builder().status(status).body(()).unwrap()));
        }
        counts.count::<()>(&Err("connection reset".into()));
        let counted = counts.counted();
        let expected = [("<error>", 1), ("200", 2), ("409", 1)];
        assert_eq!(counted, expected.map(|(status, count)| (status.to_owned(), count)));
    }
}

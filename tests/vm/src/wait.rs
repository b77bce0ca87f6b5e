//! Waits for conditions, each with a deadline and a name for the error.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Bounds of the pause between two polls. A pause is a tenth of the time waited so far, since each poll costs
/// the guest time.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(250);

/// Poll until there is a result, and return it.
///
/// # Errors
/// `poll` fails, or returns `None` until `limit` has passed; the error names `what`.
pub fn until<T>(what: &str, limit: Duration, mut poll: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(result) = poll()? {
            return Ok(result);
        }
        if start.elapsed() >= limit {
            bail!("timed out after {} s waiting for {what}", limit.as_secs());
        }
        thread::sleep((start.elapsed() / 10).clamp(SHORTEST, LONGEST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_error_names_the_awaited_event() {
        let error = until("rain", Duration::ZERO, || Ok(None::<()>)).unwrap_err();
        assert_eq!(error.to_string(), "timed out after 0 s waiting for rain");
    }

    #[test]
    fn condition_is_polled_once_even_with_zero_timeout() {
        assert_eq!(until("anything", Duration::ZERO, || Ok(Some(1))).unwrap(), 1);
    }
}

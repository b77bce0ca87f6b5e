//! Waiting for what happens elsewhere: always with a deadline, and with a name for what did not happen.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long to look away between two looks: a tenth of the time that was waited, since looking costs the guest time.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(250);

/// Looks until there is something to see, and returns it.
///
/// # Errors
/// `look` fails, or sees nothing until `limit` has passed; the error then says `what` was waited for.
pub fn until<T>(what: &str, limit: Duration, mut poll: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(result) = poll()? {
            return Ok(result);
        }
        if start.elapsed() >= limit {
            bail!("waited {} s in vain for {what}", limit.as_secs());
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
        assert_eq!(error.to_string(), "waited 0 s in vain for rain");
    }

    #[test]
    fn condition_is_polled_once_even_with_zero_timeout() {
        assert_eq!(until("anything", Duration::ZERO, || Ok(Some(1))).unwrap(), 1);
    }
}

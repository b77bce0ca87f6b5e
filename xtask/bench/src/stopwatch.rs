//! Times of processes, and their median and maximum.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::program;

/// Run `command` and return the time from its start to its end.
///
/// # Errors
/// The command cannot be started or fails; the error contains its standard error.
pub fn time(command: &mut Command) -> Result<Duration> {
    let shown = program::shown(command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let start = Instant::now();
    let output = command.output().with_context(|| format!("starting `{shown}`"))?;
    let elapsed = start.elapsed();
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{shown}` ended with {}: {}", output.status, stderr.trim());
    Ok(elapsed)
}

/// Return the median: the middle value, or the mean of the two in the middle.
///
/// # Errors
/// `times` is empty.
pub fn median(times: &[Duration]) -> Result<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let upper = sorted.get(sorted.len() / 2).context("nothing was measured")?;
    let lower = sorted.get((sorted.len() - 1) / 2).unwrap_or(upper);
    Ok((*lower + *upper) / 2)
}

/// Return the longest time.
///
/// # Errors
/// `times` is empty.
pub fn worst(times: &[Duration]) -> Result<Duration> {
    times.iter().max().copied().context("nothing was measured")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_value() {
        let cases: [(&[u64], u64); 4] = [(&[7], 7), (&[9, 1], 5), (&[30, 1, 2], 2), (&[4, 1, 100, 2], 3)];
        for (times, expected) in cases {
            let times: Vec<_> = times.iter().copied().map(Duration::from_millis).collect();
            assert_eq!(median(&times).unwrap(), Duration::from_millis(expected), "{times:?}");
        }
        assert!(median(&[]).is_err());
    }

    #[test]
    fn failed_process_has_no_time() {
        let error = time(Command::new("sh").args(["-c", "echo full >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().ends_with("full"), "{error}");
    }
}

//! Timing processes, and what is made of several times.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::invocation;

/// How long `command` takes from its start to its end.
///
/// # Errors
/// It cannot be started or fails; the error carries what it said.
pub fn time(command: &mut Command) -> Result<Duration> {
    let shown = invocation::shown(command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let start = Instant::now();
    let output = command.output().with_context(|| format!("starting `{shown}`"))?;
    let elapsed = start.elapsed();
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{shown}` ended with {}: {}", output.status, said.trim());
    Ok(elapsed)
}

/// The middle one, or the mean of the two in the middle.
///
/// # Errors
/// There is none: nothing was measured.
pub fn median(times: &[Duration]) -> Result<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let upper = sorted.get(sorted.len() / 2).context("nothing was measured")?;
    let lower = sorted.get((sorted.len() - 1) / 2).unwrap_or(upper);
    Ok((*lower + *upper) / 2)
}

/// The longest.
///
/// # Errors
/// There is none: nothing was measured.
pub fn worst(times: &[Duration]) -> Result<Duration> {
    times.iter().max().copied().context("nothing was measured")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let cases: [(&[u64], u64); 4] = [(&[7], 7), (&[9, 1], 5), (&[30, 1, 2], 2), (&[4, 1, 100, 2], 3)];
        for (times, expected) in cases {
            let times: Vec<_> = times.iter().copied().map(Duration::from_millis).collect();
            assert_eq!(median(&times).unwrap(), Duration::from_millis(expected), "{times:?}");
        }
        assert!(median(&[]).is_err());
    }

    #[test]
    fn a_failed_process_has_no_time() {
        let error = time(Command::new("sh").args(["-c", "echo full >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().ends_with("full"), "{error}");
    }
}

//! Numbers, times and durations in words.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::core::history::duration;

/// Count things: `1 problem`, `2 problems`.
pub(crate) fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Spell a time to the second, in UTC.
pub(crate) fn utc(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Spell the time that something took: with tenths of a second below a minute.
pub(crate) fn lasting(time: Duration) -> String {
    if time < Duration::from_secs(60) {
        format!("{:.1} s", time.as_secs_f32())
    } else {
        duration(time.as_secs())
    }
}

/// Parse a duration such as `90s`, `30m` or `1h 30m`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed: SignedDuration =
        text.parse().map_err(|_| "not a duration such as 90s, 30m or 1h".to_owned())?;
    Duration::try_from(parsed).map_err(|_| "a duration is not negative".to_owned())
}
